"""Ballots survive: what `put` returned from is there after a restart, once, and the first one counts."""

import subprocess
import sys
from pathlib import Path

import pytest

from sapo_client.ballots import Ballot, BallotBox

FIRST = Ballot(7, 1, 0b01_10, b'{"v":1}', b"\1" * 32)
SECOND = Ballot(7, 1, 2**256 - 1, b"other", b"\2" * 32)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ballots.sqlite"


def test_what_was_put_is_there_after_a_restart(path: Path) -> None:
    box = BallotBox(path)
    assert box.get(7, 1) is None
    assert box.put(FIRST) == FIRST
    box.close()
    box = BallotBox(path)
    assert box.get(7, 1) == FIRST
    assert box.get(7, 2) is box.get(8, 1) is None
    box.close()


def test_the_first_one_counts(path: Path) -> None:
    """Another one could not be revealed: the commitment may be on its way."""
    box = BallotBox(path)
    box.put(FIRST)
    assert box.put(SECOND) == FIRST
    assert box.get(7, 1) == FIRST
    box.close()


def test_words_of_256_bits_and_every_stage(path: Path) -> None:
    box = BallotBox(path)
    made = [Ballot(round_, stage, word, b"", bytes(32)) for round_, stage, word in ((0, 1, 1), (0, 2, 2**256 - 1))]
    for ballot in made:
        box.put(ballot)
    assert [box.get(0, 1), box.get(0, 2)] == made
    box.close()


def test_final_rounds_are_dropped(path: Path) -> None:
    box = BallotBox(path)
    for round_ in range(5):
        box.put(Ballot(round_, 1, 1, b"", bytes(32)))
    box.drop_before(3)
    assert [box.get(round_, 1) is None for round_ in range(5)] == [True, True, True, False, False]
    box.close()


def test_a_kill_right_after_put(path: Path) -> None:
    """The commitment follows `put`: without the ballot it could not be revealed, and would cost a fee."""
    program = f"""
import os, signal
from pathlib import Path
from sapo_client.ballots import Ballot, BallotBox
BallotBox(Path({str(path)!r})).put(Ballot(7, 1, 6, b"report", bytes(32)))
os.kill(os.getpid(), signal.SIGKILL)
"""
    ended = subprocess.run([sys.executable, "-c", program], timeout=60, check=False)
    assert ended.returncode == -9
    box = BallotBox(path)
    assert box.get(7, 1) == Ballot(7, 1, 6, b"report", bytes(32))
    box.close()
