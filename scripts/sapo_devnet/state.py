"""Which devnet runs in a folder: a lock that its process holds, and a file that says what a stranger needs to join.

The lock is the kernel's, so it says what is true however the process ended.
"""

import argparse
import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from sapo_devnet.cache import cache_folder
from sapo_devnet.errors import DevnetError, DevnetUnable
from sapo_devnet.processes import full_disk
from sapo_verifier.errors import SapoError
from sapo_verifier.files import lock_file, write_file

STATE, LOCK, LOG, RUN = "devnet.json", "lock", "devnet.log", "run"
READY_SECONDS = 900.0  # with the building of the policy
STOP_SECONDS, KILL_SECONDS = 60.0, 5.0
POLL_SECONDS = 0.1


def folder_of(named: Path | None) -> Path:
    """The devnet's place: what was asked for, or the user's cache."""
    return (cache_folder() / "devnet" if named is None else named).resolve()


def claim(folder: Path) -> int:
    """Makes the folder this process's own for as long as it lives. Raises DevnetUnable where another one has it."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        held = lock_file(folder / LOCK)
    except OSError as error:
        raise DevnetUnable(f"{folder} cannot be used ({error.strerror}); name another one with --folder") from None
    if held is None:
        raise DevnetUnable(f"a devnet runs in {folder} already; end it with `sapo devnet down`, or name another folder")
    return held


def write(folder: Path, state: dict[str, Any]) -> None:
    write_file(folder / STATE, json.dumps(state, indent=1).encode() + b"\n", mode=0o600, synced="nothing")


def read(folder: Path) -> dict[str, Any]:
    """{} where there is none."""
    try:
        found = json.loads((folder / STATE).read_bytes())
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise DevnetUnable(f"{folder / STATE} cannot be read ({error}); remove it") from None
    return found if isinstance(found, dict) else {}


def running(folder: Path) -> bool:
    """Whether a process holds the folder."""
    if not (folder / LOCK).exists():
        return False
    held = lock_file(folder / LOCK)
    if held is not None:
        os.close(held)
    return held is None


def detach(folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    """Starts a devnet in a session of its own; what it says of itself once it is ready.

    Raises DevnetError with the end of its log where it is not. It ends with this process until it is ready, and then
    only by `stop`.
    """
    os.close(claim(folder))
    (folder / STATE).unlink(missing_ok=True)
    words = ["--folder", str(folder), "--formula", str(options.formula), "--port", str(options.port)]
    words += ["--round-seconds", str(options.round_seconds)]
    words += [] if options.nodes is None else ["--nodes", str(options.nodes)]
    words += [] if options.rounds is None else ["--rounds", str(options.rounds)]
    words += [] if options.policy is None else ["--policy", str(options.policy.resolve())]
    log = folder / LOG
    with log.open("wb") as file:
        process = subprocess.Popen(
            [sys.executable, "-m", "sapo_devnet.detached", *words],
            stdin=subprocess.PIPE,  # whose end tells it that nobody waits any more
            stdout=file,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    assert process.stdin is not None
    try:
        deadline = time.monotonic() + READY_SECONDS
        while not (found := read(folder)).get("ready"):
            if process.poll() is not None or time.monotonic() > deadline:
                end = "\n".join(log.read_text(errors="replace").splitlines()[-15:])
                kind = DevnetUnable if process.returncode == DevnetUnable.exit_status else DevnetError
                raise kind(f"the devnet did not start; its log {log} ends with:\n{end}{full_disk(log)}")
            time.sleep(POLL_SECONDS)
        process.stdin.write(b"ready\n")
        process.stdin.flush()
    except BaseException:
        if process.poll() is None:
            process.terminate()
            try:
                process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()  # what it started ends with it
                process.wait()
        raise
    return {"running": True, **found}


def stop(folder: Path) -> bool:
    """Ends the devnet of the folder and all that it started; whether there was one. Raises DevnetError if it stays."""
    if not running(folder):
        (folder / STATE).unlink(missing_ok=True)
        return False
    pid = _holder(folder)
    with contextlib.suppress(ProcessLookupError):  # it ends by itself just now
        os.kill(pid, signal.SIGTERM)
        if not _ended(folder, STOP_SECONDS):
            os.kill(pid, signal.SIGKILL)  # what it started ends with it
    if not _ended(folder, KILL_SECONDS):
        raise DevnetError(f"process {pid} still holds {folder}; see {folder / LOG}")
    (folder / STATE).unlink(missing_ok=True)
    return True


def _holder(folder: Path) -> int:
    """The number of the process that runs the devnet; it writes that as soon as it has the lock."""
    deadline = time.monotonic() + 5.0
    while time.monotonic() < deadline:
        if isinstance(pid := read(folder).get("pid"), int):
            return pid
        time.sleep(POLL_SECONDS)
    raise DevnetError(f"a process holds {folder / LOCK} and has not said which; `fuser {folder / LOCK}` tells")


def _ended(folder: Path, seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while running(folder):
        if time.monotonic() > deadline:
            return False
        time.sleep(POLL_SECONDS)
    return True


def status(folder: Path) -> dict[str, Any]:
    """What the devnet's file says, and the chain's round now. Raises DevnetUnable where there is none."""
    found = read(folder)
    if running(folder):
        try:
            return {"running": True, **found, **({"round": _round(found)} if found.get("ready") else {})}
        except SapoError:
            if not _ended(folder, KILL_SECONDS):  # its chain ends before it does
                raise
            found = read(folder)
    if "error" in found:
        return {"running": False, **found}
    raise DevnetUnable(f"no devnet runs in {folder}; start one with `sapo devnet up`")


def _round(found: dict[str, Any]) -> int:
    from sapo_verifier.chain.deployment import Deployment
    from sapo_verifier.chain.reader import open_chain

    with open_chain(Deployment.load(found["deployment"]), found["rpc"], timeout=5.0, tries=1) as reader:
        return reader.current_round()
