"""Compact prompts and answers of the pocket tasks: short, in the alphabet, and scored exactly 1.0."""

from collections.abc import Iterator
from typing import Any

import pytest

from sapo_verifier.spec import COMPACT_MAX_BYTES
from sapo_verifier.tasks import (
    COMPACT_ALPHABET,
    POCKET_TASKS,
    Task,
    TaskError,
    TaskWorker,
    compact_answer,
    compact_prompt,
)

PROMPT_CHARACTERS = 18
ANSWER_CHARACTERS = 13  # 15 tokens with the brackets; see the test of what fits


@pytest.fixture(scope="module")
def worker() -> Iterator[TaskWorker]:
    with TaskWorker() as running:
        yield running


TASKS: dict[tuple[str, int], Task] = {}


def pocket_task(rule: dict[str, Any], seed: int, worker: TaskWorker) -> Task:
    """Made once: the tests share them, as spell_backward reads its word list anew for every item."""
    key = rule["name"], seed
    if key not in TASKS:
        TASKS[key] = make_task(rule, seed, worker)
    return TASKS[key]


def make_task(rule: dict[str, Any], seed: int, worker: TaskWorker) -> Task:
    entry = worker.entry(rule["name"], rule["config"], seed)
    prompt = compact_prompt(rule["name"], entry["question"], entry["metadata"])
    return Task(rule["name"], seed, 0, entry["question"], entry["answer"], entry["metadata"], prompt)


def test_the_alphabet_has_no_character_twice() -> None:
    assert len(COMPACT_ALPHABET) == len(set(COMPACT_ALPHABET)) == 58


@pytest.mark.parametrize("rule", POCKET_TASKS, ids=[rule["name"] for rule in POCKET_TASKS])
def test_prompts_and_answers(rule: dict[str, Any], worker: TaskWorker) -> None:
    seeds = 100 if rule["name"] == "spell_backward" else 500
    letters = set()
    for seed in range(seeds):
        task = pocket_task(rule, seed, worker)
        answer = compact_answer(task)
        assert task.compact is not None
        assert len(task.compact) <= PROMPT_CHARACTERS
        assert task.compact.endswith("=")
        assert set(task.compact + answer) <= set(COMPACT_ALPHABET)
        assert not set(answer) & {"<", ">"}
        assert worker.scores(task.dataset, rule["config"], seed, [answer]) == [1.0], task
        letters.add(task.compact[0])
    assert len(letters) == 1


def test_the_task_letters_differ(worker: TaskWorker) -> None:
    assert len({(pocket_task(rule, 0, worker).compact or "")[0] for rule in POCKET_TASKS}) == len(POCKET_TASKS)


def test_answers_fit_fifteen_tokens_but_for_the_matrices(worker: TaskWorker) -> None:
    """A 3 × 3 matrix takes 17 characters in the only form that is right; everything else takes 13 at most."""
    for rule in POCKET_TASKS:
        lengths = [len(compact_answer(pocket_task(rule, seed, worker))) for seed in range(100)]
        if rule["name"] == "binary_matrix":
            assert set(lengths) == {17}
        else:
            assert max(lengths) <= ANSWER_CHARACTERS


def test_a_prompt_says_everything_that_the_answer_depends_on(worker: TaskWorker) -> None:
    for rule in POCKET_TASKS:
        answers: dict[str, str] = {}
        for seed in range(100):
            task = pocket_task(rule, seed, worker)
            assert task.compact is not None
            assert answers.setdefault(task.compact, compact_answer(task)) == compact_answer(task)


@pytest.mark.parametrize(
    ("dataset", "question", "metadata", "prompt"),
    [
        ("basic_arithmetic", "", {"expression": "12 * 7"}, "B12*7="),
        ("base_conversion", "", {"source_repr": "1011", "source_base": 2, "target_base": 3}, "C1011,2,3="),
        ("decimal_arithmetic", "Please: (a)\n(9.5/0.7) = ?", {"num_terms": 2}, "D9.5/0.7="),
        ("fraction_simplification", "", {"numerator": 33, "denominator": 36}, "F33/36="),
        ("binary_matrix", "", {"matrix": [[0, 1], [1, 1]]}, "M01/11="),
        ("count_bits", "", {"number": 201}, "O201="),
        ("spell_backward", "", {"word": "Word"}, "Sword="),
        ("gcd", "", {"numbers": [48, 18]}, "G48,18="),
        ("number_sorting", "", {"original_numbers": ["12.0", "7.0"], "direction": "descending"}, "N-12,7="),
    ],
)
def test_prompt_forms(dataset: str, question: str, metadata: dict[str, Any], prompt: str) -> None:
    assert compact_prompt(dataset, question, metadata) == prompt


def test_a_long_prompt_is_refused() -> None:
    assert len(compact_prompt("count_bits", "", {"number": 10 ** (COMPACT_MAX_BYTES - 3)})) == COMPACT_MAX_BYTES
    with pytest.raises(TaskError, match="beyond 32 bytes"):
        compact_prompt("count_bits", "", {"number": 10 ** (COMPACT_MAX_BYTES - 2)})


def test_a_strange_character_is_refused() -> None:
    with pytest.raises(TaskError, match="outside the alphabet"):
        compact_prompt("spell_backward", "", {"word": "naïve"})


def test_a_dataset_without_compact_form_is_refused() -> None:
    with pytest.raises(TaskError, match="'lcm' has no compact prompt"):
        compact_prompt("lcm", "", {})


def test_a_decimal_has_the_digits_that_the_question_asks_for(worker: TaskWorker) -> None:
    """7.0 + 2.5 is learnt as 9.5 and 10/7 as 1.429; one place less is wrong."""
    rule = next(rule for rule in POCKET_TASKS if rule["name"] == "decimal_arithmetic")
    tasks = [pocket_task(rule, seed, worker) for seed in range(100)]
    assert max(len(compact_answer(task)) for task in tasks) <= 7
    assert any(task.answer.endswith("0") and not compact_answer(task).endswith("0") for task in tasks)
    long = next(task for task in tasks if len(task.answer.partition(".")[2]) == 3)
    answers = [compact_answer(long), compact_answer(long)[:-1]]
    assert worker.scores(long.dataset, rule["config"], long.seed, answers) == [1.0, 0.0]
