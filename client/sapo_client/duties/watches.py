"""Looks at producers that take a while of a round, and what follows from each."""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from sapo_client.batches.presence import Presence, Watch, Wish
from sapo_verifier.chain.reader import ChainReader

log = logging.getLogger(__name__)


@dataclass
class Watches:
    """Of the round that is played."""

    reader: ChainReader
    presence: Presence
    _open: list[tuple[Watch, Callable[[Watch], None]]] = field(default_factory=list)
    _looked_at: list[Watch] = field(default_factory=list)  # in this round
    _round: int = -1

    def clear(self) -> None:
        """Another round begins: what an earlier one waited for is of no use any more. What others did not serve in it
        is counted in one line: each of many nodes would fill a log with them."""
        unserved = [wish for watch in self._looked_at for wish in watch.unserved if watch.looks]
        if unserved:
            log.info(
                "round %d: %d blocks of %d other nodes were not served, of %d batches that were asked for one",
                *(self._round, sum(len(wish.blocks) for wish in unserved), len({wish.batch.node for wish in unserved})),
                len({wish.batch.index for watch in self._looked_at for wish in watch.wishes}),
            )
        self._looked_at.clear()
        self._open.clear()

    def ask(
        self, wishes: Sequence[Wish], controls: Sequence[Wish], current: int, then: Callable[[Watch], None]
    ) -> None:
        """Ask for the blocks in round `current`, and then go on with `then`."""
        blocks = self.reader.deployment.spec.chain.round_blocks
        end = self.reader.first_block_of(current) + blocks * 2 // 3  # what follows has to be mined in time
        watch = Watch(self.presence, wishes, controls, end)
        self._open.append((watch, then))
        self._looked_at.append(watch)
        self._round = current

    def go_on(self) -> None:
        """One poll."""
        if not self._open:
            return
        block = self.reader.block_number()
        for entry in list(self._open):
            watch, then = entry
            watch.step(block)
            if watch.finished:
                self._open.remove(entry)
                then(watch)

    @property
    def finished(self) -> bool:
        return not self._open
