"""Ballots survive: what `put` returned from is there after a restart, once, and the first one counts."""

import subprocess
import sys
from dataclasses import astuple, replace
from pathlib import Path

import pytest

from sapo_client.duties.ballots import Ballot, BallotBox, Deal

DEAL = Deal(7, 1, b"\3" * 32, b"\4" * 32)
FIRST = Ballot(DEAL, 0b01_10, b'{"v":1}', b"\1" * 32, b"\0\0\0\7")
SECOND = Ballot(DEAL, 2**256 - 1, b"other", b"\2" * 32)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ballots.sqlite"


def test_what_was_put_is_there_after_a_restart(path: Path) -> None:
    box = BallotBox(path)
    assert box.get(DEAL) is None
    assert box.put(FIRST) == FIRST
    box.close()
    box = BallotBox(path)
    assert box.get(DEAL) == FIRST
    for other in (replace(DEAL, stage=2), replace(DEAL, round=8), replace(DEAL, beacon=b""), replace(DEAL, acc=b"")):
        assert box.get(other) is None
    box.close()


def test_the_first_one_counts(path: Path) -> None:
    """Another one could not be revealed: the commitment may be on its way."""
    box = BallotBox(path)
    box.put(FIRST)
    assert box.put(SECOND) == FIRST
    assert box.get(DEAL) == FIRST
    box.close()


def test_another_history_has_its_own_ballot(path: Path) -> None:
    """Another window: what was said of the first one is no verdict on it."""
    box = BallotBox(path)
    other = replace(SECOND, deal=replace(DEAL, beacon=b"\5" * 32))
    box.put(FIRST)
    assert box.put(other) == other
    assert box.all_of(7, 1) == [FIRST, other]
    assert FIRST.hash("0x" + "ab" * 20) != replace(FIRST, deal=other.deal).hash("0x" + "ab" * 20)
    box.close()


def test_words_of_256_bits_and_every_stage(path: Path) -> None:
    box = BallotBox(path)
    made = [Ballot(replace(DEAL, stage=s), word, b"", bytes(32)) for s, word in ((1, 1), (2, 2**256 - 1))]
    for ballot in made:
        box.put(ballot)
    assert [box.get(ballot.deal) for ballot in made] == made
    box.close()


def test_final_rounds_are_dropped(path: Path) -> None:
    box = BallotBox(path)
    for round_ in range(5):
        box.put(Ballot(replace(DEAL, round=round_), 1, b"", bytes(32)))
    box.drop_before(3)
    assert [box.all_of(round_, 1) == [] for round_ in range(5)] == [True, True, True, False, False]
    box.close()


def test_a_kill_right_after_put(path: Path) -> None:
    """The commitment follows `put`: without the ballot it could not be revealed, and would cost a fee."""
    program = f"""
import os, signal
from pathlib import Path
from sapo_client.duties.ballots import Ballot, BallotBox, Deal
BallotBox(Path({str(path)!r})).put(Ballot(Deal{astuple(DEAL)!r}, 6, b"report", bytes(32)))
os.kill(os.getpid(), signal.SIGKILL)
"""
    ended = subprocess.run([sys.executable, "-c", program], timeout=60, check=False)
    assert ended.returncode == -9
    box = BallotBox(path)
    assert box.get(DEAL) == Ballot(DEAL, 6, b"report", bytes(32))
    box.close()


def test_the_box_is_as_large_as_what_is_not_final(path: Path) -> None:
    """However many rounds it has seen: what is dropped leaves its place to others."""
    box = BallotBox(path)
    sizes = []
    for round_ in range(100):
        for stage in (1, 2):
            box.put(Ballot(replace(DEAL, round=round_, stage=stage), 1, b"r" * 2000, bytes(32)))
        box.drop_before(round_ - 8)
        sizes.append(box._db.execute("PRAGMA page_count").fetchone()[0])
    box.close()
    assert path.stat().st_size < 150_000
    assert max(sizes) == max(sizes[:50])
