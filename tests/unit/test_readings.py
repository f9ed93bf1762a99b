"""How an answer is read: by value where a number has several spellings, by its characters where it has one."""

import time
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sapo_verifier.tasks import CATALOGUE, MAX_ANSWER_BYTES, reading, right, shows

SORTED = "['-7.0', '12.25', '80.0']"

RIGHT = [
    ("decimal_arithmetic", "3.12", "3.12"),
    ("decimal_arithmetic", "003.1200", "3.12"),
    ("decimal_arithmetic", "-0.0", "0.00"),
    ("decimal_arithmetic", "100", "100.000"),
    ("number_sorting", SORTED, SORTED),
    ("number_sorting", "[-7,12.25,80]", SORTED),
    ("number_sorting", "[\n\t-7 , '12.250' ,\"80.0\" ]", SORTED),
    ("fraction_simplification", "$\\frac{3}{4}$", "3/4"),
    ("fraction_simplification", "3 / 4", "$\\dfrac{3}{4}$"),
    ("fraction_simplification", "03/4", "3/4"),
    ("spell_backward", "droW", "dRow"),
    ("binary_matrix", "0 1\n1 0", "0 1\n1 0"),
]

WRONG = [
    ("decimal_arithmetic", "3.02", "3.12"),
    ("decimal_arithmetic", "3.1", "3.12"),
    ("decimal_arithmetic", "3.13", "3.12"),
    ("decimal_arithmetic", "3.120000000000000000000000000000000001", "3.12"),
    ("decimal_arithmetic", "-3.12", "3.12"),
    ("decimal_arithmetic", "312e-2", "3.12"),
    ("decimal_arithmetic", " 3.12", "3.12"),
    ("decimal_arithmetic", "3,12", "3.12"),
    ("decimal_arithmetic", "٣.١٢", "3.12"),
    ("decimal_arithmetic", "3.12\n", "3.12"),
    ("number_sorting", "[-7,12.25,81]", SORTED),
    ("number_sorting", "[-7,12.5,80]", SORTED),
    ("number_sorting", "[80,12.25,-7]", SORTED),
    ("number_sorting", "[-7,12.25]", SORTED),
    ("number_sorting", "[-7,12.25,80,80]", SORTED),
    ("number_sorting", "[-7,12.25,80,]", SORTED),
    ("number_sorting", "-7,12.25,80", SORTED),
    ("number_sorting", "['-7','12.25','80\"]", SORTED),
    ("number_sorting", "[-7 12.25 80]", SORTED),
    ("number_sorting", "[NaN,NaN,NaN]", SORTED),
    ("number_sorting", "[]", SORTED),
    ("fraction_simplification", "6/8", "3/4"),
    ("fraction_simplification", "4/3", "3/4"),
    ("fraction_simplification", "-3/4", "3/4"),
    ("fraction_simplification", "\\frac{3}{4}x", "3/4"),
    ("fraction_simplification", "3/4/1", "3/4"),
    ("fraction_simplification", "0.75", "3/4"),
    ("spell_backward", "drow ", "drow"),
    ("spell_backward", "\N{KELVIN SIGN}", "k"),  # lower() would make it one
    ("binary_matrix", "0 1 \n1 0", "0 1\n1 0"),
    ("binary_matrix", "[[0, 1], [1, 0]]", "0 1\n1 0"),
    ("gcd", "02", "2"),
    ("base_conversion", "", ""),
]


@pytest.mark.parametrize(("dataset", "answer", "truth"), RIGHT)
def test_another_spelling_of_the_answer_is_right(dataset: str, answer: str, truth: str) -> None:
    assert right(dataset, answer, truth)


@pytest.mark.parametrize(("dataset", "answer", "truth"), WRONG)
def test_another_answer_is_wrong(dataset: str, answer: str, truth: str) -> None:
    assert not right(dataset, answer, truth)


HOSTILE = st.one_of(
    st.text(max_size=60),
    st.text(alphabet="0123456789.,-+eE/\\{}[]'\"$ \n\tfrac", max_size=200),
    st.text(alphabet=st.characters(categories=["Nd", "No", "Cs", "Lu"]), max_size=20),
)


@given(answer=HOSTILE)
@settings(max_examples=300, deadline=None)
def test_every_answer_has_a_result(answer: str) -> None:
    for dataset in CATALOGUE:
        assert right(dataset, answer, answer) == (reading(dataset, answer) is not None)


