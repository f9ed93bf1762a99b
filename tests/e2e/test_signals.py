"""However a devnet ends, nothing of it is left."""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from devnet_run import STOP_SECONDS, start_devnet
from sapo_devnet.checkout import ROOT
from sapo_devnet.testkit.alive import descendants, remaining, users_of, wait_until


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


def test_an_anvil_that_dies_ends_the_devnet_in_words(tmp_path: Path, random_policy: Path) -> None:
    process = start_devnet(tmp_path, "--nodes", "1", "--rounds", "1000", "--policy", str(random_policy))
    log = tmp_path / "out.log"
    try:
        wait_until("its node runs", lambda: "1 nodes started" in log.read_text(), seconds=60)
        children = descendants(process.pid)
        (chain,) = [pid for pid, command in users_of(tmp_path).items() if "bin/anvil" in command]
        os.kill(chain, signal.SIGKILL)
        assert process.wait(timeout=STOP_SECONDS) == 1, log.read_text()
    finally:
        process.kill()
        process.wait()
    assert "devnet: anvil has ended" in log.read_text()
    assert "Traceback" not in log.read_text()
    assert not remaining(children)
    assert not users_of(tmp_path)


KEEPER = """
import sys, time
from pathlib import Path
from devnet_run import start_devnet
start_devnet(Path(sys.argv[1]), "--nodes", "1", "--rounds", "1000", "--policy", sys.argv[2])
time.sleep(600)
"""


def test_a_devnet_of_a_test_run_that_is_killed_ends_with_it(tmp_path: Path, random_policy: Path) -> None:
    command = [sys.executable, "-c", KEEPER, str(tmp_path), str(random_policy)]
    path = os.pathsep.join([str(ROOT / "tests"), str(ROOT / "scripts"), os.environ.get("PYTHONPATH", "")])
    parent = subprocess.Popen(command, env={**os.environ, "PYTHONPATH": path}, stdin=subprocess.DEVNULL)
    try:
        wait_until("the daemon of a node runs", lambda: len(descendants(parent.pid)) >= 3, seconds=60)
        children = descendants(parent.pid)
    finally:
        parent.kill()
        parent.wait()
    wait_until("all of it ends", lambda: not remaining(children), seconds=STOP_SECONDS)
    assert not users_of(tmp_path)


def test_a_start_that_fails_half_way_leaves_nothing(tmp_path: Path, random_policy: Path) -> None:
    """The second node's home is taken by a file: Anvil and the first daemon run already."""
    (tmp_path / "sitecustomize.py").write_text(
        "from pathlib import Path\n"
        "make = Path.mkdir\n"
        "def mkdir(self, *args, **kwargs):\n"
        "    if self.name == 'node1':\n"
        "        raise FileExistsError(self)\n"
        "    make(self, *args, **kwargs)\n"
        "Path.mkdir = mkdir\n"
    )
    command = [sys.executable, "-m", "sapo_devnet", "--nodes", "2", "--policy", str(random_policy)]
    path = os.pathsep.join([str(tmp_path), str(ROOT / "scripts"), os.environ.get("PYTHONPATH", "")])
    ended = subprocess.run(
        [*command, "--data", str(tmp_path / "data")],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ended.returncode == 1
    assert "node1" in ended.stderr
    assert (tmp_path / "data" / "node0" / "ipfs.log").exists(), "something was started"
    assert not users_of(tmp_path)


def _phase(folder: Path) -> str:
    path = folder / "data" / "node0" / "status.json"
    return str(json.loads(path.read_text())["phase"]) if path.exists() else ""
