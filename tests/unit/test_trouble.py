"""What lasts is said when it begins, now and then, and when it is over, however often it is met."""

import logging

import pytest

from sapo_verifier import trouble
from sapo_verifier.trouble import Trouble


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [1000.0]
    monkeypatch.setattr(trouble.time, "monotonic", lambda: now[0])
    return now


def test_what_lasts_is_three_lines(clock: list[float], caplog: pytest.LogCaptureFixture) -> None:
    met = Trouble(logging.getLogger("sapo"))
    for i in range(700):
        met.seen("the chain is away" if i % 2 else "the chain answers HTTP 502")
        clock[0] += 1
    met.over()
    met.over()
    said = [record.getMessage() for record in caplog.records]
    assert said == [
        "the chain answers HTTP 502",
        "the chain is away",
        "the chain answers HTTP 502 (for 600 s, 601 times)",
        "that is over, after 700 s and 700 times",
    ]


def test_words_that_differ_each_time_are_said_once(clock: list[float], caplog: pytest.LogCaptureFixture) -> None:
    met = Trouble(logging.getLogger("sapo"))
    for i in range(9):
        met.seen(f"try again in {i} s", "busy")
    met.over("it answers")
    assert [record.getMessage() for record in caplog.records] == [
        "try again in 0 s",
        "it answers, after 0 s and 9 times",
    ]


def test_the_next_one_is_told_anew(clock: list[float], caplog: pytest.LogCaptureFixture) -> None:
    met = Trouble(logging.getLogger("sapo"))
    met.over()
    for _ in range(2):
        met.seen("away")
        clock[0] += 2
        met.over()
    assert [record.getMessage() for record in caplog.records] == ["away", "that is over, after 2 s and 1 times"] * 2
