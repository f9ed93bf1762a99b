"""What counts as an answer, and what it earns."""

from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sapo_verifier.tasks import MAX_ANSWER_BYTES, Task, TaskError, extract, rewards


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("<answer>7</answer>", "7"),
        ("so <answer> 7\n</answer> it is", "7"),
        ("<answer>6</answer><answer>7</answer>", "7"),
        ("<answer>6</answer><answer>7", "6"),
        ("<answer>6<answer>7</answer>", "7"),
        ("<answer>7</answer> or </answer>", "7"),
        ("</answer><answer>7</answer><answer>", "7"),
        ("<answer></answer>", ""),
        ("<answer> \t </answer>", ""),
        ("<answer>a\nb</answer>", "a\nb"),
        ("<answer><7></answer>", "<7>"),
        ("</answer>7<answer>", None),
        ("<answer>7", None),
        ("7</answer>", None),
        ("<Answer>7</Answer>", None),
        ("<answer >7</answer>", None),
        ("<7>", None),
        ("7", None),
        ("", None),
    ],
)
def test_extract_tag(text: str, answer: str | None) -> None:
    assert extract(text, "tag") == answer


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("<7>", "7"),
        ("<0 1\n1 0>", "0 1\n1 0"),
        ("< 7 >", " 7 "),
        ("<>", ""),
        ("<", None),
        (">", None),
        ("", None),
        ("7", None),
        (" <7>", None),
        ("<7> ", None),
        ("<7>\n", None),
        ("<7><7>", None),
        ("<<7>>", None),
        ("<7", None),
        ("7>", None),
        ("><", None),
        ("<answer>7</answer>", None),
    ],
)
def test_extract_brackets(text: str, answer: str | None) -> None:
    assert extract(text, "brackets") == answer


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("7", "7"),
        (" 7\n", "7"),
        ("\x1c\u30007\u200b\x85", "7\u200b"),
        ("", ""),
        (" \t\n", ""),
        ("0 1\n1 0", "0 1\n1 0"),
        ("<7>", "<7>"),
        ("<answer>7</answer>", "<answer>7</answer>"),
        ("it is 7", "it is 7"),
    ],
)
def test_extract_whole(text: str, answer: str) -> None:
    assert extract(text, "whole") == answer


def test_an_unknown_style_is_a_mistake() -> None:
    with pytest.raises(ValueError, match="none of tag, brackets, whole"):
        extract("<7>", "boxed")


@given(
    st.lists(st.sampled_from(["<answer>", "</answer>", "<", ">", "7", " "]), max_size=12).map("".join),
    st.sampled_from(["tag", "brackets"]),
)
@settings(max_examples=200, deadline=None)
def test_an_answer_is_a_part_of_the_text_and_holds_no_closing_mark(text: str, style: str) -> None:
    answer = extract(text, style)
    if answer is not None:
        assert answer in text
        assert ("</answer>" if style == "tag" else ">") not in answer


class Scorer:
    """Stands for the worker: gives known scores, and remembers what it was asked."""

    def __init__(self, scores: dict[str, float | None]) -> None:
        self.known = scores
        self.asked: list[str] = []

    def scores(self, dataset: str, config: dict[str, Any], seed: int, answers: list[str]) -> list[float | None]:
        assert (dataset, config, seed) == ("gcd", {"max_value": 60}, 5)
        self.asked += answers
        return [self.known.get(answer, 0.0) for answer in answers]


TASK = Task("gcd", 5, 0, "question", "2", {}, None)


def spec(*names: str, answer: str = "brackets") -> Any:
    rules = [SimpleNamespace(name=name, config={"max_value": 60}, weight=1) for name in names]
    return SimpleNamespace(tasks=rules, answer=answer)


def earn(texts: list[str], scorer: Scorer, answer: str = "brackets") -> list[bool | None]:
    return rewards(spec("lcm", "gcd", answer=answer), TASK, texts, scorer)  # type: ignore[arg-type]


def test_only_exactly_one_earns() -> None:
    scorer = Scorer({"a": 1.0, "b": 0.9999999999999999, "c": 1.0000000000000002, "d": float("nan"), "e": None})
    texts = ["<a>", "<b>", "<c>", "<d>", "<e>", "<f>", "a", "<a> "]
    assert earn(texts, scorer) == [True, False, False, False, None, False, False, False]


def test_a_score_that_is_not_known_is_never_wrong() -> None:
    assert earn(["<x>", "y"], Scorer({"x": None})) == [None, False]


def test_equal_answers_are_scored_once() -> None:
    scorer = Scorer({"a": 1.0})
    assert earn(["<a>", "<b>", "<a>", "a"], scorer) == [True, False, True, False]
    assert scorer.asked == ["a", "b"]


@pytest.mark.parametrize("letter", ["a", "é", "🙂"])
def test_the_limit_is_in_bytes_of_utf8(letter: str) -> None:
    longest = letter * (MAX_ANSWER_BYTES // len(letter.encode()))
    scorer = Scorer({longest: 1.0, longest + letter: 1.0})
    assert earn([f"<{longest}>", f"<{longest}{letter}>"], scorer) == [True, False]
    assert scorer.asked == [longest]


def test_the_limit_is_on_the_answer_and_not_on_the_text() -> None:
    long = "x" * 5000
    assert earn([f"{long}<answer>{' ' * 5000}a</answer>{long}"], Scorer({"a": 1.0}), "tag") == [True]


def test_a_lone_surrogate_does_not_raise() -> None:
    assert earn(["<\ud800>"], Scorer({})) == [False]


def test_the_dataset_must_have_one_rule() -> None:
    for names in [("lcm",), ("gcd", "gcd")]:
        with pytest.raises(TaskError, match="it needs exactly one"):
            rewards(spec(*names), TASK, ["<a>"], Scorer({}))  # type: ignore[arg-type]
