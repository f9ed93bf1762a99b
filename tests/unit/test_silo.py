"""Silo mode trains, and goes on where it stopped as if it had not."""

import json

import pytest

from sapo_client import cli
from sapo_client.batches import encoding
from sapo_client.node import silo
from sapo_client.policy.checkpoint import latest_checkpoint
from sapo_client.policy.policy import Policy
from sapo_client.state.report import RoundReport, read_rounds
from sapo_client.training.sapo import TrainConfig
from sapo_devnet.testkit.tiny_policy import tiny_folder
from sapo_verifier.networks import pocket_spec


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tiny_folder(tmp_path_factory.mktemp("pocket"))


@pytest.fixture(scope="module", autouse=True)
def easy_rewards():
    """A random policy earns nothing; here half of the texts do, so that there is something to learn."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(encoding, "rewards", lambda spec, task, texts, worker: [k % 2 == 0 for k in range(len(texts))])
        yield


def run(folder, home, rounds):
    spec = pocket_spec(folder)
    policy = Policy.load(folder, spec.bases[0])
    silo.train(home, spec, policy, TrainConfig(own_groups=2, external_groups=0), rounds=rounds, seed=3)
    return policy.weight_bytes()


def test_training_alone_as_it_is_typed(folder, tmp_path, capsys):
    """The base is found by its files; what no spec has is named with what it has."""
    (tmp_path / "spec.json").write_text(json.dumps(pocket_spec(folder).to_json()))
    words = ["train", "--policy", str(folder), "--rounds", "1", "--i", "2", "--home", str(tmp_path / "home")]
    assert cli.main([*words, "--spec", str(tmp_path / "spec.json")]) == 0
    assert [report["round"] for report in read_rounds(tmp_path / "home")] == [0]
    assert cli.main([*words[:-2], "--home", str(tmp_path / "rules"), "--base", "pocket"]) == 0
    assert read_rounds(tmp_path / "rules")[0]["completions"] == read_rounds(tmp_path / "home")[0]["completions"]
    assert cli.main([*words, "--spec", str(tmp_path / "spec.json"), "--base", "gpt-9"]) == 2
    assert "has no base 'gpt-9'; choose one of: pocket (0x" in capsys.readouterr().err
    other = tiny_folder(tmp_path / "other", seed=1)
    assert cli.main([*words, "--spec", str(tmp_path / "spec.json"), "--policy", str(other)]) == 3
    assert "holds no base of the network's spec, which has: pocket (0x" in capsys.readouterr().err
    assert cli.main([*words, "--spec", str(tmp_path / "spec.json"), "--policy", str(other), "--base", "pocket"]) == 3
    assert "base pocket with digest" in capsys.readouterr().err


@pytest.fixture(scope="module")
def whole(folder, tmp_path_factory):
    """Two rounds in one run: what is reported of them, and the weights in the end."""
    home = tmp_path_factory.mktemp("whole")
    weights = run(folder, home, 2)
    return read_rounds(home), weights


def test_a_run_in_two_parts_is_the_run_in_one(folder, tmp_path, whole):
    rounds, weights = whole
    assert run(folder, tmp_path, 1) != weights
    assert run(folder, tmp_path, 2) == weights
    for one, other in zip(rounds, read_rounds(tmp_path), strict=True):
        assert (one["round"], one["reward"], one["training"]) == (other["round"], other["reward"], other["training"])


def test_rounds_differ_and_are_counted(whole):
    first, second = whole[0]
    assert first["completions"] == second["completions"] == 16
    assert first["own_with_advantage"] > 0
    assert first["positions"] != second["positions"]  # other tasks, other streams


@pytest.mark.parametrize("crash", ["before", "after"])
def test_a_run_that_is_stopped_between_checkpoint_and_report_loses_neither(folder, tmp_path, monkeypatch, crash):
    append = RoundReport.append_to

    def stopped(report, home):
        if crash == "after":
            append(report, home)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(RoundReport, "append_to", stopped)
        with pytest.raises(KeyboardInterrupt):
            run(folder, tmp_path, 1)
    run(folder, tmp_path, 1)
    assert len((tmp_path / "rounds.jsonl").read_text().splitlines()) == 1
    checkpoint = latest_checkpoint(tmp_path / "checkpoints", pytest.fail)
    (report,) = read_rounds(tmp_path)
    kept = checkpoint.state["notes"] | checkpoint.state["report"]
    assert {name: report[name] for name in kept} == kept
    assert report["completions"] == 16
    assert report["training"]["samples"] > 0
