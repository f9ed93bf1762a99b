"""A trouble that lasts is one line when it begins, one every ten minutes, and one with a count when it is over."""

import logging
import time

REMIND_SECONDS = 600.0


class Trouble:
    """What is tried again and again until it works, such as a chain that does not answer."""

    def __init__(self, log: logging.Logger) -> None:
        self._log = log
        self._words: set[str] = set()  # what was said of the trouble that lasts
        self._count = 0
        self._began = self._reminded = 0.0

    def seen(self, words: str) -> None:
        """It did not work, and why: said if it is new, counted in any case."""
        now = time.monotonic()
        if not self._count:
            self._began = self._reminded = now
        self._count += 1
        if words not in self._words:
            self._words.add(words)
            self._log.warning("%s", words)
        elif now - self._reminded >= REMIND_SECONDS:
            self._reminded = now
            self._log.warning("%s (for %.0f s, %d times)", words, now - self._began, self._count)

    def over(self) -> None:
        """It worked."""
        if self._count:
            self._log.warning("that is over, after %.0f s and %d times", time.monotonic() - self._began, self._count)
        self._words.clear()
        self._count = 0
