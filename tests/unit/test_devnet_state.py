"""Which devnet runs in a folder, and how it is ended, also one that does not want to or whose parent is gone."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from sapo_devnet import state
from sapo_devnet.checkout import ROOT
from sapo_devnet.errors import DevnetUnable
from sapo_verifier.errors import SapoError

HOLDER = """
import os, signal, sys, time
from pathlib import Path
from sapo_devnet import state

folder = Path(sys.argv[1])
if sys.argv[2] == "deaf":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
state.claim(folder)
state.write(folder, {"pid": os.getpid()})
print("here", flush=True)
time.sleep(600)
"""


def holder(folder: Path, kind: str) -> "subprocess.Popen[str]":
    path = os.pathsep.join(filter(None, [str(ROOT / "scripts"), os.environ.get("PYTHONPATH")]))
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(folder), kind],
        env={**os.environ, "PYTHONPATH": path},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "here\n"
    process.stdout.close()
    return process


@pytest.mark.parametrize("kind", ["hearing", "deaf"])
def test_one_that_runs_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    monkeypatch.setattr(state, "STOP_SECONDS", 1.0)
    process = holder(tmp_path, kind)
    assert state.status(tmp_path)["running"]
    with pytest.raises(DevnetUnable, match=r"runs in .* already; end it with `sapo devnet down`"):
        state.claim(tmp_path)
    assert state.stop(tmp_path)
    assert process.wait(10) < 0
    assert not state.stop(tmp_path)
    with pytest.raises(DevnetUnable, match="no devnet runs in"):
        state.status(tmp_path)


def test_one_that_was_killed_is_not_there_and_another_can_begin(tmp_path: Path) -> None:
    process = holder(tmp_path, "hearing")
    process.kill()
    process.wait()
    with pytest.raises(DevnetUnable, match="no devnet runs in"):
        state.status(tmp_path)
    os.close(state.claim(tmp_path))


def test_one_that_failed_says_why(tmp_path: Path) -> None:
    state.write(tmp_path, {"pid": 1, "error": "anvil has ended"})
    assert state.status(tmp_path) == {"running": False, "pid": 1, "error": "anvil has ended"}


def test_a_folder_that_cannot_be_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(DevnetUnable, match="name another one with --folder"):
        state.claim(tmp_path / "file" / "net")
    (tmp_path / "devnet.json").write_text("{")
    with pytest.raises(DevnetUnable, match="cannot be read"):
        state.status(tmp_path)


def test_one_that_ends_by_itself_in_that_moment_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`down` finds it gone, and `status` its chain, which ends before its process does."""
    held = [state.claim(tmp_path)]

    def gone(*_: object) -> None:
        os.close(held.pop())
        raise ProcessLookupError

    state.write(tmp_path, {"pid": os.getpid()})
    monkeypatch.setattr(os, "kill", gone)
    assert state.stop(tmp_path)

    def unreachable(_: object) -> int:
        state.write(tmp_path, {"pid": 1, "error": "anvil has ended"})
        os.close(held.pop())
        raise SapoError("the chain does not answer")

    held.append(state.claim(tmp_path))
    state.write(tmp_path, {"pid": 1, "ready": True})
    monkeypatch.setattr(state, "_round", unreachable)
    assert state.status(tmp_path) == {"running": False, "pid": 1, "error": "anvil has ended"}
