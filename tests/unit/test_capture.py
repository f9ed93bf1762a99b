"""When a node pokes and answers, and what it says of clocks and of rounds that are too short for drand."""

from types import SimpleNamespace
from typing import Any

import pytest

from sapo_client.duties.beacon import Capture
from sapo_devnet import drand

BLOCKS, FIRST = 64, 640  # of round 10
ROUND = 10


class Chain:
    """What the duty reads."""

    def __init__(self, waits_for: Any = drand.RULES) -> None:
        self.deployment = SimpleNamespace(
            drand=waits_for, spec=SimpleNamespace(chain=SimpleNamespace(round_blocks=BLOCKS))
        )
        self.block, self.target, self.time, self.pace = FIRST + 1, None, 0, 12.0
        self.calls: list[Any] = []

    def block_number(self) -> int:
        return self.block

    def first_block_of(self, round_: int) -> int:
        return round_ * BLOCKS

    def beacon(self, round_: int) -> None:
        return None

    def drand_round(self, round_: int) -> int | None:
        return self.target

    def block_time(self) -> int:
        return self.time

    def round_at(self, round_: int) -> Any:
        return SimpleNamespace(count=5)

    def seconds_per_block(self, blocks: int) -> float | None:
        return self.pace

    def call(self, call: Any) -> bytes:
        self.calls.append(call)
        return bytes(32)


class Line:
    """Turns, without a line."""

    def __init__(self) -> None:
        self.offered: list[tuple[str, str]] = []
        self.needed: Any = None

    def offer(self, key: str, call: Any, *, crowd: int, needed: Any, deadline_round: int) -> None:
        assert (crowd, deadline_round) == (5, ROUND)
        self.offered.append((key, call.contract))
        self.needed = needed


class Relay:
    def __init__(self) -> None:
        self.asked: list[int] = []

    def signature(self, drand_round: int, refusal: Any) -> bytes | None:
        self.asked.append(drand_round)
        return b"s" * 128 if refusal(b"s" * 128) == "" else None


def make(chain: Chain, now: float = 0.0) -> tuple[Capture, Line, Relay]:
    line, relay = Line(), Relay()
    parts: Any = chain, line, relay
    return Capture(*parts, clock=lambda: now), line, relay


@pytest.mark.parametrize(
    ("waits_for", "block", "goes_on", "offered"),
    [
        (None, FIRST, True, []),
        (None, FIRST + 1, True, [("poke/10", "rounds")]),
        (None, FIRST + 30, True, [("poke/10", "rounds")]),
        (None, FIRST + 31, False, []),
        (drand.RULES, FIRST, True, []),
        (drand.RULES, FIRST + 15, True, [("poke/10", "rounds")]),
        (drand.RULES, FIRST + 16, False, []),
    ],
)
def test_a_poke_is_offered_as_long_as_the_contract_takes_it(waits_for, block, goes_on, offered) -> None:
    chain = Chain(waits_for)
    chain.block = block
    capture, line, _ = make(chain)
    assert (capture.step(ROUND), line.offered) == (goes_on, offered)
    if offered:
        assert line.needed()
        chain.block = FIRST + 31
        assert not line.needed(), "when the turn comes too late nothing is sent"


def test_relays_are_asked_when_the_signature_can_be_there_and_not_at_every_poll() -> None:
    chain = Chain()
    chain.target, due = 7, drand.RULES.signed_at(7)
    capture, line, relay = make(chain, now=due - 1)
    assert capture.step(ROUND)
    assert (relay.asked, line.offered) == ([], [])
    chain.time = due  # the chain's time counts as well: a clock that is late holds nothing up
    for _ in range(3):
        assert capture.step(ROUND)
    assert relay.asked == [7]
    assert line.offered == [("answer/10", "drand")] * 3
    chain.target = 8  # a reorganization has another poke
    chain.time = drand.RULES.signed_at(8)
    assert capture.step(ROUND)
    assert relay.asked == [7, 8]


def test_an_answer_is_offered_until_the_half_and_not_later() -> None:
    chain = Chain()
    chain.target, chain.block = 7, FIRST + 30
    capture, line, _ = make(chain, now=drand.RULES.signed_at(7))
    assert capture.step(ROUND)
    assert line.offered == [("answer/10", "drand")]
    chain.block = FIRST + 31
    assert not capture.step(ROUND)


def test_a_clock_that_is_ahead_of_the_blocks_by_more_than_the_margin_promises_nothing() -> None:
    chain = Chain()
    chain.time = 1000
    assert make(chain, now=1036.0)[0].why_no_promise() == ""
    words = make(chain, now=1037.0)[0].why_no_promise()
    assert "dated 37 s before this machine's clock, more than the beacon's margin of 36 s" in words
    assert make(Chain(None), now=1e9)[0].why_no_promise() == ""


def test_half_a_round_has_to_be_longer_than_the_margin_and_the_answer() -> None:
    chain = Chain()
    assert make(chain)[0].why_too_short() == ""  # 31 · 12 s
    chain.pace = 1.0  # 31 s, and 36 + 3 + 10 + 4 are needed
    assert "half a round takes 31 s at this chain's pace (1 s a block)" in make(chain)[0].why_too_short()
    chain.pace = 2.0  # 62 s, and 57
    assert make(chain)[0].why_too_short() == ""
    assert make(Chain(None))[0].why_too_short() == ""
