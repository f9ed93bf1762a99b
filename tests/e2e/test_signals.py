"""However a devnet ends, nothing of it is left."""

import json
import re
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from devnet_run import STOP_SECONDS, start_devnet
from processes import descendants, remaining, users_of, wait_until


@pytest.fixture
def busy(tmp_path: Path, random_policy: Path) -> Iterator[tuple["subprocess.Popen[bytes]", Path]]:
    """A devnet of two nodes in the middle of a round: its process and its folder."""
    process = start_devnet(tmp_path, "--nodes", "2", "--rounds", "1000", "--policy", str(random_policy))

    def in_a_round() -> bool:
        assert process.poll() is None, (tmp_path / "out.log").read_text()
        return bool(re.search(r"round +1 \(", (tmp_path / "out.log").read_text())) and _phase(tmp_path) in (
            "generating",
            "auditing",
            "training",
        )

    try:
        wait_until("a node is in the middle of a round", in_a_round, seconds=120, poll=0.01)
        yield process, tmp_path
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_stops_everything(busy: tuple["subprocess.Popen[bytes]", Path], number: signal.Signals) -> None:
    process, folder = busy
    children = descendants(process.pid)
    assert len(children) >= 5
    process.send_signal(number)
    assert process.wait(timeout=STOP_SECONDS) == 130, (folder / "out.log").read_text()
    assert not remaining(children)
    assert not users_of(folder)
    output = (folder / "out.log").read_text()
    assert "Traceback" not in output
    assert "had to be killed" not in output
    for log in folder.rglob("*.log"):
        assert "Traceback" not in log.read_text(), log


def test_after_kill_9_its_children_end_too(busy: tuple["subprocess.Popen[bytes]", Path]) -> None:
    process, folder = busy
    children = descendants(process.pid)
    process.kill()
    wait_until("its children end", lambda: not remaining(children), seconds=20)
    assert not users_of(folder)


def _phase(folder: Path) -> str:
    path = folder / "data" / "node0" / "status.json"
    return str(json.loads(path.read_text())["phase"]) if path.exists() else ""
