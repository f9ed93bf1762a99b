"""One process per home, whatever became of the last one."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from sapo_client.state.home import is_held, only_one
from sapo_verifier.errors import SapoError

HOLD = (
    "import sys, time; from pathlib import Path; from sapo_client.state.home import only_one\n"
    "with only_one(Path(sys.argv[1])): print('held', flush=True); time.sleep(60)"
)


def test_a_second_holder_is_refused_in_words(tmp_path: Path) -> None:
    with (
        only_one(tmp_path),
        pytest.raises(SapoError, match="stop it first, or choose another --home"),
        only_one(tmp_path),
    ):
        raise AssertionError("held twice")
    with only_one(tmp_path):
        pass


def test_looking_whether_a_home_is_held_does_not_hold_it(tmp_path: Path) -> None:
    assert not is_held(tmp_path)
    with only_one(tmp_path):
        assert is_held(tmp_path)
    assert not is_held(tmp_path)


def test_another_home_is_free(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    with only_one(tmp_path / "a"), only_one(tmp_path / "b"):
        pass


def test_the_kernel_lets_go_when_the_holder_is_killed(tmp_path: Path) -> None:
    holder = subprocess.Popen([sys.executable, "-c", HOLD, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(SapoError, match="another process runs the node"), only_one(tmp_path):
            raise AssertionError("held twice")
        os.kill(holder.pid, signal.SIGKILL)
        holder.wait(timeout=10)
        with only_one(tmp_path):
            pass
    finally:
        holder.kill()
        holder.communicate()


@pytest.mark.parametrize("mask", [0o000, 0o022])
def test_a_home_is_private_whatever_the_umask(tmp_path: Path, mask: int) -> None:
    """What was there, what is written, and what a process that is started writes."""
    home = tmp_path / "home"
    home.mkdir(mode=0o755)
    before = os.umask(mask)
    try:
        with only_one(home):
            (home / "file").touch()
            (home / "folder").mkdir()
            subprocess.run(["touch", home / "child's"], check=True)
        (tmp_path / "after").touch()
        assert os.umask(mask) == mask, "the process's own is as it was"
    finally:
        os.umask(before)
    modes = {path.name: path.stat().st_mode & 0o777 for path in [home, *home.iterdir(), tmp_path / "after"]}
    assert modes.pop("after") == 0o666 & ~mask
    assert modes == {"home": 0o700, "lock": 0o600, "file": 0o600, "folder": 0o700, "child's": 0o600}
