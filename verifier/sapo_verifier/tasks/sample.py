"""A few hundred items of a spec's task rules: two machines on which they are the same deal and score the same tasks.

Whether they are follows from no version number, so a spec holds their digest (docs/protocol.md, Tasks).
"""

import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from sapo_verifier import canonical
from sapo_verifier.cid import block_digest
from sapo_verifier.errors import ObjectError, TaskError
from sapo_verifier.objects import hex_digest
from sapo_verifier.spec import TaskRule
from sapo_verifier.tasks.compact import compact_prompt
from sapo_verifier.tasks.rewards import answer_rewards
from sapo_verifier.tasks.task import GeneratorError
from sapo_verifier.tasks.worker import TaskWorker

# Changing this, the answers or an item's fields changes every spec's digest.
ITEMS = 300  # at least, of all rules together

SECONDS = 180.0  # for all of them: two on a quiet machine


@dataclass(frozen=True)
class Sample:
    """For each rule, in the spec's order: its dataset, and the digests of its items by seed, from 0 on."""

    rules: tuple[tuple[str, tuple[bytes, ...]], ...]

    def digest(self) -> bytes:
        """sha2-256 of the canonical JSON: what a spec holds."""
        rules = [{"name": name, "items": [hex_digest(each) for each in items]} for name, items in self.rules]
        return block_digest(canonical.encode(rules))

    @property
    def items(self) -> int:
        return sum(len(items) for _, items in self.rules)

    @property
    def shape(self) -> list[tuple[str, int]]:
        return [(name, len(items)) for name, items in self.rules]

    def first_difference(self, other: "Sample") -> str:
        """The first dataset and seed at which two of one shape are not the same; "" if there is none."""
        for (name, mine), (_, others) in zip(self.rules, other.rules, strict=True):
            for seed, (one, another) in enumerate(zip(mine, others, strict=True)):
                if one != another:
                    return f"dataset {name}, seed {seed}"
        return ""


def seeds_of(rules: int) -> range:
    """The generator seeds of each of so many rules."""
    return range(-(-ITEMS // rules))


def take(rules: Sequence[TaskRule], worker: TaskWorker) -> Sample:
    """Generate and score the items. Raises TaskError where an item is not to be had here, or all not in time."""
    deadline = time.monotonic() + SECONDS
    taken = []
    for rule in rules:
        items = []
        for seed in seeds_of(len(rules)):
            if time.monotonic() > deadline:
                raise TaskError(
                    f"the first items of this network's tasks take longer than {SECONDS:g} s, at dataset {rule.name!r} "
                    f"and seed {seed}: try again when this machine has less to do, or take the rule out of the spec"
                )
            items.append(block_digest(_encoded(rule.name, seed, item(rule, seed, worker))))
        taken.append((rule.name, tuple(items)))
    return Sample(tuple(taken))


def item(rule: TaskRule, seed: int, worker: TaskWorker) -> dict[str, Any]:
    """Question, answer, the compact prompt if there is one, and a digit for what each of `answers_to` earns.

    Without a field where the generator raises: every machine finds that alike. Raises TaskError where it or the scorer
    gives no result.
    """
    try:
        entry = worker.entry(rule.name, rule.config, seed)
    except GeneratorError:
        return {}
    question, answer = entry["question"], entry["answer"]
    earned = answer_rewards(rule, seed, answers_to(question, answer), worker)
    if None in earned:
        raise TaskError(
            f"dataset {rule.name!r} with seed {seed}: the scorer gives no result for one of the answers that are "
            "tried; try again, or take the rule out of the spec"
        )
    found = {"question": question, "answer": answer, "rewards": "".join("1" if each else "0" for each in earned)}
    with suppress(TaskError):  # it has none
        found["prompt"] = compact_prompt(rule.name, question, entry["metadata"])
    return found


def answers_to(question: str, answer: str) -> list[str]:
    """What is scored of an item: right, empty, in white space, longer, shorter, changed, a constant, an echo."""
    changed = ("2" if answer.startswith("1") else "1") + answer[1:]
    return [answer, "", f" {answer}\n", answer + "0", answer[:-1], changed, "0", question]


def _encoded(dataset: str, seed: int, document: dict[str, Any]) -> bytes:
    try:
        return canonical.encode(document)
    except ObjectError as error:
        raise TaskError(
            f"dataset {dataset!r} with seed {seed} makes an item that has no canonical form ({error}); take the rule "
            "out of the spec"
        ) from error
