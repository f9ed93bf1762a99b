"""Dealing and rendering: the first attempt that fits, the same for everybody, and no text that expands twice."""

import os
import signal
from collections.abc import Iterator
from typing import Any

import pytest

from sapo_devnet.testkit.rules import MONEY
from sapo_verifier.protocol import dataset_choice, generator_seed, task_seed
from sapo_verifier.spec import INSTRUCTION_BYTES, Spec
from sapo_verifier.tasks import (
    PAPER_TASKS,
    POCKET_TASKS,
    GeneratorError,
    Task,
    TaskError,
    TaskWorker,
    compact_answer,
    deal,
    instruction,
    render,
    rewards,
    shows,
)
from sapo_verifier.tasks.dealing import MAX_ATTEMPTS

BEACON = bytes(range(32))
NODE = "0x" + "ab" * 20
TEXT = "{question}\n{instruction}\n"


def spec(tasks: list[dict[str, Any]], *templates: str, max_prompt_bytes: int = 1000, answer: str = "brackets") -> Spec:
    base = {
        "digest": "0x" + "00" * 32,
        "vocab": 64,
        "eos": [1],
        "context": 4096,
        "max_token_bytes": 6,
        "max_adapter_bytes": 1,
        "max_rank": 0,
    }
    chain = {
        "round_blocks": 8,
        "draws": 4,
        "min_accepts": 2,
        "min_rejects": 8,
        "exit_rounds": 9,
    } | MONEY
    return Spec.model_validate(
        {
            "v": 2,
            "chain": chain,
            "group_size": 8,
            "max_slots": 4,
            "max_new_tokens": 15,
            "max_prompt_bytes": max_prompt_bytes,
            "pool_rounds": 3,
            "spot": 256,
            "tasks": tasks,
            "answer": answer,
            "versions": {"reasoning_gym": "0.1.25", "digest": "0x" + "00" * 32},
            "bases": [{"id": f"base-{i}", "template": template, **base} for i, template in enumerate(templates)],
        }
    )


class Generator:
    """Stands for the worker: one question for each attempt, in order; an exception is raised."""

    def __init__(self, *answers: str | Exception) -> None:
        self.answers = list(answers)
        self.asked: list[tuple[str, int]] = []

    def entry(self, dataset: str, config: dict[str, Any], seed: int) -> dict[str, Any]:
        self.asked.append((dataset, seed))
        answer = self.answers[min(len(self.asked), len(self.answers)) - 1]
        if isinstance(answer, Exception):
            raise answer
        return {"question": answer, "answer": "1", "metadata": {"number": len(answer)}}


TWO = [{"name": "count_bits", "config": {}, "weight": 3}, {"name": "lcm", "config": {}, "weight": 1}]
BITS = TWO[:1]


@pytest.fixture(scope="module")
def worker() -> Iterator[TaskWorker]:
    with TaskWorker() as running:
        yield running


def test_the_beacon_deals_dataset_and_seed() -> None:
    rules = spec(TWO, TEXT)
    seen = set()
    for slot in range(40):
        generator = Generator("question")
        task = deal(rules, BEACON, NODE, slot, generator)  # type: ignore[arg-type]
        drawn = task_seed(BEACON, NODE, slot, 0)
        assert (task.dataset, task.seed) == (TWO[dataset_choice(drawn, [3, 1])]["name"], generator_seed(drawn))
        assert (task.attempt, task.question, task.answer, task.compact) == (0, "question", "1", None)
        assert generator.asked == [(task.dataset, task.seed)]
        seen.add(task.dataset)
    assert seen == {"count_bits", "lcm"}


def test_slots_nodes_and_beacons_get_different_tasks() -> None:
    rules = spec(BITS, TEXT)
    deals = [(BEACON, NODE, 0), (BEACON, NODE, 1), (BEACON, "0x" + "ac" * 20, 0), (bytes(32), NODE, 0)]
    seeds = {deal(rules, *which, Generator("q")).seed for which in deals}  # type: ignore[arg-type]
    assert len(seeds) == len(deals)


def test_a_question_fits_by_its_bytes() -> None:
    rules = spec(BITS, TEXT, max_prompt_bytes=10)
    task = deal(rules, BEACON, NODE, 0, Generator("a" * 11, "é" * 6, "é" * 5))  # type: ignore[arg-type]
    assert (task.attempt, task.question) == (2, "é" * 5)
    assert task.seed == generator_seed(task_seed(BEACON, NODE, 0, 2))


def test_a_generator_that_fails_is_passed_over() -> None:
    task = deal(spec(BITS, TEXT), BEACON, NODE, 0, Generator(GeneratorError("no"), "q"))  # type: ignore[arg-type]
    assert task.attempt == 1


def test_a_question_that_shows_its_answer_is_passed_over() -> None:
    """The generator's answer is always 1."""
    generator = Generator("how many of 0, 1 and 2?", "3 - 2 = 1", "one of 10, 21 or x1")
    task = deal(spec(BITS, TEXT), BEACON, NODE, 0, generator)  # type: ignore[arg-type]
    assert (task.attempt, task.question) == (2, "one of 10, 21 or x1")


