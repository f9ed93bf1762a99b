"""Waits that grow, up to a bound, with a part left to chance; and a node's patience with a chain that is away."""

import pytest

from sapo_client.node import patience
from sapo_client.node.patience import LONGEST_WAIT, Patience
from sapo_verifier.backoff import Backoff
from sapo_verifier.chain.errors import ChainUnavailable
from sapo_verifier.errors import UNABLE

AWAY = ChainUnavailable("the chain's RPC at http://a does not answer")


def test_each_wait_is_twice_the_last_up_to_the_bound() -> None:
    waits = Backoff(1.0, 60.0, chance=lambda: 1.0, clock=lambda: 5.0)
    assert [waits.next() for _ in range(9)] == [1, 2, 4, 8, 16, 32, 60, 60, 60]
    waits.reset()
    assert waits.next() == 1


def test_chance_takes_up_to_a_half() -> None:
    assert Backoff(4.0, 60.0, chance=lambda: 0.0).next() == 2
    assert len({round(Backoff(4.0, 60.0).next(), 9) for _ in range(20)}) > 10
    assert all(2 <= Backoff(4.0, 60.0).next() <= 4 for _ in range(100))


def test_what_was_well_for_long_begins_anew() -> None:
    now = [0.0]
    waits = Backoff(1.0, 60.0, chance=lambda: 1.0, clock=lambda: now[0])
    assert [waits.next(), waits.next(), waits.next()] == [1, 2, 4]
    now[0] += 4 + 60
    assert waits.next() == 8, "not long enough"
    now[0] += 8 + 61
    assert waits.next() == 1


def test_the_first_wait_may_be_the_longest() -> None:
    assert [Backoff(45.0, 30.0, chance=lambda: 1.0).next() for _ in range(2)] == [45, 45]


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [1000.0]
    monkeypatch.setattr(patience.time, "monotonic", lambda: now[0])
    return now


def test_a_node_waits_longer_each_time_and_gives_up_by_its_setting(clock: list[float]) -> None:
    away, waits = Patience(10.0, 0.25), [0.0]

    def wait_for_ever() -> None:
        while len(waits) < 1000:
            clock[0] += waits[-1]
            waits.append(away.after(AWAY))

    with pytest.raises(ChainUnavailable) as over:
        wait_for_ever()
    del waits[0]
    assert 0.125 <= waits[0] <= 0.25
    assert max(waits) <= LONGEST_WAIT
    assert 600 <= sum(waits) <= 600 + LONGEST_WAIT
    assert len(waits) < 60
    for part in ("http://a does not answer", "10 minutes", "[chain] patience_minutes"):
        assert part in str(over.value)
    assert over.value.exit_status == UNABLE


def test_an_answer_begins_the_patience_anew_and_only_a_good_pass_the_waits(clock: list[float]) -> None:
    away = Patience(1.0, 1.0)
    for _ in range(20):
        waited = away.after(AWAY)
        clock[0] += waited
        away.answered()
    assert waited >= LONGEST_WAIT / 2
    away.well()
    assert away.after(AWAY) <= 1
    clock[0] += 3600
    away.answered()
    assert away.after(AWAY) <= LONGEST_WAIT, "a long round is no time without a chain"


def test_zero_never_gives_up(clock: list[float]) -> None:
    away = Patience(0.0, 1.0)
    for _ in range(100):
        away.after(AWAY)
        clock[0] += 3600
