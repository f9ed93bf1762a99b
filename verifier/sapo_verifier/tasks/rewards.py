"""What a completion earns: an answer taken from its text, and whether it is right (docs/protocol.md, Rewards)."""

from collections.abc import Sequence

from sapo_verifier.spec import Spec, TaskRule
from sapo_verifier.tasks.dealing import rule_of
from sapo_verifier.tasks.task import Task
from sapo_verifier.tasks.worker import TaskWorker

MAX_ANSWER_BYTES = 1000  # UTF-8, of the extracted answer
OPEN, CLOSE = "<answer>", "</answer>"


def extract(text: str, answer_style: str) -> str | None:
    """The answer in a completion's text, None if there is none.

    `tag`: the last `<answer>` that is closed, up to the first `</answer>` after it, stripped; so it holds neither.
    `brackets`: the whole text is `<x>` and x holds neither `<` nor `>`; nothing is stripped.
    `whole`: the text itself, stripped as for `tag`; every text is an answer.
    """
    if answer_style == "whole":
        return text.strip()
    if answer_style == "brackets":
        inner = text[1:-1]
        whole = len(text) >= 2 and text[0] == "<" and text[-1] == ">"
        return inner if whole and "<" not in inner and ">" not in inner else None
    if answer_style != "tag":
        raise ValueError(f"answer style {answer_style!r} is none of tag, brackets, whole")
    start = text.rfind(OPEN, 0, max(text.rfind(CLOSE), 0))
    if start < 0:
        return None
    start += len(OPEN)
    return text[start : text.index(CLOSE, start)].strip()


def rewards(spec: Spec, task: Task, texts: list[str], worker: TaskWorker) -> list[bool | None]:
    """One reward per text: True only if the answer is right (1.0), None where the worker gave no result.

    An answer beyond 1,000 bytes is worth 0. Raises TaskError if the task cannot be generated again.
    """
    answers = [extract(text, spec.answer) for text in texts]
    return answer_rewards(rule_of(spec, task.dataset), task.seed, answers, worker)


def answer_rewards(rule: TaskRule, seed: int, answers: Sequence[str | None], worker: TaskWorker) -> list[bool | None]:
    """As `rewards`, of answers that stand for themselves; None, for no answer, is worth 0."""
    scorable = [_scorable(answer) for answer in answers]
    distinct = list(dict.fromkeys(answer for answer in scorable if answer is not None))
    scores = dict(zip(distinct, worker.scores(rule.name, rule.config, seed, distinct), strict=True))
    return [False if answer is None else _reward(scores[answer]) for answer in scorable]


def _scorable(answer: str | None) -> str | None:
    """A lone surrogate, which no decoded completion can hold, is measured like any other character."""
    if answer is None or len(answer.encode("utf-8", "surrogatepass")) > MAX_ANSWER_BYTES:
        return None
    return answer


def _reward(score: float | None) -> bool | None:
    return None if score is None else score == 1.0
