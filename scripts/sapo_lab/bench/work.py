"""The work that every trainer is given, and what it reports. Standard library only, as environments differ."""

import dataclasses
import json
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

from sapo_client.bench.meter import Taken

WARM_UP_TOKENS = 4


@dataclass(frozen=True)
class Work:
    """questions: one per group. system: what every trainer puts before each question, as the system's words.

    Every completion is exactly `new_tokens` long: whoever ends early would have less to do. Half of each group is
    rewarded, so that everybody trains on every group.
    """

    policy: str  # the folder
    system: str
    questions: list[str]
    group_size: int
    new_tokens: int
    steps: int
    learning_rate: float
    threads: int
    seed: int
    options: dict[str, Any] = field(default_factory=dict)  # of one trainer

    def messages(self, question: str) -> list[dict[str, str]]:
        return [{"role": "system", "content": self.system}, {"role": "user", "content": question}]

    @property
    def tokens(self) -> int:
        """Completion tokens of one step."""
        return len(self.questions) * self.group_size * self.new_tokens


@dataclass(frozen=True)
class Step:
    """One step: generation, then training. tokens: of completions, generated and trained on."""

    generated: Taken
    trained: Taken
    tokens: int

    @property
    def taken(self) -> Taken:
        return self.generated + self.trained


@dataclass
class Report:
    """settings: how the trainer was set, in words that its own documentation uses. notes: further numbers."""

    steps: list[Step]
    settings: dict[str, Any]
    versions: dict[str, str]
    prompt_tokens: int  # of all completions' prompts in one step, as this trainer counts them
    notes: dict[str, Any] = field(default_factory=dict)

    @property
    def best(self) -> Step:
        """The fastest: whatever else ran on the machine made the others slower."""
        return min(self.steps, key=lambda step: step.taken.cpu_seconds)

    @classmethod
    def read(cls, file: Path) -> "Report":
        document = json.loads(file.read_text())
        steps = [
            Step(Taken(**step["generated"]), Taken(**step["trained"]), step["tokens"]) for step in document.pop("steps")
        ]
        return cls(steps=steps, **document)


def reward(k: int) -> float:
    """Of the k-th completion of a group."""
    return float(k % 2)


def do(trainer: Callable[[Work], Report]) -> None:
    """Read the work from $SAPO_BENCH_WORK, let the trainer do it, write what it reports to $SAPO_BENCH_REPORT."""
    import torch

    work = Work(**json.loads(Path(os.environ["SAPO_BENCH_WORK"]).read_text()))
    torch.set_num_threads(work.threads)
    torch.manual_seed(work.seed)
    report = trainer(work)
    short = [step.tokens for step in report.steps if step.tokens != work.tokens]
    if short or len(report.steps) != work.steps:
        raise SystemExit(f"{len(report.steps)} steps of {short or work.tokens} tokens instead of {work.tokens}")
    Path(os.environ["SAPO_BENCH_REPORT"]).write_text(json.dumps(dataclasses.asdict(report), indent=1))


def versions(*names: str) -> dict[str, str]:
    return {name: version(name) for name in names}
