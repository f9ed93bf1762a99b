"""How long a node does without its chain: each wait longer than the last, and an end by itself, if it has one."""

import time

from sapo_verifier.backoff import Backoff
from sapo_verifier.chain.errors import ChainUnavailable

LONGEST_WAIT = 30.0  # seconds between two tries


class Patience:
    """minutes: without an answer, until it is over; 0: never. first: seconds of the first wait."""

    def __init__(self, minutes: float, first: float) -> None:
        self._minutes = minutes
        self._waits = Backoff(first, LONGEST_WAIT)
        self._since: float | None = None  # the first failure after the last answer

    def answered(self) -> None:
        """The chain said something."""
        self._since = None

    def well(self) -> None:
        """Everything went well: the next trouble begins with the shortest wait."""
        self._waits.reset()

    def after(self, error: ChainUnavailable) -> float:
        """Seconds to wait before the next try. Raises ChainUnavailable, which names the setting, once it is over."""
        now = time.monotonic()
        self._since = now if self._since is None else self._since
        if self._minutes and now - self._since > 60 * self._minutes:
            raise ChainUnavailable(
                f"{error}. It was so for {self._minutes:g} minutes ([chain] patience_minutes; 0 never gives up): see "
                "to the RPC, or name further ones, and start the node again"
            ) from None
        return self._waits.next()
