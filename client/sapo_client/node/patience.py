"""How long a node does without its chain, or without its IPFS daemon: each wait longer than the last, and an end by
itself, if it has one."""

import logging
import time
from dataclasses import dataclass

from sapo_verifier.backoff import Backoff
from sapo_verifier.chain.errors import ChainUnavailable
from sapo_verifier.errors import SapoError
from sapo_verifier.ipfs import DaemonAway
from sapo_verifier.trouble import Trouble

LONGEST_WAIT = 30.0  # seconds between two tries


@dataclass(frozen=True)
class Absent:
    """What may be away. section: of the settings, where `patience_minutes` is. remedy: what to see to, in words."""

    section: str
    remedy: str
    error: type[SapoError]  # that it is given up with


CHAIN = Absent("chain", "see to the RPC, or name further ones", ChainUnavailable)
DAEMON = Absent("ipfs", "see to the daemon and to [ipfs] api", DaemonAway)


class Patience:
    """minutes: without an answer, until it is over; 0: never. first: seconds of the first wait."""

    def __init__(self, minutes: float, first: float, absent: Absent = CHAIN) -> None:
        self._minutes = minutes
        self._absent = absent
        self._waits = Backoff(first, LONGEST_WAIT)
        self._since: float | None = None  # the first failure after the last answer

    def answered(self) -> None:
        """It said something."""
        self._since = None

    def well(self) -> None:
        """Everything went well: the next trouble begins with the shortest wait."""
        self._waits.reset()

    def after(self, error: SapoError) -> float:
        """Seconds to wait before the next try. Raises the error that names the setting, once it is over."""
        now = time.monotonic()
        self._since = now if self._since is None else self._since
        if self._minutes and now - self._since > 60 * self._minutes:
            raise self._absent.error(
                f"{error}. It was so for {self._minutes:g} minutes ([{self._absent.section}] patience_minutes; 0 never "
                f"gives up): {self._absent.remedy}, and start the node again"
            ) from None
        return self._waits.next()


class Absence:
    """The same with its words in the log: once as it begins, and now and then."""

    def __init__(self, log: logging.Logger, minutes: float, first: float, absent: Absent) -> None:
        self._trouble = Trouble(log)
        self._patience = Patience(minutes, first, absent)

    def seen(self, error: SapoError) -> float:
        """It is away: seconds to wait. Raises as Patience.after does."""
        self._trouble.seen(str(error))
        return self._patience.after(error)

    def answered(self) -> None:
        """It said something, and may fail again at the next question."""
        self._patience.answered()

    def over(self) -> None:
        """It is there, and everything went well."""
        self._trouble.over()
        self._patience.answered()
        self._patience.well()
