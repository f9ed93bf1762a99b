"""Whose IPFS daemon keeps a node's blocks: its own, started here and ended with it, or an external one, which is waited
for and never replaced."""

import logging
import os
import subprocess
import sys
import threading
import time
from contextlib import ExitStack
from pathlib import Path

from sapo_client.node.patience import DAEMON, LONGEST_WAIT, Absence
from sapo_client.state import home as layout
from sapo_client.state.ports import free_ports, own_addresses, why_taken
from sapo_client.state.report import StatusFile
from sapo_client.state.settings import IpfsSettings
from sapo_verifier.backoff import Backoff
from sapo_verifier.errors import UnableError
from sapo_verifier.files import lock_file
from sapo_verifier.ipfs import BlockStore, DaemonAway, StoreFailed, parse_endpoint

log = logging.getLogger(__name__)

PHASE = "waiting for the IPFS daemon"
READY_SECONDS = 120.0  # for the embedded daemon on a slow machine
LEFT_SECONDS = 10.0  # for that of a node that was killed: it ends when it finds that out
FIRST_WAIT = 0.5


def open_store(
    home: Path, ipfs: IpfsSettings, status: StatusFile, stop: threading.Event, stack: ExitStack
) -> BlockStore:
    """The store, once its daemon answers, or `stop` is set. stack: closes the store, and ends the embedded daemon.

    Raises UnableError where the embedded one cannot start, DaemonAway when the patience with an external one ends, and
    StoreFailed where what answers refuses, or is no IPFS daemon.
    """
    store = stack.enter_context(
        BlockStore(
            ipfs.api,
            allow_private=ipfs.allow_private,
            timeout=ipfs.seconds_per_source,
            credentials=ipfs.credentials(home),
        )
    )
    if ipfs.daemon == "external":
        _wait(store, Absence(log, ipfs.patience_minutes, FIRST_WAIT, DAEMON), status, stop)
    else:
        _start(home / layout.BLOCKS, ipfs, store, stack)
    return store


def _wait(store: BlockStore, absence: Absence, status: StatusFile, stop: threading.Event) -> None:
    phase = status.get("phase")
    while not stop.is_set():
        try:
            store.stat()
        except DaemonAway as error:
            status.update(phase=PHASE, trouble=str(error))
            stop.wait(absence.seen(error))
        else:
            absence.over()
            status.update(phase=phase, trouble="")
            return


def _start(repo: Path, ipfs: IpfsSettings, store: BlockStore, stack: ExitStack) -> None:
    api, gateway = (parse_endpoint(address, allow_private=True) for address in (ipfs.api, ipfs.gateway))
    _refuse_repo(repo)
    if (error := why_taken(api.host, api.port)) is not None:
        what = "an IPFS daemon answers already" if _answers(store) else f"nothing can listen ({error.strerror})"
        one, two = own_addresses()
        raise UnableError(
            f"this node starts an IPFS daemon of its own ([ipfs] daemon is embedded), but at {ipfs.api} {what}. Either "
            'have the node use the daemon that is there, with [ipfs] daemon = "external" in node.toml, or give its own '
            f'free ports, such as [ipfs] api = "{one}" and gateway = "{two}"'
        )
    if (error := why_taken(gateway.host, gateway.port)) is not None:
        raise UnableError(
            f"the embedded IPFS daemon's gateway cannot listen on {gateway.host}:{gateway.port} ({error.strerror}): "
            f"stop what is there, or set [ipfs] gateway in node.toml to a free port, such as {free_ports(1)[0]}, and "
            "lead peers there (router, proxy, [ipfs] endpoint)"
        )
    log.info("starting the embedded IPFS daemon: API at %s, gateway at %s", ipfs.api, ipfs.gateway)
    command = [sys.executable, "-m", "sapo_verifier.ipfs.daemon.serve", "--repo", str(repo)]
    command += ["--api", f"{api.host}:{api.port}", "--gateway", f"{gateway.host}:{gateway.port}"]
    command += ["--exit-with-stdin"]  # so that it never outlives us, whatever ends us
    daemon = _Embedded(command)
    stack.callback(daemon.end)
    deadline = time.monotonic() + READY_SECONDS
    while not _answers(store):
        if (status := daemon.process.poll()) is not None or time.monotonic() > deadline:
            raise UnableError(f"the embedded IPFS daemon did not start (exit status {status}); its words are above")
        time.sleep(0.2)
    threading.Thread(target=daemon.look_after, name="ipfs", daemon=True).start()


class _Embedded:
    """The daemon's process; one that ends by itself is started again, for as long as the node has patience."""

    def __init__(self, command: list[str]) -> None:
        self._command = command
        self._over = threading.Event()
        self._lock = threading.Lock()  # none is started after `end`
        self.process = self._spawn()

    def look_after(self) -> None:
        waits = Backoff(FIRST_WAIT, LONGEST_WAIT)
        while True:
            status = self.process.wait()
            if self._over.wait(waits.next()):
                return
            log.error("the embedded IPFS daemon has ended (exit status %s); it is started again", status)
            with self._lock:
                if self._over.is_set():
                    return
                self.process = self._spawn()

    def end(self) -> None:
        with self._lock:
            self._over.set()
        self.process.terminate()
        try:
            self.process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def _spawn(self) -> "subprocess.Popen[bytes]":
        return subprocess.Popen(self._command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)


def _refuse_repo(repo: Path) -> None:
    """Raises UnableError where another daemon has the blocks, and keeps them."""
    repo.mkdir(parents=True, exist_ok=True)
    lock, deadline = repo / "repo.lock", time.monotonic() + LEFT_SECONDS
    while (looked := lock_file(lock, shared=True)) is None:
        if time.monotonic() > deadline:
            owner = lock.read_bytes()[:20].decode("ascii", "replace").strip()
            raise UnableError(
                f"another IPFS daemon (process {owner}) has the blocks in {repo}: stop it, or have the node use "
                'it, with [ipfs] daemon = "external" in node.toml and its RPC as [ipfs] api'
            )
        time.sleep(0.2)
    os.close(looked)


def _answers(store: BlockStore) -> bool:
    try:
        store.stat()
    except StoreFailed:
        return False
    return True
