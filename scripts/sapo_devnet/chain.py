"""The devnet's chain: Anvil with the contracts, and a clock of its own.

Blocks are mined when there are transactions, and a round ends when every live node is done with it, or a limit passes:
a slow machine loses no round, and a fast one does not wait.
"""

import time
from collections.abc import Callable
from pathlib import Path

from sapo_devnet.anvil import Anvil
from sapo_verifier.chain.deploying import deploy
from sapo_verifier.chain.deployment import Deployment
from sapo_verifier.drand import Drand
from sapo_verifier.errors import SapoError
from sapo_verifier.spec import Spec

FUNDS = 100 * 10**18  # wei for each node: the bond and gas
POLL_SECONDS = 0.1
MINER = "0x00000000000000000000000000000000000000fe"  # gets the fees: Anvil's own choice is where burned coins go
# Of the latest blocks, in memory. Anvil would keep 500 there and the rest on disk, from which it reorganizes to blocks
# without contracts.
STATES = 1000
MARGIN_BLOCKS = 2  # a round's last blocks are left for its end


class Chain(Anvil):
    """Mined by `Clock` alone once the contracts are there."""

    def __init__(self, log: Path, *options: str, port: int = 0) -> None:
        super().__init__(log, f"--prune-history={STATES}", *options, port=port)

    def deploy(self, spec: Spec, room: int, drand: Drand | None = None, block_seconds: int = 0) -> Deployment:
        """The contracts, with round 0 beginning after `room` blocks, in which nodes can register.

        drand: what the beacon waits for. block_seconds: that blocks are dated apart; 0: as they come.
        """
        self.rpc("anvil_setCoinbase", MINER)
        owner, first = str(self.rpc("eth_accounts")[0]), self.block_number() + room
        deployment = deploy(self._sender, owner, spec, drand=drand, first_block=first)
        if block_seconds:
            self.rpc("anvil_setBlockTimestampInterval", block_seconds)
        self.silence()
        self.rpc("evm_setAutomine", False)
        return deployment

    def fund(self, address: str) -> None:
        self.rpc("anvil_setBalance", address, hex(FUNDS))

    def has_pending(self) -> bool:
        return int(self.rpc("txpool_status")["pending"], 16) > 0


class Clock:
    """Lets rounds end when the nodes are done with them."""

    def __init__(
        self,
        chain: Chain,
        deployment: Deployment,
        limit_seconds: float,
        waits: Callable[[int], bool] = lambda round_: False,
    ) -> None:
        """waits: whether a round goes on by nothing but blocks, also without transactions."""
        self._chain = chain
        self._first = deployment.first_block
        self._blocks = deployment.spec.chain.round_blocks
        self._limit = limit_seconds
        self._waits = waits
        self._began = time.monotonic()
        self._not_before = 0.0

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
        self.begin(0)

    def tick(self, done: Callable[[int], bool]) -> bool:
        """One step. True if the round has just ended: by everybody being done, or by the limit."""
        now = self.round()
        if self._mined_pending(now):
            return False
        clock = time.monotonic()
        if (clock >= self._not_before and done(now)) or clock - self._began > self._limit:
            self.begin(now + 1)
            return True
        return False

    def serve(self) -> None:
        """Mine what is pending, and let no round end."""
        self._mined_pending(self.round())

    def spread(self, seconds: float) -> bool:
        """One step of rounds that take so long each, their blocks evenly. True if the round has just ended."""
        now, gone = self.round(), time.monotonic() - self._began
        if gone >= seconds:
            self.begin(now + 1)
            return True
        if not self._mined_pending(now):
            blocks = min(int(gone / seconds * (self._blocks - 1)), self._blocks - 2 - MARGIN_BLOCKS)
            self._chain.mine_to(self._first + now * self._blocks + 1 + blocks)
        return False

    def hold(self, seconds: float) -> None:
        """The round goes on for so long at least, or to its limit, whoever is done."""
        self._not_before = time.monotonic() + seconds

    def _mined_pending(self, now: int) -> bool:
        """Whether there was something to mine, in what is left of the round."""
        left = self._first + (now + 1) * self._blocks - 1 - self._chain.block_number()
        if pending := left > MARGIN_BLOCKS and (self._chain.has_pending() or (now >= 0 and self._waits(now))):
            self._chain.mine(1)
        return pending

    def begin(self, round_: int) -> None:
        """One block beyond the round's first: from there on its beacon can be captured."""
        self._chain.mine_to(self._first + round_ * self._blocks + 1)
        self._began = time.monotonic()
