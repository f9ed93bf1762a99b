"""Every dataset that may pay, against answers that try to earn without being right."""

import os
import time
from collections.abc import Iterator
from typing import Any

import pytest

from sapo_lab.sweeps.false_answers import meaning
from sapo_verifier.tasks import CATALOGUE, NOT_PAYABLE, PAPER_TASKS, POCKET_TASKS, TaskWorker

CONFIGS: dict[str, list[dict[str, Any]]] = {name: [{}] for name in CATALOGUE}
CONFIGS["calendar_arithmetic"] = []  # some of its default tasks may not pay
for _rule in PAPER_TASKS + POCKET_TASKS:
    if _rule["config"]:
        CONFIGS[_rule["name"]].append(_rule["config"])

CASES = [(name, number) for name, configs in CONFIGS.items() for number in range(len(configs))]
SEEDS = range(6)

STRANGE = [
    "",
    " ",
    "\n",
    "\0",
    "0",
    "1",
    "-1",
    "-0",
    "None",
    "True",
    "nan",
    "NaN",
    "-nan",
    "sNaN",
    "inf",
    "-Infinity",
    "1e400",
    "1E+999999999",
    "1e-999999999",
    "9" * 1000,
    "0." + "0" * 900,
    "-" * 1000,
    "[" * 1000,
    "(" * 500 + ")" * 500,
    "[]",
    "[[]]",
    "{}",
    "null",
    "[null,null,null]",
    "[NaN,NaN,NaN]",
    "['nan','nan','nan']",
    "[1e400,1e400,1e400]",
    "[Infinity,Infinity,Infinity]",
    "[true,true,true]",
    "[[0],[0],[0]]",
    "0/0",
    "1/0",
    "nan/nan",
    "/",
    "\\frac{}{}",
    "\\frac{1}{1}",
    "٣",
    "¹/²",
    "１２",
    "İ",
    "\ud800",
    "𝟏",
    "<answer>1</answer>",
    "9**9**9**9",
    "__import__('time').sleep(60)",
    "[x for x in ().__class__.__bases__[0].__subclasses__()]",
    "Monday Tuesday Wednesday Thursday Friday Saturday Sunday",
    "a" * 1000,
    "🙂" * 250,
]


@pytest.fixture(scope="module")
def worker() -> Iterator[TaskWorker]:
    with TaskWorker(timeout=5.0) as running:
        yield running


def attempts(entry: dict[str, Any], others: list[str]) -> list[str]:
    """Answers made of the question and of the true answer, cut to what a reward looks at."""
    question, truth = entry["question"], entry["answer"]
    wrapped = [
        f"x{truth}",
        f"{truth}x",
        f"the answer is {truth}",
        f"{truth} or {truth}",
        f"{truth}\n{truth}",
        f"({truth})",
        f"[{truth}]",
        f'"{truth}"',
        f"-{truth}",
        f"{truth}0",
        f"{truth}.0",
        truth[:-1],
        truth[1:],
        truth[::-1],
        truth.upper(),
        truth.title(),
        truth + " " * 200,
    ]
    echoes = [question, *question.splitlines(), *question.split(), *question.split(": ")]
    metadata = [str(value) for value in entry["metadata"].values()]
    candidates = [*STRANGE, *wrapped, *echoes, *metadata, *others]
    return list(dict.fromkeys(c for c in candidates if len(c.encode("utf-8", "surrogatepass")) <= 1000))


@pytest.mark.parametrize(("name", "number"), CASES, ids=[f"{name}-{number}" for name, number in CASES])
def test_only_a_right_answer_earns_and_nothing_raises(name: str, number: int, worker: TaskWorker) -> None:
    config = CONFIGS[name][number]
    entries = [worker.entry(name, config, seed) for seed in SEEDS]
    truths = [entry["answer"] for entry in entries]
    for seed, entry in zip(SEEDS, entries, strict=True):
        tried = attempts(entry, truths)
        assert worker.scores(name, config, seed, [entry["answer"]]) == [1.0]
        start = time.monotonic()
        scores = worker.scores(name, config, seed, tried)
        seconds = time.monotonic() - start
        assert None not in scores, f"the scorer raised or hung on {tried[scores.index(None)]!r}"
        for answer, score in zip(tried, scores, strict=True):
            if score == 1.0:
                wanted = meaning(name, entry["answer"])
                assert meaning(name, answer) == wanted, f"{answer!r} earns, {entry['answer']!r} is right"
        assert seconds / len(tried) < 0.1


def test_an_answer_never_runs_as_code(worker: TaskWorker, tmp_path: Any) -> None:
    """The library's binary_matrix scorer evaluates answers: nothing of ours may."""
    trace = tmp_path / "ran"
    attack = f"open({str(trace)!r},'w').close()"
    for name, number in CASES:
        scores = worker.scores(name, CONFIGS[name][number], 1, [attack, f"[{attack}]"])
        assert 1.0 not in scores
        assert None not in scores
    assert not trace.exists()


def test_the_eval_attack_is_real(tmp_path: Any) -> None:
    """With the library's scorer the test above would find the file."""
    import reasoning_gym

    trace = tmp_path / "ran"
    dataset = reasoning_gym.create_dataset("binary_matrix", seed=1, size=1)
    dataset.score_answer(f"open({str(trace)!r},'w').close()", dataset[0])
    assert trace.exists()
    os.remove(trace)


def test_the_nan_attack_is_real_and_stopped(worker: TaskWorker) -> None:
    import reasoning_gym

    config = next(rule["config"] for rule in POCKET_TASKS if rule["name"] == "number_sorting")
    dataset = reasoning_gym.create_dataset("number_sorting", seed=1, size=1, **config)
    assert dataset.score_answer("[NaN,NaN,NaN,NaN]", dataset[0]) == 1.0
    assert worker.scores("number_sorting", config, 1, ["[NaN,NaN,NaN,NaN]"]) == [0.0]


def test_no_dataset_is_on_both_lists() -> None:
    assert not CATALOGUE.keys() & NOT_PAYABLE.keys()
