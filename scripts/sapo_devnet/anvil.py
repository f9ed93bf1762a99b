"""Anvil in a process of its own: found, started and awaited, for the devnet (chain.py) and tests (testkit/anvil.py)."""

import re
import shutil
import time
from pathlib import Path
from typing import Any

from sapo_devnet.checkout import ROOT
from sapo_devnet.processes import Process, stop_all
from sapo_verifier.chain import rpc
from sapo_verifier.errors import SapoError

READY_SECONDS = 60.0


def anvil_binary() -> Path:
    """Anvil itself, not npm's wrapper around it: killed, that would leave Anvil behind."""
    packages = ROOT / "node_modules" / "@foundry-rs"
    found = next(packages.glob("anvil-*/bin/anvil"), None) or shutil.which("anvil")
    if found is None:
        raise SapoError("there is no Anvil in node_modules nor on PATH; run scripts/setup")
    return Path(found)


class Anvil:
    """A chain with nothing on it yet. Whoever starts it stops it."""

    def __init__(self, log: Path, *options: str, port: int = 0) -> None:
        """port 0: any free one, chosen by Anvil itself, so that two never fight for it."""
        command = [str(anvil_binary()), "--port", str(port), "--slots-in-an-epoch", "1", *options]
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
        raise SapoError(f"Anvil did not start; its log {self.process.log} ends with:\n{self.process.last_words()}")

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

    def stop(self) -> None:
        stop_all([self.process])
