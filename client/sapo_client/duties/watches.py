"""Looks at producers that take a while of a round, and what follows from each."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from sapo_client.batches.presence import Presence, Watch, Wish
from sapo_verifier.chain.reader import ChainReader


@dataclass
class Watches:
    """Of the round that is played."""

    reader: ChainReader
    presence: Presence
    _open: list[tuple[Watch, Callable[[Watch], None]]] = field(default_factory=list)

    def clear(self) -> None:
        """Another round begins: what an earlier one waited for is of no use any more."""
        self._open.clear()

    def ask(
        self, wishes: Sequence[Wish], controls: Sequence[Wish], current: int, then: Callable[[Watch], None]
    ) -> None:
        """Ask for the blocks in round `current`, and then go on with `then`."""
        blocks = self.reader.deployment.spec.chain.round_blocks
        end = self.reader.first_block_of(current) + blocks * 2 // 3  # what follows has to be mined in time
        self._open.append((Watch(self.presence, wishes, controls, end), then))

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
