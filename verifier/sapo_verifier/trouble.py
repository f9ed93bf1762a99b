"""A trouble that lasts is one line when it begins, one every ten minutes, and one with a count when it is over."""

import logging
import time

REMIND_SECONDS = 600.0


class Trouble:
    """What is tried again and again until it works, such as a chain that does not answer."""

    def __init__(self, log: logging.Logger) -> None:
        self._log = log
        self._said: set[str] = set()  # the kinds that were told of the trouble that lasts
        self._count = 0
        self._began = self._reminded = 0.0

    def seen(self, words: str, kind: str = "") -> None:
        """It did not work, and why: said if it is new, counted in any case. kind: what makes it new, where the words
        differ each time."""
        now = time.monotonic()
        if not self._count:
            self._began = self._reminded = now
        self._count += 1
        if (kind or words) not in self._said:
            self._said.add(kind or words)
            self._log.warning("%s", words)
        elif now - self._reminded >= REMIND_SECONDS:
            self._reminded = now
            self._log.warning("%s (for %.0f s, %d times)", words, now - self._began, self._count)

    def over(self, words: str = "that is over") -> None:
        """It worked."""
        if self._count:
            self._log.warning("%s, after %.0f s and %d times", words, time.monotonic() - self._began, self._count)
        self._said.clear()
        self._count = 0
