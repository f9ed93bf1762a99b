"""`sapo-verify check` on bundles that are made up: what this machine lacks is unknown, what is bad is told."""

import json
from pathlib import Path
from typing import Any

import pytest

from sapo_devnet.formula.policy import write_tokenizer
from sapo_devnet.testkit.formula import Draft, small_spec
from sapo_lab.sweeps.made_up import car_of, sections_of
from sapo_verifier import cli
from sapo_verifier.checks import CHECKS

NAMES = [check.__name__ for check in CHECKS]


def checked(draft: Draft, folder: Path, capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, dict[str, Any]]:
    """Exit status, and the outcomes by name."""
    (folder / "x.car").write_bytes(car_of(sections_of(draft.seal())))
    status = cli.main(["check", str(folder / "x.car"), "--json", *words])
    return status, {each["check"]: each for each in json.loads(capsys.readouterr().out)["outcomes"]}


def test_what_needs_a_base_is_unknown(draft: Draft, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, found = checked(draft, tmp_path, capsys)
    assert status == 0
    assert {name: found[name]["status"] for name in NAMES if found[name]["status"] != "pass"} == {
        "text": "unknown",
        "policy": "unknown",
    }


def test_where_other_tasks_are_made_tasks_are_unknown(
    draft: Draft, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """And what needs none is checked all the same; never is a batch false because this machine deals otherwise."""
    draft.spec = small_spec(versions={"reasoning_gym": "0.0.1", "digest": "0x" + "ab" * 32})
    status, found = checked(draft, tmp_path, capsys)
    assert status == 0
    unknown = {name for name in NAMES if found[name]["status"] == "unknown"}
    assert unknown == {"task", "text", "reward", "policy"}
    assert "needs reasoning_gym 0.0.1" in found["task"]["reason"]


def test_a_false_batch_fails_as_it_does_on_the_network(
    draft: Draft, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    draft.claim(1, 2, not draft.claimed(1, 2))
    status, found = checked(draft, tmp_path, capsys)
    last = found[list(found)[-1]]
    assert (status, last["check"], last["status"], last["slot"], last["k"]) == (1, "reward", "fail", 1, 2)


def test_without_weights_the_model_is_not_asked(
    draft: Draft, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    draft.policy |= {"kind": "full", "size": 100, "blocks": ["0x" + "ab" * 32]}
    (tmp_path / "x.car").write_bytes(car_of(sections_of(draft.seal())))
    write_tokenizer(tmp_path)
    assert cli.main(["check", str(tmp_path / "x.car"), "--model", "--base-folder", str(tmp_path)]) == 1
    shown = capsys.readouterr().out
    assert "the bundle has no weights: make it with `sapo-verify export --weights`" in shown
    assert "sampling   fail" in shown, "another policy's stream forces other tokens"


def test_what_is_no_bundle_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "x.car").write_bytes(b"no bundle")
    assert cli.main(["check", str(tmp_path / "x.car"), "--json"]) == 1
    shown = capsys.readouterr()
    assert "is no bundle" in shown.err
    assert json.loads(shown.out)["status"] == 1
    assert cli.main(["check", str(tmp_path / "nowhere.car")]) == 2
