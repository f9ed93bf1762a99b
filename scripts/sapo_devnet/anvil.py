"""Anvil in a process of its own: found, started and awaited, for the devnet (chain.py) and tests (testkit/anvil.py)."""

import os
import re
import shutil
import time
from pathlib import Path
from typing import Any

from sapo_devnet.checkout import ROOT
from sapo_devnet.errors import DevnetUnable
from sapo_devnet.processes import Process, stop_all
from sapo_verifier.chain import rpc

READY_SECONDS = 60.0
PACKAGES = "@foundry-rs"  # npm's; the binary is in one of its own for each kind of machine
MISSING = (
    "there is no Anvil on PATH nor in ~/.foundry/bin: `npm install -g @foundry-rs/anvil` brings it, and so does "
    "Foundry's `foundryup`; in a checkout run scripts/setup"
)


def anvil_binary() -> Path:
    """This checkout's, else the one on PATH, else Foundry's. Raises DevnetUnable.

    Anvil itself, not npm's wrapper around it: killed, that would leave Anvil behind.
    """
    if ours := _packaged(ROOT / "node_modules" / PACKAGES):
        return ours
    home = os.environ.get("HOME")
    found = shutil.which("anvil") or (shutil.which("anvil", path=f"{home}/.foundry/bin") if home else None)
    if found is None:
        raise DevnetUnable(MISSING)
    for folder in Path(found).resolve().parents:
        if folder.name == PACKAGES and (inside := _packaged(folder)):
            return inside
    return Path(found)


def _packaged(packages: Path) -> Path | None:
    """npm lays the binary's package beside its own, or into it."""
    places = ("anvil-*/bin/anvil", f"anvil/node_modules/{PACKAGES}/anvil-*/bin/anvil")
    return next((found for place in places for found in packages.glob(place)), None)


class Anvil:
    """A chain with nothing on it yet. Whoever starts it stops it."""

    def __init__(self, log: Path, *options: str, port: int = 0) -> None:
        """log: may lie in a folder of one's own: the states of old blocks lie beside it until `stop`.

        port 0: any free one, chosen by Anvil itself, so that two never fight for it.
        """
        # By default it keeps them below ~/.foundry, 50 MB for a devnet, and leaves them there where it is killed.
        self.states = log.with_suffix(".states")
        command = [str(anvil_binary()), "--port", str(port), "--slots-in-an-epoch", "1"]
        command += ["--cache-path", str(self.states), *options]
        self.process = Process("anvil", command, log)
        self.url = self._wait_ready()
        self._sender = rpc.connect_for_sending(self.url)

    def _wait_ready(self) -> str:
        """Anvil prints where it listens once it does."""
        deadline = time.monotonic() + READY_SECONDS
        while time.monotonic() < deadline and self.process.exit_status() is None:
            if found := re.search(r"Listening on (\S+)\n", self.process.log.read_text()):
                return f"http://{found[1]}"
            time.sleep(0.02)
        self.stop()
        raise DevnetUnable(f"Anvil did not start; its log {self.process.end_of_log()}")

    def rpc(self, method: str, *params: Any) -> Any:
        """Raises SapoError where the chain refuses, or is not there any more."""
        with rpc.transport(self.url):
            return rpc.single(self._sender, method, list(params))

    def silence(self) -> None:
        """One line per request would fill the disk."""
        self.rpc("anvil_setLoggingEnabled", False)

    def block_number(self) -> int:
        return int(self.rpc("eth_blockNumber"), 16)

    def mine(self, blocks: int = 1) -> None:
        """Mines now; nothing for 0 or fewer. Of more than one block the first has the pool's transactions."""
        if blocks > 0:
            self.rpc("anvil_mine", hex(blocks))

    def mine_to(self, block: int) -> None:
        """Mines until `block` is the latest."""
        self.mine(block - self.block_number())

    def reorganize(self, depth: int) -> None:
        """Replaces the last `depth` blocks by empty ones; their transactions are gone."""
        # Blocks of the same second, parent and content have the same hash; another time makes them other blocks.
        self.rpc("evm_increaseTime", 7)
        self.rpc("anvil_reorg", depth, [])

    def stop(self) -> None:
        stop_all([self.process])
        if self.states.exists():
            shutil.rmtree(self.states)
