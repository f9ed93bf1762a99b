"""A dealt task, and what can go wrong with one."""

from dataclasses import dataclass
from typing import Any

from sapo_verifier.errors import TaskError


class GeneratorError(TaskError):
    """The dataset's generator raised. The same on every machine, so the deal goes on to the next attempt."""


@dataclass(frozen=True)
class Task:
    """One question with its true answer, as every honest machine regenerates it.

    `attempt` counts the deals that were passed over; `metadata` is the generator's, as JSON; `compact` is the
    prompt for tiny models, None where no base of the spec needs it.
    """

    dataset: str
    seed: int
    attempt: int
    question: str
    answer: str
    metadata: dict[str, Any]
    compact: str | None
