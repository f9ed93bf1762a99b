"""A node's verdicts, on disk before they are committed: without word, report and salt nothing can be revealed."""

from dataclasses import dataclass
from pathlib import Path

from sapo_client.database import open_database


@dataclass(frozen=True)
class Ballot:
    """One commitment. word: bits 2j and 2j+1 for the j-th batch of the window; report: the block, salt: 32 bytes."""

    round: int
    stage: int
    word: int
    report: bytes
    salt: bytes


class BallotBox:
    """(round, stage) → ballot, once. One SQLite file; what `put` returned from is on disk."""

    def __init__(self, path: Path) -> None:
        """Raises DatabaseBrokenError."""
        self._db = open_database(
            path,
            "ballots (round INTEGER, stage INTEGER, word TEXT NOT NULL, "
            "report BLOB NOT NULL, salt BLOB NOT NULL, PRIMARY KEY (round, stage))",
            "move it away: the node then goes on, but verdicts that it committed and did not reveal cost it a fee",
        )

    def put(self, ballot: Ballot) -> Ballot:
        """The ballot that counts from now on: this one, or the one that was there first."""
        with self._db:
            self._db.execute(
                "INSERT INTO ballots VALUES (?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
                (ballot.round, ballot.stage, hex(ballot.word), ballot.report, ballot.salt),
            )
        stored = self.get(ballot.round, ballot.stage)
        assert stored is not None
        return stored

    def get(self, round_: int, stage: int) -> Ballot | None:
        row = self._db.execute(
            "SELECT word, report, salt FROM ballots WHERE round = ? AND stage = ?", (round_, stage)
        ).fetchone()
        return Ballot(round_, stage, int(row[0], 16), row[1], row[2]) if row else None

    def drop_before(self, round_: int) -> None:
        """Forget rounds that are final."""
        with self._db:
            self._db.execute("DELETE FROM ballots WHERE round < ?", (round_,))

    def close(self) -> None:
        self._db.close()
