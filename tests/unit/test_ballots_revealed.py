"""What a reveal says of a batch: its verdict, and its answers where there is one for each spot."""

import pytest

from sapo_verifier.chain.votes import Revealed, _may_hold
from sapo_verifier.protocol import window
from sapo_verifier.spots import encode_answers

SPOTS = {10: 2, 12: 1, 13: 2}


def revealed(answers: bytes) -> Revealed:
    """Accepts 12 and 10 of a window that begins at 12; rejects 13, and abstains about 14."""
    return Revealed(3, 1, "0x" + "11" * 20, 11, (12, 13, 14, 10), 0b01_00_10_01, bytes(32), answers, bytes(32))


def test_a_verdict_is_that_of_its_place_in_the_window() -> None:
    ballot = revealed(b"")
    assert [ballot.verdict(index) for index in (12, 13, 14, 10, 11)] == [1, 2, 0, 1, None]
    assert ballot.accepted == [12, 10]


def test_answers_are_cut_by_the_batches_that_are_accepted() -> None:
    assert revealed(encode_answers([7, 8, 9])).answers_about(SPOTS) == {12: [7], 10: [8, 9]}


@pytest.mark.parametrize(
    "data", [b"", encode_answers([7, 8]), encode_answers([7, 8, 9, 1]), encode_answers([7, 8, 9])[:-1]]
)
def test_answers_of_another_number_are_none(data: bytes) -> None:
    assert revealed(data).answers_about(SPOTS) is None


@pytest.mark.parametrize("count", [1, 2, 5, 9])
@pytest.mark.parametrize("size", [1, 4, 16])
def test_a_window_that_holds_a_batch_is_never_passed_over(count: int, size: int) -> None:
    """By where it begins alone: a voter whose own batch is in it goes one further."""
    for start in range(count):
        for own in range(count):
            for position in window(start, count, own, size):
                assert _may_hold(start, count, size, 100, [100 + position])
