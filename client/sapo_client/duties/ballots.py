"""A node's verdicts, on disk before they are committed: without word, report and salt nothing can be revealed."""

from dataclasses import dataclass
from pathlib import Path

from sapo_client.state.sqlite import open_database
from sapo_verifier import protocol
from sapo_verifier.chain.contracts import Call
from sapo_verifier.chain.reader import ChainReader
from sapo_verifier.cid import block_digest
from sapo_verifier.schedule import COMMIT_AFTER


@dataclass(frozen=True)
class Deal:
    """What a commitment is about, in one history of the chain: a reorganization can deal another window, by another
    beacon, over other batches. beacon: the one that deals the window; acc: the round's running hash."""

    round: int
    stage: int
    beacon: bytes
    acc: bytes


def deal_of(reader: ChainReader, round_: int, stage: int) -> Deal | None:
    """What the chain, as it is now, dealt on a round; None where there is nothing."""
    beacon = reader.beacon(round_ + COMMIT_AFTER[stage])
    info = reader.round_at(round_)
    return None if beacon is None or info.count == 0 else Deal(round_, stage, beacon, info.acc)


@dataclass(frozen=True)
class Ballot:
    """One commitment. word: bits 2j and 2j+1 for the j-th batch of the window; report: the block, salt: 32 bytes;
    answers: the bytes of what the spots of accepted batches asked (docs/protocol.md, Answers)."""

    deal: Deal
    word: int
    report: bytes
    salt: bytes
    answers: bytes = b""

    def hash(self, voter: str) -> bytes:
        """What is committed (docs/protocol.md, Commitment)."""
        deal = self.deal
        report = block_digest(self.report)
        return protocol.verdicts_hash(
            deal.beacon, deal.acc, voter, deal.stage, self.word, report, self.answers, self.salt
        )

    def reveal(self, voter: str) -> Call:
        """What opens the commitment."""
        deal, report = self.deal, block_digest(self.report)
        arguments = (voter, deal.round, deal.stage, self.word, report, self.answers, self.salt)
        return Call("audits", "revealVerdicts", arguments)


class BallotBox:
    """Deal → ballot, once. One SQLite file; what `put` returned from is on disk."""

    def __init__(self, path: Path) -> None:
        """Raises DatabaseBrokenError."""
        self._db = open_database(
            path,
            "ballot (round INTEGER, stage INTEGER, beacon BLOB, acc BLOB, word TEXT NOT NULL, "
            "report BLOB NOT NULL, salt BLOB NOT NULL, answers BLOB NOT NULL, PRIMARY KEY (round, stage, beacon, acc))",
            "move it away: the node then goes on, but verdicts that it committed and did not reveal cost it a fee",
        )

    def put(self, ballot: Ballot) -> Ballot:
        """The ballot that counts from now on: this one, or the one that was there first for its deal."""
        deal = ballot.deal
        key, opens = (deal.round, deal.stage, deal.beacon, deal.acc), (ballot.report, ballot.salt, ballot.answers)
        row = (*key, hex(ballot.word), *opens)
        with self._db:
            self._db.execute("INSERT INTO ballot VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING", row)
        stored = self.get(deal)
        assert stored is not None
        return stored

    def get(self, deal: Deal) -> Ballot | None:
        return next((ballot for ballot in self.all_of(deal.round, deal.stage) if ballot.deal == deal), None)

    def all_of(self, round_: int, stage: int) -> list[Ballot]:
        """One for each deal that there was: more than one only after a reorganization."""
        rows = self._db.execute(
            "SELECT beacon, acc, word, report, salt, answers FROM ballot WHERE round = ? AND stage = ? ORDER BY rowid",
            (round_, stage),
        )
        return [
            Ballot(Deal(round_, stage, beacon, acc), int(word, 16), report, salt, answers)
            for beacon, acc, word, report, salt, answers in rows
        ]

    def drop_before(self, round_: int) -> None:
        """Forget rounds that are final."""
        with self._db:
            self._db.execute("DELETE FROM ballot WHERE round < ?", (round_,))

    def close(self) -> None:
        self._db.close()
