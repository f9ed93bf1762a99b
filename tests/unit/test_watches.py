"""What other nodes did not serve is one line of the log a round."""

import logging
from types import SimpleNamespace
from typing import Any, cast

import pytest

from sapo_client.batches.presence import Presence, Wish
from sapo_client.duties.watches import Watches
from sapo_verifier.chain.reader import ChainReader

ROUND_BLOCKS = 30


class Nobody:
    """Serves nothing."""

    def unserved(self, wishes: list[Wish]) -> list[Wish]:
        return list(wishes)


def watches() -> Watches:
    block = iter(range(0, 3000, 10))
    spec = SimpleNamespace(chain=SimpleNamespace(round_blocks=ROUND_BLOCKS))
    reader = SimpleNamespace(
        deployment=SimpleNamespace(spec=spec),
        first_block_of=lambda round_: round_ * ROUND_BLOCKS,
        block_number=lambda: next(block),
    )
    return Watches(cast(ChainReader, reader), cast(Presence, Nobody()))


def wish(index: int, node: str) -> Wish:
    return Wish(cast(Any, SimpleNamespace(index=index, node=node)), [(bytes([index]) * 32, 1)])


def test_many_unserved_blocks_are_counted_in_one_line(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    made, went_on = watches(), []
    wishes = [wish(index, f"0x{index % 3}") for index in range(9)]
    for part in (wishes[:4], wishes[4:]):
        made.ask(part, [], 7, went_on.append)
    while not made.finished:
        made.go_on()
    assert len(went_on) == 2
    assert caplog.messages == [], "the round may bring more"
    made.clear()
    assert caplog.messages == [
        "round 7: 9 blocks of 3 other nodes were not served, of 9 batches that were asked for one"
    ]
    made.clear()
    assert len(caplog.messages) == 1, "said once"


def test_what_nobody_has_asked_for_yet_is_not_counted(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    made = watches()
    made.ask([wish(1, "0x1")], [], 7, lambda _: None)
    made.clear()
    assert caplog.messages == []
