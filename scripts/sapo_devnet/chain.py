"""The devnet's chain: Anvil with the contracts, and a clock of its own.

Blocks are mined when there are transactions, and a round ends when every live node is done with it, or a limit passes:
a slow machine loses no round, and a fast one does not wait.
"""

import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sapo_devnet.processes import Process
from sapo_verifier.chain import rpc
from sapo_verifier.chain.deploying import deploy
from sapo_verifier.chain.deployment import Deployment
from sapo_verifier.errors import SapoError
from sapo_verifier.spec import Spec

READY_SECONDS = 60.0
FUNDS = 100 * 10**18  # wei for each node: the bond and gas
POLL_SECONDS = 0.1
MINER = "0x00000000000000000000000000000000000000fe"  # gets the fees: Anvil's own choice is where burned coins go
MARGIN_BLOCKS = 2  # a round's last blocks are left for its end


def anvil_binary(root: Path) -> Path:
    """Anvil itself, not npm's wrapper around it: killed, that would leave Anvil behind."""
    found = sorted((root / "node_modules" / "@foundry-rs").glob("anvil-*/bin/anvil"))
    return found[0] if found else root / "node_modules" / ".bin" / "anvil"


class Chain:
    """Anvil, mined by `Clock` alone once the contracts are there."""

    def __init__(self, root: Path, log: Path) -> None:
        command = [str(anvil_binary(root)), "--port", "0", "--slots-in-an-epoch", "1"]
        self.process = Process("anvil", command, log)
        self.url = self._wait_ready()
        self._w3 = rpc.connect_for_sending(self.url)
        self.rpc("anvil_setCoinbase", MINER)

    def _wait_ready(self) -> str:
        deadline = time.monotonic() + READY_SECONDS
        while time.monotonic() < deadline and self.process.exit_status() is None:
            if found := re.search(r"Listening on (\S+)", self.process.log.read_text()):
                return f"http://{found[1]}"
            time.sleep(0.05)
        raise SapoError(f"Anvil did not start; its log {self.process.log} ends with:\n{self.process.last_words()}")

    def deploy(self, root: Path, spec: Spec, room: int) -> Deployment:
        """The contracts, with round 0 beginning after `room` blocks, in which nodes can register."""
        owner = str(self.rpc("eth_accounts")[0])
        deployment = deploy(self._w3, owner, spec, artifacts=root / "out", first_block=self._w3.eth.block_number + room)
        self.rpc("anvil_setLoggingEnabled", False)  # one line per request would fill the disk
        self.rpc("evm_setAutomine", False)
        return deployment

    def fund(self, address: str) -> None:
        self.rpc("anvil_setBalance", address, hex(FUNDS))

    def rpc(self, method: str, *params: Any) -> Any:
        """Raises SapoError where the chain refuses, or is not there any more."""
        with rpc.transport(self.url):
            answer: dict[str, Any] = self._w3.provider.make_request(method, list(params))  # type: ignore[arg-type,assignment]
        if "error" in answer:
            raise SapoError(f"the devnet's chain refuses {method}: {answer['error']}")
        return answer["result"]

    def block_number(self) -> int:
        return int(self.rpc("eth_blockNumber"), 16)

    def mine(self, blocks: int) -> None:
        self.rpc("anvil_mine", hex(blocks))

    def has_pending(self) -> bool:
        return int(self.rpc("txpool_status")["pending"], 16) > 0


class Clock:
    """Lets rounds end when the nodes are done with them."""

    def __init__(self, chain: Chain, deployment: Deployment, limit_seconds: float) -> None:
        self._chain = chain
        self._first = deployment.first_block
        self._blocks = deployment.spec.chain.round_blocks
        self._limit = limit_seconds
        self._began = time.monotonic()

    def round(self) -> int:
        """−1 before round 0."""
        return max(-1, (self._chain.block_number() - self._first) // self._blocks)

    def start(self, ready: Callable[[], bool]) -> None:
        """Mine transactions until the nodes are ready, then begin round 0."""
        while not ready():
            if self._chain.has_pending():
                self._chain.mine(1)
            if self._chain.block_number() >= self._first - MARGIN_BLOCKS:
                raise SapoError("registering took more blocks than there are before round 0")
            time.sleep(POLL_SECONDS)
        self._begin(0)

    def tick(self, done: Callable[[int], bool]) -> bool:
        """One step. True if the round has just ended: by everybody being done, or by the limit."""
        now = self.round()
        left = self._first + (now + 1) * self._blocks - 1 - self._chain.block_number()
        if self._chain.has_pending() and left > MARGIN_BLOCKS:
            self._chain.mine(1)
            return False
        if done(now) or time.monotonic() - self._began > self._limit:
            self._begin(now + 1)
            return True
        return False

    def serve(self) -> None:
        """Mine what is pending, and let no round end."""
        left = self._first + (self.round() + 1) * self._blocks - 1 - self._chain.block_number()
        if self._chain.has_pending() and left > MARGIN_BLOCKS:
            self._chain.mine(1)

    def _begin(self, round_: int) -> None:
        """One block beyond the round's first: from there on its beacon can be captured."""
        self._chain.mine(self._first + round_ * self._blocks + 1 - self._chain.block_number())
        self._began = time.monotonic()
