"""Starts a real embedded IPFS daemon for a test, and always stops it."""

import contextlib
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import sapo_verifier

_READY = re.compile(r"sapo ipfs ready api=http://127\.0\.0\.1:(\d+) gateway=http://127\.0\.0\.1:(\d+) ")
_SOURCES = Path(sapo_verifier.__file__).parents[1]


@dataclass(frozen=True)
class Daemon:
    """`api` and `gateway` are multiaddrs, `*_url` the same as URLs."""

    api: str
    gateway: str
    api_url: str
    gateway_url: str
    repo: Path
    process: "subprocess.Popen[str]"


def daemon_command(repo: Path, *options: str) -> list[str]:
    """The command line of a daemon on free ports of the loopback interface."""
    command = [sys.executable, "-m", "sapo_verifier.ipfs.daemon.serve", "--repo", str(repo)]
    return [*command, "--api", "127.0.0.1:0", "--gateway", "127.0.0.1:0", "--exit-with-stdin", *options]


def spawn(command: list[str]) -> "subprocess.Popen[str]":
    """Starts a command that finds our packages; its standard input stays open until the test lets go."""
    path = os.pathsep.join(filter(None, [str(_SOURCES), os.environ.get("PYTHONPATH")]))
    pipe = subprocess.PIPE
    environment = {**os.environ, "PYTHONPATH": path}
    return subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True, env=environment)


@contextlib.contextmanager
def ipfs_daemon(
    path: Path, *, peers: tuple[str, ...] = (), allow_private: bool = True, options: tuple[str, ...] = ()
) -> Iterator[Daemon]:
    """A running daemon with its repository in `path`/ipfs. Checks that it ends cleanly unless the test killed it."""
    repo = path / "ipfs"
    extra = [word for peer in peers for word in ("--peer", peer)] + ["--allow-private"] * allow_private
    process = spawn(daemon_command(repo, *extra, *options))
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        ready = _READY.match(line)
        if ready is None:
            process.kill()
            raise AssertionError(f"the daemon did not start: {line!r} {process.communicate()[1]}")
        api, gateway = ready.groups()
        yield Daemon(
            f"/ip4/127.0.0.1/tcp/{api}/http",
            f"/ip4/127.0.0.1/tcp/{gateway}/http",
            f"http://127.0.0.1:{api}",
            f"http://127.0.0.1:{gateway}",
            repo,
            process,
        )
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
            _, errors = process.communicate(timeout=20)
            assert process.returncode == 0, errors
            assert errors == "", "a daemon that is stopped says nothing"
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()
