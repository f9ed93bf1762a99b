"""Checkpoints: resuming is exact, and a half-written one is passed over."""

import json
import os
from pathlib import Path

import pytest
import torch

from sapo_client.pocket import EOS_ID
from sapo_client.policy.checkpoint import CheckpointError, latest_checkpoint, save_checkpoint
from sapo_client.policy.policy import Policy
from sapo_client.training.groups import Group, Sample
from sapo_client.training.sapo import TrainConfig, make_optimizer, train_step
from sapo_devnet.testkit.tiny_policy import tiny_policy
from sapo_verifier.model.weights import WeightsError

CONFIG = TrainConfig(learning_rate=3e-3)
GROUPS = [
    Group(
        [Sample([5, 6], [10, EOS_ID], None, 1.0), Sample([5, 6], [11, 12], None, 0.0)],
        0,
        None,
        0,
        "0x" + "11" * 20,
        False,
    )
]


@pytest.fixture
def policy(tmp_path: Path) -> Policy:
    return tiny_policy(tmp_path / "base")


def trained(policy: Policy, steps: int = 2) -> torch.optim.Optimizer:
    optimizer = make_optimizer(policy, CONFIG)
    for _ in range(steps):
        train_step(policy, optimizer, GROUPS, CONFIG)
    return optimizer


@pytest.mark.parametrize("tied", [False, True])
def test_the_next_step_after_a_restart_is_the_same_bit_for_bit(tmp_path: Path, tied: bool) -> None:
    policy = tiny_policy(tmp_path / "base", tied=tied)
    optimizer = trained(policy)
    torch.manual_seed(77)
    save_checkpoint(tmp_path / "checkpoints", policy, optimizer, round_=2, state={"cursor": [1, 2]})
    random_after = torch.rand(3)
    train_step(policy, optimizer, GROUPS, CONFIG)
    resumed = tiny_policy(tmp_path / "base", tied=tied)
    resumed_optimizer = make_optimizer(resumed, CONFIG)
    checkpoint = latest_checkpoint(tmp_path / "checkpoints", pytest.fail)
    assert checkpoint is not None
    checkpoint.restore(resumed, resumed_optimizer)
    assert (checkpoint.round, checkpoint.state) == (2, {"cursor": [1, 2]})
    assert torch.equal(torch.rand(3), random_after)
    train_step(resumed, resumed_optimizer, GROUPS, CONFIG)
    assert resumed.weight_bytes() == policy.weight_bytes()
    without = tiny_policy(tmp_path / "base", tied=tied)
    without.load_weights((checkpoint.folder / "weights.safetensors").read_bytes())
    train_step(without, make_optimizer(without, CONFIG), GROUPS, CONFIG)
    assert without.weight_bytes() != policy.weight_bytes()  # so the optimizer's state matters


def test_an_untouched_policy_stays_untouched(tmp_path: Path, policy: Policy) -> None:
    """Else a restart before the first update would publish the base's weights once more, under another digest."""
    save_checkpoint(tmp_path / "c", policy, make_optimizer(policy, CONFIG), round_=0, state={})
    found = latest_checkpoint(tmp_path / "c", pytest.fail)
    assert found is not None
    found.restore(policy, make_optimizer(policy, CONFIG))
    assert policy.untouched


def test_a_new_learning_rate_survives_a_restart(tmp_path: Path, policy: Policy) -> None:
    """Who changes the setting and restarts means it."""
    save_checkpoint(tmp_path / "c", policy, trained(policy), round_=1, state={})
    slower = make_optimizer(policy, TrainConfig(learning_rate=1e-5))
    found = latest_checkpoint(tmp_path / "c", pytest.fail)
    assert found is not None
    found.restore(policy, slower)
    assert slower.param_groups[0]["lr"] == 1e-5
    assert len(slower.state) > 0


def test_only_the_last_ones_are_kept(tmp_path: Path, policy: Policy) -> None:
    optimizer = trained(policy)
    for round_ in (1, 2, 9, 10, 11):
        save_checkpoint(tmp_path / "c", policy, optimizer, round_=round_, state={}, keep=2)
    assert sorted(path.name for path in (tmp_path / "c").iterdir()) == ["round-00000010", "round-00000011"]


