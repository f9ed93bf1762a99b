"""What false answers earn in every dataset that may pay, and how often its best constant is right."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from sapo_lab.sweeps.false_answers import ENUMERATIONS, echoes, meaning, near
from sapo_verifier.catalogue import CALENDAR_TASKS, CATALOGUE, PAPER_TASKS, POCKET_TASKS
from sapo_verifier.tasks import GeneratorError, TaskWorker, reading, right, shows

MOST = 0.02  # of the questions: what copying or listing may earn
MOST_CONSTANT = 0.05  # in specs that ship


@dataclass(frozen=True)
class Case:
    """A dataset as somebody's spec has it. `shipped`: a spec of ours deals it."""

    dataset: str
    spec: str
    config: dict[str, Any]

    @property
    def shipped(self) -> bool:
        return self.spec != "none"


@dataclass
class Found:
    """What was seen of a case. `copied`: questions in which each copy or list earned; `unearned`: false and paid."""

    case: Case
    dealt: int = 0
    passed: int = 0
    answers: Counter[Any] = field(default_factory=Counter)
    written: dict[Any, str] = field(default_factory=dict)
    tried: int = 0
    copied: Counter[str] = field(default_factory=Counter)
    unearned: list[str] = field(default_factory=list)

    @property
    def constant(self) -> tuple[str, float]:
        """The answer that is right most often, and the share of the questions in which it is."""
        best, count = self.answers.most_common(1)[0]
        return self.written[best], count / self.dealt

    @property
    def copy(self) -> tuple[str, float]:
        """The copy or list that earned most, and the share."""
        name, count = max(self.copied.items(), key=lambda each: each[1], default=("", 0))
        return name, count / self.tried

    def broken(self) -> list[str]:
        """The rules that this case breaks, in words."""
        name = f"{self.case.dataset} ({self.case.spec})"
        words = [f"{name}: {each}" for each in self.unearned]
        if self.copy[1] > MOST:
            words.append(f"{name}: {self.copy[0]!r} earns in {self.copy[1]:.1%} of the questions")
        if self.case.shipped and self.constant[1] > MOST_CONSTANT:
            words.append(f"{name}: {self.constant[0]!r} is right in {self.constant[1]:.1%} of the questions")
        return words


def cases() -> list[Case]:
    """Every dataset that may pay with the library's configuration, and every rule of a spec that ships."""
    plain = {"calendar_arithmetic": {"tasks": CALENDAR_TASKS}}
    made = [Case(name, "none", plain.get(name, {})) for name in CATALOGUE]
    for spec, rules in (("pocket", POCKET_TASKS), ("models", PAPER_TASKS)):
        made += [Case(rule["name"], spec, rule["config"]) for rule in rules]
    return made


def look(case: Case, worker: TaskWorker, count: int, tried: int) -> Found:
    """`count` questions for the constant; copies, lists and near answers for the first `tried` of them."""
    found = Found(case)
    for seed, entry in _items(case, worker):
        question, truth = entry["question"], entry["answer"]
        read = reading(case.dataset, truth)
        if read is None or shows(case.dataset, question, truth):
            found.passed += 1
            continue
        found.dealt += 1
        found.answers[read] += 1
        found.written.setdefault(read, truth)
        if found.tried < tried:
            _try(found, seed, question, truth)
        if found.dealt == count:
            return found
    raise AssertionError("seeds do not end")


def _items(case: Case, worker: TaskWorker) -> Iterator[tuple[int, dict[str, Any]]]:
    for seed in range(1 << 32):
        try:
            yield seed, worker.entry(case.dataset, case.config, seed)
        except GeneratorError:
            continue


def _try(found: Found, seed: int, question: str, truth: str) -> None:
    dataset = found.case.dataset
    found.tried += 1
    wanted = meaning(dataset, truth)
    if not right(dataset, truth, truth):
        found.unearned.append(f"seed {seed}: the true answer {truth!r} earns nothing")
    for name, answer in (echoes(question) | ENUMERATIONS).items():
        if right(dataset, answer, truth):
            found.copied[name] += 1
            if meaning(dataset, answer) != wanted:
                found.unearned.append(f"seed {seed}: {name} ({answer!r}) earns, right is {truth!r}")
    for name, answer in near(truth).items():
        if right(dataset, answer, truth) and meaning(dataset, answer) != wanted:
            found.unearned.append(f"seed {seed}: {name} ({answer!r}) earns, right is {truth!r}")


def table(found: list[Found]) -> str:
    """Markdown: a row for each case."""
    head = "| dataset | spec | configuration | passed over | best copy or list | best constant | is right in |"
    lines = [head, "|---|---|---|---|---|---|---|"]
    for each in found:
        config = ", ".join(f"{key} {_said(value)}" for key, value in each.case.config.items()) or "the library's"
        copy = f"{each.copy[0]}, {each.copy[1]:.1%}" if each.copy[1] else "nothing"
        constant, share = each.constant
        passed = f"{each.passed / (each.dealt + each.passed):.1%}"
        cells = [each.case.dataset, each.case.spec, config, passed, copy, f"`{_short(constant)}`", f"{share:.2%}"]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _said(value: Any) -> str:
    if isinstance(value, dict):
        return str(value["decimal"])
    return " ".join(map(str, value)) if isinstance(value, list) else str(value)


def _short(text: str) -> str:
    text = text.replace("\n", " ↵ ").replace("|", "\\|")
    return text if len(text) <= 32 else f"{text[:31]}…"
