"""What a node promises on chain in a round, a policy and its verdicts, tried again once what stood in its way is gone.

The contracts take a promise only of a node that owes nothing and has its whole bond. Another node can settle a fine at
any moment, so a promise can be refused, or be impossible yet, for want of a top-up that is mined some blocks later.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass, field

from sapo_client.duties.bond import Bond
from sapo_client.transactions.turns import latest
from sapo_verifier.chain.reader import ChainReader

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Promise:
    """One of them. key: its name in the outbox; last: the last round in which the contract takes it; put: has it sent,
    or sent anew."""

    key: str
    last: int
    put: Callable[[], None]


@dataclass
class Promises:
    """Of one node. pays: whether it settles and tops up itself, or only waits until somebody did."""

    reader: ChainReader
    bond: Bond
    pays: bool
    _kept: dict[str, Promise] = field(default_factory=dict)
    _put_off: set[str] = field(default_factory=set)  # the keys of those that could not even be put yet
    _block = -1  # in which was looked last

    def make(self, promise: Promise) -> None:
        """Put it now if the contract will take it, else as soon as that is so."""
        self._kept[promise.key] = promise
        if self.bond.is_ready() or (self.pays and self.bond.restore()):
            promise.put()
        else:
            self._put_off.add(promise.key)

    def keep(self, promise: Promise) -> None:
        """It was put already; see to it that a refusal is not the end of it."""
        self._kept[promise.key] = promise

    def go_on(self) -> None:
        """One poll: asks the outbox, and the chain once a block as long as something is refused or put off."""
        self.bond.tell()
        outbox = self.bond.actor.outbox
        open_ = [p for p in self._kept.values() if p.key in self._put_off or latest(outbox, p.key).status == "failed"]
        if not open_ or (block := self.reader.block_number()) == self._block:
            return
        self._block, current = block, self.reader.current_round()
        if not self.bond.actor.may_promise(current):
            return
        self._kept = {key: promise for key, promise in self._kept.items() if promise.last >= current}
        self._put_off &= self._kept.keys()
        due = [promise for promise in open_ if promise.key in self._kept]
        if due and self.bond.is_ready():
            for promise in due:
                log.info("%s: nothing stands in its way any more", promise.key)
                promise.put()
                self._put_off.discard(promise.key)
        elif due and self.pays:
            self.bond.restore()
