"""How far back a node remembers: reports and settled transactions of the last rounds, so that its home stays small."""

import logging
import sqlite3
from collections.abc import Callable
from pathlib import Path

from sapo_client.state.report import compact_rounds
from sapo_client.state.sqlite import disk_failure
from sapo_client.transactions.outbox import Outbox

log = logging.getLogger(__name__)

EVERY = 50  # rounds: as many more may be there than are to be kept


class History:
    """Of one node. A disk that takes no more is no reason to end: what is there is whole, and stays a while longer."""

    def __init__(self, home: Path, outbox: Outbox, rounds: int) -> None:
        self._home = home
        self._outbox = outbox
        self._rounds = rounds
        self._due = -1  # the round in which to forget again

    def resume(self) -> None:
        """A node starts: forget old reports."""
        self._unless_full(lambda: compact_rounds(self._home, self._rounds))

    def forget(self, round_: int) -> None:
        """Round `round_` is over: forget what lies further back, every so often. Bounded: what a node that never did
        so has left is forgotten over several rounds."""
        if round_ < self._due:
            return
        self._due = round_ + EVERY
        self._unless_full(lambda: compact_rounds(self._home, self._rounds))
        self._unless_full(lambda: self._forget_transactions(round_))

    def _forget_transactions(self, round_: int) -> None:
        if self._outbox.compact(self._rounds, round_):
            self._due = round_ + 1

    def _unless_full(self, compact: Callable[[], None]) -> None:
        try:
            compact()
        except (OSError, sqlite3.Error) as error:
            if disk_failure(error) is None:
                raise
            log.warning("what is older than %d rounds stays for now: %s", self._rounds, error)