def test_saving_a_round_again_replaces_it(tmp_path: Path, policy: Policy) -> None:
    optimizer = trained(policy)
    save_checkpoint(tmp_path / "c", policy, optimizer, round_=1, state={"n": 1})
    save_checkpoint(tmp_path / "c", policy, optimizer, round_=1, state={"n": 2})
    found = latest_checkpoint(tmp_path / "c", pytest.fail)
    assert found is not None
    assert found.state == {"n": 2}


@pytest.mark.parametrize("name", ["weights.safetensors", "optimizer.safetensors", "rng.safetensors", "state.json"])
@pytest.mark.parametrize("damage", ["cut", "gone", "flipped"])
def test_a_damaged_checkpoint_is_passed_over_in_words(tmp_path: Path, policy: Policy, name: str, damage: str) -> None:
    optimizer = trained(policy)
    save_checkpoint(tmp_path / "c", policy, optimizer, round_=1, state={})
    newest = save_checkpoint(tmp_path / "c", policy, optimizer, round_=2, state={})
    data = (newest / name).read_bytes()
    if damage == "gone":
        (newest / name).unlink()
    else:
        (newest / name).write_bytes(data[: len(data) // 2] if damage == "cut" else data[:-1] + b"\x7f")
    said: list[str] = []
    found = latest_checkpoint(tmp_path / "c", said.append)
    assert found is not None
    assert found.round == 1
    assert len(said) == 1
    assert newest.name in said[0]


def test_one_that_was_never_finished_is_not_seen(
    tmp_path: Path, policy: Policy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The machine stops before the rename: the previous checkpoint stands, and the next save clears up."""
    optimizer = trained(policy)
    save_checkpoint(tmp_path / "c", policy, optimizer, round_=1, state={})

    def power_failure(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Path, "rename", power_failure)
        with pytest.raises(KeyboardInterrupt):
            save_checkpoint(tmp_path / "c", policy, optimizer, round_=2, state={})
    said: list[str] = []
    found = latest_checkpoint(tmp_path / "c", said.append)
    assert found is not None
    assert found.round == 1
    assert len(said) == 1
    save_checkpoint(tmp_path / "c", policy, optimizer, round_=2, state={})
    assert len(list((tmp_path / "c").iterdir())) == 2
    found = latest_checkpoint(tmp_path / "c", pytest.fail)
    assert found is not None
    assert found.round == 2


def test_everything_is_on_disk_before_it_gets_its_name(
    tmp_path: Path, policy: Policy, monkeypatch: pytest.MonkeyPatch
) -> None:
    events: list[str] = []
    fsync, rename = os.fsync, Path.rename
    monkeypatch.setattr(os, "fsync", lambda fd: (events.append("sync"), fsync(fd))[1])
    monkeypatch.setattr(Path, "rename", lambda self, to: (events.append("rename"), rename(self, to))[1])
    save_checkpoint(tmp_path / "c", policy, trained(policy), round_=1, state={})
    assert events == ["sync"] * 5 + ["rename", "sync"]


def test_no_checkpoint_is_none(tmp_path: Path) -> None:
    assert latest_checkpoint(tmp_path / "nothing", pytest.fail) is None


def test_no_pickle(tmp_path: Path, policy: Policy) -> None:
    folder = save_checkpoint(tmp_path / "c", policy, trained(policy), round_=1, state={})
    for path in folder.iterdir():
        assert path.suffix in {".safetensors", ".json"}
    json.loads((folder / "state.json").read_text())


def test_another_bases_checkpoint_is_refused(tmp_path: Path, policy: Policy) -> None:
    save_checkpoint(tmp_path / "c", policy, trained(policy), round_=1, state={})
    wider = tiny_policy(tmp_path / "wider", rows=80)
    found = latest_checkpoint(tmp_path / "c", pytest.fail)
    assert found is not None
    with pytest.raises(WeightsError, match="is F32"):
        found.restore(wider, make_optimizer(wider, CONFIG))


def test_a_disk_that_refuses_is_said_in_words(tmp_path: Path, policy: Policy) -> None:
    (tmp_path / "c").write_text("a file where the folder should be")
    with pytest.raises(CheckpointError, match="could not be written"):
        save_checkpoint(tmp_path / "c", policy, trained(policy), round_=1, state={})
