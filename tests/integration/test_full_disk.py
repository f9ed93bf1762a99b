"""A devnet on a disk that is really full: it ends in words, names the logs, and leaves no processes.

The disk is a small tmpfs in a mount namespace of its own. Where there may be none, a limit of a file's size has to do.
"""

import os
import subprocess
import sys
from pathlib import Path

from sapo_devnet.checkout import ROOT
from sapo_devnet.testkit.alive import users_of

DISK = 'mount -t tmpfs -o size=8m tmpfs "$0" && exec "$@"'
ALONE = ["unshare", "--map-root-user", "--mount", "/bin/sh", "-c", DISK]
LIMITED = ["/bin/bash", "-c", 'trap "" XFSZ; ulimit -f "$0"; exec "$@"']
MAY_MOUNT = subprocess.run([*ALONE, "/mnt", "true"], capture_output=True, check=False).returncode == 0
SMALL, NONE = "48", "0"  # KiB: what a devnet writes until it plays, and nothing at all

FILL = """
import sys
from pathlib import Path

disk = Path(sys.argv[1])

def fill():
    with (disk / "filler").open("wb", buffering=0) as file:
        size = 1 << 16
        while size:
            try:
                file.write(bytes(size))
            except OSError:
                size //= 2
"""
PLAYS = (
    FILL
    + """
from sapo_devnet import Devnet, DevnetError

if sys.argv[2] == "full":
    fill()
try:
    with Devnet(formula=1, pace="hand", folder=disk / "net") as net:
        if sys.argv[2] == "fills":
            fill()
        net.until_round(net.round + 8, 30)
except DevnetError as error:
    print(error)
"""
)
COMMAND = (
    FILL
    + """
import subprocess

if sys.argv[2] == "full":
    fill()
up = [sys.executable, "-m", "sapo_client", "devnet", "up", "--formula", "1", "--folder", str(disk / "net")]
for more in ([], ["--detach"]):
    done = subprocess.run([*up, *more], capture_output=True, text=True)
    assert done.returncode == 3, done
    print(done.stdout, done.stderr)
"""
)


def said(folder: Path, program: str, *words: str, limit: str = NONE) -> str:
    """What the program prints, with the folder as its disk. limit: of a file, where that has to do."""
    path = os.pathsep.join(filter(None, [str(ROOT / "scripts"), os.environ.get("PYTHONPATH")]))
    around = [*ALONE, folder] if MAY_MOUNT else [*LIMITED, limit]
    words = words if MAY_MOUNT else ("limited",)
    done = subprocess.run(
        [*around, sys.executable, "-c", program, folder, *words],
        env={**os.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Traceback" not in done.stdout + done.stderr
    assert not users_of(folder)
    return done.stdout


def test_where_it_is_full_none_starts(tmp_path: Path) -> None:
    told = said(tmp_path, PLAYS, "full")
    assert f"Anvil did not start; its log {tmp_path}/net/anvil.log" in told
    assert "the disk that it is on is full: make room" in told or not MAY_MOUNT


def test_one_that_plays_ends_when_it_fills_up(tmp_path: Path) -> None:
    told = said(tmp_path, PLAYS, "fills", limit=SMALL)
    assert "the disk took no more" in told
    assert f"the logs are in {tmp_path}/net" in told


def test_the_command_says_so_too(tmp_path: Path) -> None:
    told = said(tmp_path, COMMAND, "full")
    assert str(tmp_path / "net") in told
