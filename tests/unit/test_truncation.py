"""What a power failure leaves of the files that a node writes: its start goes on, or says in words what to do."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from sapo_client.batches.pins import PinBook
from sapo_client.duties.ballots import Ballot, BallotBox, Deal
from sapo_client.state.report import RoundReport, StatusFile, read_rounds, read_status
from sapo_client.state.sqlite import DatabaseBrokenError
from sapo_client.transactions.store import OutboxStore
from sapo_verifier.chain.contracts import Call
from sapo_verifier.cid import block_digest
from sapo_verifier.ipfs.daemon.repo import BlockRepo

CUTS: dict[str, Callable[[int], int]] = {
    "all": lambda size: 0,
    "half": lambda size: size // 2,
    "one byte": lambda size: size - 1,
}
ROWS = 60  # of each journal: several pages

WRITER = """
import os, signal, sys
from pathlib import Path
from sapo_client.duties.ballots import Ballot, BallotBox, Deal
from sapo_client.transactions.store import OutboxStore
from sapo_client.batches.pins import PinBook
from sapo_verifier.chain.contracts import Call
folder = Path(sys.argv[1])
outbox, pins, ballots = OutboxStore(folder / "outbox", "me"), PinBook(folder / "pins"), BallotBox(folder / "ballots")
for i in range(int(sys.argv[2])):
    outbox.add(f"submit/{i}", Call("rounds", "poke"), 0, None)
    pins.keep([i.to_bytes(32)], i)
    ballots.put(Ballot(Deal(i, 1, bytes(32), bytes(32)), 2, bytes(500), bytes(32)))
    if sys.argv[3] == "settled" and i == int(sys.argv[2]) // 2:
        for db in (outbox, pins, ballots):
            db._db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture(params=["settled", "all in the journal"])
def written(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """A folder with the three databases of a process that was killed: half in the files, half in the journals."""
    command = [sys.executable, "-c", WRITER, str(tmp_path), str(ROWS), request.param]
    assert subprocess.run(command, check=False).returncode == -signal.SIGKILL
    return tmp_path


def cut(path: Path, how: str) -> None:
    os.truncate(path, CUTS[how](path.stat().st_size))


@pytest.mark.parametrize("how", CUTS)
def test_a_journal_that_was_cut_leaves_what_was_committed_before(written: Path, how: str) -> None:
    for name in ("outbox", "pins", "ballots"):
        cut(written / f"{name}-wal", how)
    outbox, pins, ballots = OutboxStore(written / "outbox", "me"), PinBook(written / "pins"), BallotBox(written / "b2")
    keys = [entry.key for entry in outbox.intents()]
    assert keys == [f"submit/{i}" for i in range(len(keys))], "a beginning of what was written, without a gap"
    kept = sorted(pins.expired(ROWS))
    assert kept == [i.to_bytes(32) for i in range(len(kept))]
    if how == "one byte":
        assert len(keys) == len(kept) == ROWS - 1
    outbox.add("submit/new", Call("rounds", "poke"), 0, None)
    pins.keep([b"n" * 32], 1)
    for each in (outbox, pins, ballots):
        each.close()


@pytest.mark.parametrize("how", CUTS)
def test_a_ballot_is_whole_or_not_there(written: Path, how: str) -> None:
    cut(written / "ballots-wal", how)
    ballots = BallotBox(written / "ballots")
    found = [ballots.get(Deal(i, 1, bytes(32), bytes(32))) for i in range(ROWS)]
    there = [ballot for ballot in found if ballot is not None]
    assert found == there + [None] * (ROWS - len(there))
    assert all(ballot.report == bytes(500) for ballot in there)
    assert ballots.put(Ballot(Deal(ROWS, 1, b"", b""), 1, b"", bytes(32))).word == 1
    ballots.close()


def test_a_database_that_lost_a_page_itself_is_refused_in_words(tmp_path: Path) -> None:
    """It is written only where the journal is whole, so this takes a broken disk; nobody may find out in a round."""
    openers: dict[str, Callable[[Path], OutboxStore | PinBook | BallotBox]] = {
        "outbox": lambda path: OutboxStore(path, "me"),
        "pins": PinBook,
        "ballots": BallotBox,
    }
    for name, open_ in openers.items():
        path = tmp_path / name
        made = open_(path)
        for i in range(ROWS):
            if isinstance(made, OutboxStore):
                made.add(f"submit/{i}", Call("rounds", "poke"), 0, None)
            elif isinstance(made, PinBook):
                made.keep([i.to_bytes(32)], i)
            else:
                made.put(Ballot(Deal(i, 1, bytes(32), bytes(32)), 2, bytes(500), bytes(32)))
        made.close()
        os.truncate(path, path.stat().st_size - 4096)
        with pytest.raises(DatabaseBrokenError, match=r"cannot be read .*move it away"):
            open_(path)
        with pytest.raises(DatabaseBrokenError, match=r"cannot be read .*move it away"):
            open_(path)  # it lets go of its lock


@pytest.mark.parametrize("how", CUTS)
def test_reports_that_were_cut_lose_the_last_one_only(tmp_path: Path, how: str) -> None:
    for round_ in range(3):
        RoundReport(round=round_).append_to(tmp_path)
    cut(tmp_path / "rounds.jsonl", how)
    left = [report["round"] for report in read_rounds(tmp_path)]
    assert left == {"all": [], "half": [0], "one byte": [0, 1, 2]}[how]
    RoundReport(round=3).append_to(tmp_path)
    assert [report["round"] for report in read_rounds(tmp_path)] == [*left, 3]


@pytest.mark.parametrize("how", CUTS)
def test_a_status_that_was_cut_is_none(tmp_path: Path, how: str) -> None:
    StatusFile(tmp_path).update(round=3)
    cut(tmp_path / "status.json", how)
    assert read_status(tmp_path) is None
    StatusFile(tmp_path).update(round=4)
    status = read_status(tmp_path)
    assert status is not None
    assert status["round"] == 4


@pytest.mark.parametrize("how", CUTS)
def test_a_block_that_was_cut_is_missing_and_can_be_put_again(tmp_path: Path, how: str) -> None:
    repo = BlockRepo(tmp_path)
    digest = repo.put(b"a block", pin=True)
    repo.close()
    cut(tmp_path / "blocks" / digest.hex()[:2] / digest.hex(), how)
    repo = BlockRepo(tmp_path)
    assert repo.get(digest) is None
    assert repo.put(b"a block", pin=True) == digest == block_digest(b"a block")
    assert repo.get(digest) == b"a block"
    assert digest in repo.pins()
    repo.close()
