"""How long to wait before what failed is tried again: each time twice as long, up to a bound."""

import random
import time
from collections.abc import Callable


class Backoff:
    """Waits from about `first` up to `most` seconds. Each is shortened by up to a half, by chance, so that many who
    wait for the same thing do not all come back at once.

    Where the last wait has been over for `most` seconds, what waited was well meanwhile: the next begins at `first`.
    chance: 0 … 1 each time.
    """

    def __init__(
        self,
        first: float,
        most: float,
        *,
        chance: Callable[[], float] = random.random,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._next = self._first = first
        self._most = max(first, most)
        self._chance = chance
        self._clock = clock
        self._over = 0.0  # when the last wait is

    def next(self) -> float:
        """It failed (again): seconds to wait."""
        now = self._clock()
        if now > self._over + self._most:
            self.reset()
        wait = self._next * (1 + self._chance()) / 2
        self._next = min(self._most, 2 * self._next)
        self._over = now + wait
        return wait

    def reset(self) -> None:
        """It works."""
        self._next = self._first
