"""Capturing a round's entropy, which one node does for all: a poke, and where the beacon waits for drand, its answer.

That has to be mined after the round's first block and in its first half, or the round is void: no batches, no fees.
"""

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from sapo_client.duties.relays import Relays
from sapo_client.transactions.turns import Turns
from sapo_verifier.chain.contracts import Call
from sapo_verifier.chain.errors import ChainError, ChainUnavailable
from sapo_verifier.chain.reader import ChainReader
from sapo_verifier.drand import Drand

log = logging.getLogger(__name__)

FEW = 3  # nodes that are thought to wait for a beacon where the last round had no batch to tell
BLOCKS_TO_ANSWER = 4  # the poke and the answer, each with a block in which another node could not have its turn
SECONDS_TO_ANSWER = 10.0  # for the relays


@dataclass
class Capture:
    """Of one node. relays: None where the beacon takes block hashes. clock: seconds since 1970."""

    reader: ChainReader
    turns: Turns
    relays: Relays | None = None
    clock: Callable[[], float] = time.time
    _crowd: tuple[int, int] = (-1, 0)  # how many nodes may capture the entropy of a round
    _found: tuple[int, bytes] | None = None  # a drand round and its signature, as the contract takes it
    _asked: dict[int, float] = field(default_factory=dict)  # when the relays were asked for a drand round last

    def step(self, round_: int) -> bool:
        """One poll while the round has no beacon: does what is due, when it is this node's turn. False: it never will
        have one."""
        reader, blocks = self.reader, self.reader.deployment.spec.chain.round_blocks
        block, first = reader.block_number(), reader.first_block_of(round_)
        last = first + blocks // 2 - 1
        if block >= last:
            return False
        if block <= first:  # in the round's first block the contract refuses
            return True
        drand, target = reader.deployment.drand, None
        if drand is not None and (target := reader.drand_round(round_)) is None:
            last = first + blocks // 4
            if block >= last:
                return False
        if drand is None or target is None:
            self._offer(f"poke/{round_}", Call("rounds", "poke"), round_, last, lambda: self._lacks(round_))
        elif (signature := self._signature(drand, target)) is not None:
            call = Call("drand", "answer", (signature,))
            self._offer(f"answer/{round_}", call, round_, last, lambda: reader.beacon(round_) is None)
        return True

    def _lacks(self, round_: int) -> bool:
        """Whether nobody has poked."""
        if self.reader.deployment.drand is not None:
            return self.reader.drand_round(round_) is None
        return self.reader.beacon(round_) is None

    def _offer(self, key: str, call: Call, round_: int, last: int, needed: Callable[[], bool]) -> None:
        if self._crowd[0] != round_:
            self._crowd = round_, self.reader.round_at(max(0, round_ - 1)).count or FEW
        self.turns.offer(
            key,
            call,
            crowd=self._crowd[1],
            needed=lambda: self.reader.block_number() < last and needed(),
            deadline_round=round_,
        )

    def _signature(self, drand: Drand, target: int) -> bytes | None:
        """Of the drand round that the contract waits for; None while no relay has it, or it cannot be there yet."""
        if self._found is not None and self._found[0] == target:
            return self._found[1]
        now = time.monotonic()
        if self.relays is None or now - self._asked.get(target, -drand.period) < drand.period:
            return None
        if max(self.clock(), self.reader.block_time()) < drand.signed_at(target):
            return None
        self._asked = {target: now}
        if (signature := self.relays.signature(target, self._refusal)) is not None:
            self._found = target, signature
        return signature

    def _refusal(self, signature: bytes) -> str:
        """Asks the contract without sending anything. Raises ChainUnavailable."""
        try:
            self.reader.call(Call("drand", "answer", (signature,)))
        except ChainUnavailable:
            raise
        except ChainError as error:
            return str(error)
        return ""

    def why_no_promise(self) -> str:
        """Why nothing is to be promised: blocks are dated so late that a signature which they ask for is known already.
        "": nothing is wrong."""
        drand = self.reader.deployment.drand
        if drand is None or (late := self.clock() - self.reader.block_time()) <= drand.margin:
            return ""
        return (
            f"the latest block is dated {late:.0f} s before this machine's clock, more than the beacon's margin of "
            f"{drand.margin} s: what it draws could be known beforehand. Until that ends no policy is committed; is "
            "the chain's sequencer behind, or this clock ahead (NTP)?"
        )

    def why_too_short(self) -> str:
        """Why half a round is too short for drand at this chain's pace; "": it is long enough, or nothing tells."""
        drand, blocks = self.reader.deployment.drand, self.reader.deployment.spec.chain.round_blocks
        return "" if drand is None else too_short(drand, blocks, self.reader.seconds_per_block(blocks))


def too_short(drand: Drand, blocks: int, pace: float | None) -> str:
    """As Capture.why_too_short. blocks: of a round. pace: seconds per block; None: nothing tells."""
    if pace is None:
        return ""
    half = pace * (blocks // 2 - 1)
    needed = drand.margin + drand.period + SECONDS_TO_ANSWER + BLOCKS_TO_ANSWER * pace
    if half > needed:
        return ""
    return (
        f"half a round takes {half:.0f} s at this chain's pace ({pace:.2g} s a block), and a beacon that waits for "
        f"drand needs {needed:.0f} s of it: rounds will be void. A network here needs more round_blocks"
    )