def test_an_answer_without_a_reading_is_passed_over() -> None:
    """The library writes base_conversion's 0 as nothing."""
    answers = ["", "2"]

    class Empty(Generator):
        def entry(self, dataset: str, config: dict[str, Any], seed: int) -> dict[str, Any]:
            return super().entry(dataset, config, seed) | {"answer": answers.pop(0)}

    task = deal(spec(BITS, TEXT), BEACON, NODE, 0, Empty("q"))  # type: ignore[arg-type]
    assert (task.attempt, task.answer) == (1, "2")


def test_a_worker_that_is_late_is_not_passed_over() -> None:
    """Another machine would have had the question in time, and deal another task."""
    generator = Generator(TaskError("late"), "q")
    with pytest.raises(TaskError, match="late"):
        deal(spec(BITS, TEXT), BEACON, NODE, 0, generator)  # type: ignore[arg-type]
    assert len(generator.asked) == 1


def test_attempts_are_bounded_and_the_last_reason_is_told() -> None:
    generator = Generator("q" * 11)
    with pytest.raises(TaskError, match=r"slot 3 of 0xab.*none of 64 attempts.*count_bits's question has 11 bytes"):
        deal(spec(BITS, TEXT, max_prompt_bytes=10), BEACON, NODE, 3, generator)  # type: ignore[arg-type]
    assert len(generator.asked) == MAX_ATTEMPTS == 64


def test_one_compact_base_makes_every_task_compact() -> None:
    task = deal(spec(TWO, TEXT, "compact"), BEACON, NODE, 0, Generator("question"))  # type: ignore[arg-type]
    assert (task.dataset, task.compact) == ("count_bits", "O8=")
    for slot in range(20):  # lcm has no compact prompt: always passed over
        task = deal(spec(TWO, TEXT, "compact"), BEACON, NODE, slot, Generator("question"))  # type: ignore[arg-type]
        assert task.dataset == "count_bits"


def test_a_stopped_worker_is_an_error_of_this_machine() -> None:
    rules = spec(BITS, "compact")
    with TaskWorker() as worker:
        task = deal(rules, BEACON, NODE, 0, worker)
        worker.timeout = 0.2
        assert worker.pid is not None
        os.kill(worker.pid, signal.SIGSTOP)
        with pytest.raises(TaskError, match="no reply within"):
            deal(rules, BEACON, NODE, 0, worker)
        worker.timeout = 10.0
        assert deal(rules, BEACON, NODE, 0, worker) == task


def passed_over(rules: Spec, slot: int, attempt: int, worker: TaskWorker) -> bool:
    """Whether an attempt's question holds its answer."""
    drawn = task_seed(BEACON, NODE, slot, attempt)
    rule = rules.tasks[dataset_choice(drawn, [rule.weight for rule in rules.tasks])]
    entry = worker.entry(rule.name, rule.config, generator_seed(drawn))
    return shows(rule.name, entry["question"], entry["answer"])


def test_pocket_tasks_from_deal_to_reward(worker: TaskWorker) -> None:
    rules = spec(POCKET_TASKS, "compact", TEXT)
    datasets = set()
    for slot in range(40):
        task = deal(rules, BEACON, NODE, slot, worker)
        assert all(passed_over(rules, slot, attempt, worker) for attempt in range(task.attempt))
        assert not passed_over(rules, slot, task.attempt, worker)
        assert render(task, "compact", "brackets") == task.compact
        texts = [f"<{compact_answer(task)}>", compact_answer(task), "<x>", "<>"]
        assert rewards(rules, task, texts, worker) == [True, False, False, False]
        datasets.add(task.dataset)
    assert len(datasets) > 5


def test_paper_tasks_from_deal_to_reward(worker: TaskWorker) -> None:
    rules = spec(PAPER_TASKS, TEXT, answer="tag")
    for slot in range(20):
        task = deal(rules, BEACON, NODE, slot, worker)
        assert render(task, TEXT, "tag") == f"{task.question}\n{instruction('tag')}\n"
        texts = [f"I think so: <answer>{task.answer}</answer>", task.answer, "<answer></answer>"]
        assert rewards(rules, task, texts, worker) == [True, False, False]


def question(text: str) -> Task:
    return Task("lcm", 1, 0, text, "1", {}, None)


@pytest.mark.parametrize(
    "text", ["{instruction}", "{question}", "{0} {} {{x}} \\1 \\g<0> %s $x", "{question}{instruction}"]
)
def test_a_question_is_never_expanded(text: str) -> None:
    assert render(question(text), "Q: {question} I: {instruction}", "tag") == f"Q: {text} I: {instruction('tag')}"


def test_other_braces_of_a_template_stay() -> None:
    template = "{{question}} {x} {instruction} {question} {question}"
    assert render(question("q"), template, "tag") == f"{{q}} {{x}} {instruction('tag')} q q"


def test_a_compact_prompt_that_was_not_dealt_is_refused() -> None:
    with pytest.raises(TaskError, match="without a compact prompt"):
        render(question("q"), "compact", "tag")


@pytest.mark.parametrize("style", ["tag", "brackets", "whole"])
def test_instructions_are_short(style: str) -> None:
    assert 0 < len(instruction(style).encode()) <= INSTRUCTION_BYTES


def test_an_unknown_style_is_a_mistake() -> None:
    with pytest.raises(ValueError, match="none of tag, brackets, whole"):
        render(question("q"), TEXT, "boxed")
