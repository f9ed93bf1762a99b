"""Turns: what anybody may do on chain, one node after the other, or all would send the same call at once and all but
one pay for a refusal.

Where in the line a node stands is a hash of its address and the thing to be done, so every thing has another order. The
line moves with every block, or with some polls where no block comes (a devnet's chain waits for its nodes). Before a
node sends, it asks the chain whether it is still to be done.
"""

import hashlib
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from sapo_client.transactions.outbox import Outbox, TxState
from sapo_verifier.chain.contracts import Call

log = logging.getLogger(__name__)

LONGEST = 16  # places of a line: whoever stands further back waits no longer
STANDSTILL = 4  # polls without a block that count as one
MOST_ANEW = 4  # transactions that are tried for one thing


@dataclass
class Turn:
    """One thing that waits for this node's turn. needed: whether it is still to be done; asks the chain."""

    call: Call
    place: int
    needed: Callable[[], bool]
    options: dict[str, Any]  # of Outbox.put
    block: int | None = None  # the last one seen
    polls: int = 0  # since then

    def moves(self, block: int) -> bool:
        """One poll. Whether the line has moved since the last one."""
        if self.block is None:
            self.block = block
            return True
        self.polls += 1
        if block == self.block and self.polls < STANDSTILL:
            return False
        # A reorganization can set the chain back: that counts as one block, too.
        self.place -= max(1, block - self.block)
        self.block, self.polls = block, 0
        return True


class Turns:
    """The things that wait for one node's turn. In memory only: after a restart they are found again."""

    def __init__(self, node: str, outbox: Outbox) -> None:
        self._node = node
        self._outbox = outbox
        self._waiting: dict[str, Turn] = {}

    def offer(
        self, key: str, call: Call, *, crowd: int, needed: Callable[[], bool], first: int = 0, **options: Any
    ) -> None:
        """Do it when it is this node's turn; nothing if it waits already, or is on its way.

        key: what it is, the same for all nodes, and its name in the outbox. crowd: about how many could do it. first:
        the first place, where somebody else is to have it before. options: of Outbox.put.
        """
        if key not in self._waiting and not _is_under_way(self._outbox, key, call):
            place = first + place_of(self._node, key, crowd)
            self._waiting[key] = Turn(call, place, needed, options)

    def step(self, block: int) -> None:
        """One poll; block: the latest one. What is due goes to the outbox, what others did is forgotten."""
        for key, turn in list(self._waiting.items()):
            if not turn.moves(block):
                continue
            if not turn.needed():
                log.info("%s: not needed (any more)", key)
                del self._waiting[key]
            elif turn.place <= 0:
                put_anew(self._outbox, key, turn.call, **turn.options)
                del self._waiting[key]

    def __len__(self) -> int:
        """How many things wait."""
        return len(self._waiting)


def place_of(node: str, key: str, crowd: int) -> int:
    """Where a node stands in the line of `crowd` nodes for one thing: 0 is first."""
    hashed = int.from_bytes(hashlib.sha256(f"{node}/{key}".encode()).digest(), "big")
    return min(hashed % max(1, crowd), LONGEST)


def put_anew(outbox: Outbox, key: str, call: Call, *, although_mined: bool = False, **options: Any) -> None:
    """As Outbox.put; but where the key stands for another call, or for one that is not on its way, as "key/2" …

    For what has to be done for the chain as it is now, whatever became of it in another history: so what was mined so
    long ago that the outbox watches it no more does not count either. At most MOST_ANEW times. although_mined: nor does
    what was mined a moment ago, as the chain was asked since then. options: of Outbox.put.
    """
    for name in _names(key):
        if outbox.call_of(name) is None:
            outbox.put(name, call, **options)
            return
        if _stands(outbox, name, call) and not (although_mined and outbox.state(name).status == "mined"):
            return
    log.warning("%s: tried %d times; it is left to others", key, MOST_ANEW)


def latest(outbox: Outbox, key: str) -> TxState:
    """What became of the last that `put_anew` has put for a key."""
    names = [name for name in _names(key) if outbox.call_of(name) is not None]
    return outbox.state(names[-1] if names else key)


def put_once(outbox: Outbox, key: str, call: Call, **options: Any) -> None:
    """As Outbox.put, but whatever was put under this key first stays. options: of Outbox.put."""
    if outbox.call_of(key) is None:
        outbox.put(key, call, **options)


def _is_under_way(outbox: Outbox, key: str, call: Call) -> bool:
    """On its way, or tried often enough."""
    names = [name for name in _names(key) if outbox.call_of(name) is not None]
    return len(names) == MOST_ANEW or any(_stands(outbox, name, call) for name in names)


def _names(key: str) -> list[str]:
    return [key, *(f"{key}/{number}" for number in range(2, MOST_ANEW + 1))]


def _stands(outbox: Outbox, name: str, call: Call) -> bool:
    state = outbox.state(name)
    return outbox.call_of(name) == call and not state.confirmed and state.status not in ("failed", "expired")
