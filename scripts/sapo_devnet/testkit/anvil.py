"""A real Anvil in its own process, on a free port, for tests."""

import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from eth_account import Account
from eth_account.signers.local import LocalAccount
from web3 import HTTPProvider, Web3

from sapo_devnet.checkout import ROOT

MNEMONIC = "test test test test test test test test test test test junk"  # Foundry's; worth nothing anywhere
READY_SECONDS = 30.0


@dataclass
class Anvil:
    url: str
    process: subprocess.Popen[str]
    w3: Web3

    def rpc(self, method: str, *params: Any) -> Any:
        answer: dict[str, Any] = self.w3.provider.make_request(method, list(params))
        if "error" in answer:
            raise RuntimeError(f"{method}: {answer['error']}")
        return answer["result"]

    def mine(self, blocks: int = 1) -> None:
        """Mines now. More than one block goes through anvil_mine; the pool's transactions are in the first."""
        if blocks > 0:
            self.rpc("anvil_mine", hex(blocks))

    def mine_to(self, block: int) -> None:
        """Mines until `block` is the latest."""
        self.mine(block - self.w3.eth.block_number)

    def reorg(self, depth: int) -> None:
        """Replaces the last `depth` blocks by empty ones; their transactions are gone."""
        # Blocks of the same second, parent and content have the same hash; another time makes them other blocks.
        self.rpc("evm_increaseTime", 7)
        self.rpc("anvil_reorg", depth, [])

    def account(self, i: int) -> LocalAccount:
        """One of the ten accounts that hold 10,000 coins."""
        Account.enable_unaudited_hdwallet_features()
        made: LocalAccount = Account.from_mnemonic(MNEMONIC, account_path=f"m/44'/60'/0'/0/{i}")
        return made

    def stop(self) -> None:
        self.process.terminate()
        try:
            self.process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def anvil_binary() -> str:
    local = ROOT / "node_modules" / ".bin" / "anvil"
    found = str(local) if local.exists() else shutil.which("anvil")
    if found is None:
        raise RuntimeError("no anvil: run scripts/setup")
    return found


@contextmanager
def anvil(*options: str, port: int = 0, mining: bool = True) -> Iterator[Anvil]:
    """Anvil while the block lasts. mining: a block for every transaction; otherwise only `mine` makes blocks.

    port 0: any free one, chosen by Anvil itself, so that two never fight for it.
    """
    command = [anvil_binary(), "--port", str(port), "--mnemonic", MNEMONIC, "--slots-in-an-epoch", "1"]
    command += [] if mining else ["--no-mining"]
    process = subprocess.Popen(
        [*command, *options], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, text=True
    )
    try:
        url = _wait_until_ready(process)
        chain = Anvil(url, process, Web3(HTTPProvider(url)))
        # Nobody reads on; a full pipe would stop Anvil.
        chain.rpc("anvil_setLoggingEnabled", False)
        yield chain
    finally:
        Anvil("", process, Web3()).stop()
        if process.stdout is not None:
            process.stdout.close()


def _wait_until_ready(process: "subprocess.Popen[str]") -> str:
    """Anvil prints where it listens once it does."""
    assert process.stdout is not None
    deadline = time.monotonic() + READY_SECONDS
    printed = []
    while time.monotonic() < deadline:
        line = process.stdout.readline()
        if not line:
            raise RuntimeError(f"anvil ended with {process.wait()}: {''.join(printed)[-2000:]}")
        printed.append(line)
        if line.startswith("Listening on "):
            return "http://" + line.split()[-1].strip()
    raise RuntimeError(f"anvil was not ready in {READY_SECONDS:.0f} seconds")
