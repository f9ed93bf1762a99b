"""What contracts refuse before anything is sent, and when that is final.

One refusal says little: a provider's view can lag behind the block in which what was needed is mined, and the next one
may see it. So the same question is put again a few times, in more than one block where blocks come.
"""

from dataclasses import dataclass, field

ENOUGH = 3  # refusals that are final where they were given in different blocks
MOST = 6  # refusals in one block that are final: a devnet's chain waits for its nodes


@dataclass
class Refusals:
    """Of one outbox. In memory only: after a restart everything is asked anew."""

    _seen: dict[int, tuple[int, int]] = field(default_factory=dict)  # by entry: how often, and the block of the first

    def is_final(self, entry: int, block: int) -> bool:
        """One more refusal, with `block` as the latest one. Whether it is to be believed."""
        count, first = self._seen.get(entry, (0, block))
        count += 1
        self._seen[entry] = count, first
        return count >= MOST or (count >= ENOUGH and block != first)

    def forget(self, entry: int) -> None:
        """It was taken, or it is settled."""
        self._seen.pop(entry, None)
