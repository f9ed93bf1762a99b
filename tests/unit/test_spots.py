"""What spots are drawn, and what they ask: all that a voter, and who judges it, must do alike."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sapo_verifier import protocol
from sapo_verifier.errors import ObjectError
from sapo_verifier.intervals import FULL
from sapo_verifier.objects import Record
from sapo_verifier.spots import Spots, decode_answers, encode_answers, place

keys = st.binary(min_size=32, max_size=32)


def of_width(width: int, lo: int = 0) -> Record:
    return Record(7, lo, lo + width - 1)


@given(keys, st.integers(1, 256), st.integers(1, 256))
def test_spots_are_some_completions_each_once(key: bytes, completions: int, count: int) -> None:
    spots = protocol.spots(key, completions, count)
    assert len(spots) == len(set(spots)) == min(count, completions)
    assert all(0 <= i < completions for i in spots)
    assert protocol.spots(key, completions, count + 1)[:count] == spots, "a larger draw begins with the smaller one"


def test_every_completion_is_drawn_as_often_as_any_other() -> None:
    draws = 4000
    drawn = Counter(i for j in range(draws) for i in Spots.of(bytes(32), j.to_bytes(32, "big"), 1, 8, 2).leaves)
    assert set(drawn) == set(range(8))
    assert all(abs(times - draws / 4) < 150 for times in drawn.values()), drawn  # five deviations


def test_another_voter_round_or_batch_has_other_spots() -> None:
    some = {
        Spots.of(beacon, seed, index, 256, 8).leaves
        for beacon in (bytes(32), b"\1" * 32)
        for seed in (bytes(32), b"\1" * 32)
        for index in (0, 1)
    }
    assert len(some) == 8


@given(keys, st.integers(0, 255), st.integers(0, FULL - 1), st.integers(0, FULL - 1))
def test_what_is_asked_for_lies_outside_the_interval(key: bytes, i: int, a: int, b: int) -> None:
    lo, last = min(a, b), max(a, b)
    u = protocol.probe(key, i, lo, last)
    assert (u is None) == (lo == 0 and last == FULL - 1)
    assert u is None or (0 <= u < FULL and not lo <= u <= last)


@pytest.mark.parametrize(("lo", "last"), [(5, 4), (0, FULL), (9, 0)])
def test_an_interval_that_is_none_is_refused(lo: int, last: int) -> None:
    with pytest.raises(ValueError, match="no interval"):
        protocol.probe(bytes(32), 0, lo, last)


def test_the_place_is_the_last_one_that_is_neither_certain_nor_hopeless() -> None:
    tenth = -(-FULL // 10)
    middle, rare, sure = of_width(tenth), of_width(tenth - 1), of_width(9 * FULL // 10 + 1)
    assert place([middle, rare, sure]) == 0
    assert place([middle, of_width(9 * FULL // 10), sure]) == 1
    assert place([rare, sure, rare]) == 2, "where there is none it is the last position"


def test_a_question_without_an_answer_has_no_number() -> None:
    assert Spots(bytes(32), 1, 1).question(0, [of_width(FULL)]) == (0, None)


@given(st.lists(st.integers(0, 2**32 - 1), max_size=40))
def test_answers_are_read_as_they_are_written(tokens: list[int]) -> None:
    data = encode_answers(tokens)
    assert len(data) == 4 * len(tokens)
    assert decode_answers(data) == tokens


@pytest.mark.parametrize("size", [1, 3, 5])
def test_bytes_that_are_no_answers_are_refused(size: int) -> None:
    with pytest.raises(ObjectError, match="no whole number of answers"):
        decode_answers(bytes(size))