@pytest.mark.parametrize("read", sorted(set(CATALOGUE.values())))
def test_the_longest_answers_take_no_time(read: str) -> None:
    """Repeated parts are what makes a pattern go back and forth: 1,000 bytes of each cost a few milliseconds."""
    dataset = next(name for name, how in CATALOGUE.items() if how == read)
    parts = ["0", "9", " ", "$", "[", "-", "0.", "1,", "'1',", "[ ", " ,", "1/", "\\frac{", "{ 1 }", "\t\n", "' ", "1 "]
    for front in ("", "[", "[1", "\\frac{", "$ ", "1 "):
        for part in parts:
            answer = (front + part * MAX_ANSWER_BYTES)[: MAX_ANSWER_BYTES - 1] + "!"
            began = time.process_time()
            right(dataset, answer, "1")
            assert time.process_time() - began < 0.05, (front, part)


DECIMALS = st.decimals(-1000, 1000, places=3, allow_nan=False).map(lambda value: format(value, "f"))


@given(truth=DECIMALS, other=DECIMALS, noughts=st.integers(0, 5))
@settings(max_examples=300, deadline=None)
def test_decimals_are_right_by_their_value_alone(truth: str, other: str, noughts: int) -> None:
    assert right("decimal_arithmetic", truth + "0" * noughts, truth)
    assert right("decimal_arithmetic", other, truth) == (Decimal(other) == Decimal(truth))


@given(data=st.data(), truth=st.lists(DECIMALS, min_size=1, max_size=10))
@settings(max_examples=200, deadline=None)
def test_a_list_with_one_number_changed_is_wrong(data: Any, truth: list[str]) -> None:
    assert right("number_sorting", f"[{','.join(truth)}]", str(truth))
    at, other = data.draw(st.integers(0, len(truth) - 1)), data.draw(DECIMALS)
    changed = [*truth[:at], other, *truth[at + 1 :]]
    assert right("number_sorting", str(changed), str(truth)) == (Decimal(other) == Decimal(truth[at]))


@given(truth=st.tuples(*[st.integers(1, 10**6)] * 2), other=st.tuples(*[st.integers(1, 10**6)] * 2))
@settings(max_examples=200, deadline=None)
def test_a_fraction_is_right_by_both_its_numbers(truth: tuple[int, int], other: tuple[int, int]) -> None:
    for form in ("{}/{}", "${} / {}$", "\\frac{{{}}}{{{}}}", "$\\dfrac {{{}}} {{ {} }}$"):
        assert right("fraction_simplification", form.format(*truth), "{}/{}".format(*truth))
        assert right("fraction_simplification", form.format(*other), "{}/{}".format(*truth)) == (other == truth)


@given(truth=st.text(min_size=1, max_size=20), at=st.integers(0, 19), character=st.characters())
@settings(max_examples=200, deadline=None)
def test_a_text_with_one_character_changed_is_wrong(truth: str, at: int, character: str) -> None:
    at %= len(truth)
    changed = truth[:at] + character + truth[at + 1 :]
    assert right("arc_1d", truth, truth)
    assert right("arc_1d", changed, truth) == (changed == truth)
    same = changed.encode("utf-8", "surrogatepass").lower() == truth.encode("utf-8", "surrogatepass").lower()
    assert right("spell_backward", changed, truth) == same


@pytest.mark.parametrize(
    ("dataset", "question", "truth", "shown"),
    [
        ("gcd", "of 12, 24?", "12", True),
        ("gcd", "of 12, 24?", "2", False),
        ("gcd", "of -5 or 5.5", "5", True),
        ("gcd", "of 5a", "5", False),
        ("rotate_matrix", "by 0 degrees:\n1 2\n3 4\n", "1 2\n3 4", True),
        ("rotate_matrix", "by 90 degrees:\n1 2\n3 4\n", "3 1\n4 2", False),
        ("spell_backward", "Spell: Level", "leveL", True),
        ("number_sorting", "Sort: 1.0, 2.0, 3.0\nLike ['5']", "['1.0', '2.0', '3.0']", True),
        ("number_sorting", "Sort: 2.0, 1.0, 3.0\nLike ['5']", "['1.0', '2.0', '3.0']", False),
        ("string_manipulation", "Transform: a.c", "abc", False),
    ],
)
def test_a_question_shows_its_answer(dataset: str, question: str, truth: str, shown: bool) -> None:
    assert shows(dataset, question, truth) == shown
