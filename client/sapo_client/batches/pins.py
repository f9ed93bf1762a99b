"""Which blocks this node keeps, and until which round: its own until final plus a margin, others' while in the pool."""

from collections.abc import Iterable
from pathlib import Path

from sapo_client.state.sqlite import open_database


class PinBook:
    """digest → the last round in which it is needed. One SQLite file; commits before it returns."""

    def __init__(self, path: Path) -> None:
        """Raises DatabaseBrokenError."""
        self._db = open_database(
            path,
            "pins (digest BLOB PRIMARY KEY, until INTEGER NOT NULL)",
            "move it away: the node then goes on, but blocks that it keeps now are never dropped from its IPFS daemon",
        )

    def keep(self, digests: Iterable[bytes], until: int) -> None:
        """A digest that is kept already is kept until the later of the two rounds."""
        with self._db:
            self._db.executemany(
                "INSERT INTO pins VALUES (?, ?) ON CONFLICT (digest) DO UPDATE SET until = MAX(until, excluded.until)",
                [(digest, until) for digest in digests],
            )

    def expired(self, round_: int) -> list[bytes]:
        """The digests that no round from `round_` on needs."""
        return [row[0] for row in self._db.execute("SELECT digest FROM pins WHERE until < ?", (round_,))]

    def holds(self, digest: bytes) -> bool:
        """Whether it is kept for some round."""
        return self._db.execute("SELECT 1 FROM pins WHERE digest = ?", (digest,)).fetchone() is not None

    def forget(self, digest: bytes) -> None:
        with self._db:
            self._db.execute("DELETE FROM pins WHERE digest = ?", (digest,))

    def close(self) -> None:
        self._db.close()
