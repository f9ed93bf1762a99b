"""The `policy` check for the formula, as sapo_verifier.model answers it for a model."""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from sapo_devnet.formula.policy import VOCAB, edges_at, formula_manifest, liked_for, written
from sapo_verifier import intervals
from sapo_verifier.audit import Audit, CheckResult, Cost, PolicyModel, Recomputed
from sapo_verifier.cid import block_digest
from sapo_verifier.intervals import FULL, REJECT_TOLERANCE, VOID_TOLERANCE


class FormulaModel:
    """Knows the formula; any other policy is left to `other`, or remains unknown."""

    def __init__(self, other: PolicyModel | None = None) -> None:
        self.runs = other is not None and other.runs
        self._own = 0.0
        self._other = other

    @property
    def seconds(self) -> float:
        return self._own + (self._other.seconds if self._other else 0.0)

    @property
    def cost(self) -> Cost:
        """The other's, and the formula's passes."""
        return Cost(passes=self._own) + (self._other.cost if self._other else Cost())

    def __call__(self, audit: Audit) -> Recomputed:
        if is_formula(audit):
            with self._taking():
                result = by_formula(audit)
                return Recomputed(result, formula_answers(audit) if result.status == "pass" else ())
        return Recomputed(_unknown("policy")) if self._other is None else self._other(audit)

    def judge(self, audit: Audit, answers: Sequence[int]) -> CheckResult:
        if is_formula(audit):
            with self._taking():
                return judged_by_formula(audit, answers)
        return _unknown("answers") if self._other is None else self._other.judge(audit, answers)

    @contextmanager
    def _taking(self) -> Iterator[None]:
        started = time.monotonic()
        try:
            yield
        finally:
            self._own += time.monotonic() - started


def is_formula(audit: Audit) -> bool:
    """Whether the batch's policy is the formula, whatever its `audit`."""
    return audit.policy.weights() == block_digest(formula_manifest(audit.base))


def _unknown(check: str) -> CheckResult:
    return CheckResult(check, "unknown", "its policy is not the formula, and no model runs here")


def formula_answers(audit: Audit) -> tuple[int, ...]:
    """To the questions of the audit's spots, as the formula has it."""
    return tuple(0 if u is None else intervals.owner(edges, u) for _, _, u, edges in _asked(audit))


def judged_by_formula(audit: Audit, answers: Sequence[int]) -> CheckResult:
    """The check `answers`, as model.answers has it; the formula is the same on every machine: all is stable."""
    questions = list(_asked(audit))
    if len(answers) != len(questions):
        return CheckResult("answers", "fail", f"{len(answers)} answers to {len(questions)} questions")
    own = by_formula(audit)
    if own.status != "pass":
        return replace(own, check="answers", reason=f"a spot's own check: {own.reason}")
    void: CheckResult | None = None
    for (i, t, u, edges), answer in zip(questions, answers, strict=True):
        slot, k = divmod(i, audit.spec.group_size)
        if u is None or not 0 <= answer < VOCAB:
            off = FULL if u is not None or answer else 0
        else:
            off = intervals.miss(u, *intervals.interval(edges, answer))
        if off > REJECT_TOLERANCE:
            return CheckResult("answers", "fail", f"the answer {answer} is false", slot, k, t)
        if off > VOID_TOLERANCE and void is None:
            void = CheckResult("answers", "void", f"the answer {answer} is doubtful", slot, k, t)
    return void or CheckResult("answers", "pass", f"{len(answers)} answers are right")


def _asked(audit: Audit) -> Iterator[tuple[int, int, int | None, list[int]]]:
    """Of each spot in the draw's order: the completion, the position, the number, and the formula's edges there."""
    for i in () if audit.spots is None else audit.spots.leaves:
        slot, k = divmod(i, audit.spec.group_size)
        records = audit.completions[slot][k]
        assert audit.spots is not None
        t, u = audit.spots.question(i, records)
        before = [record.token for record in records[:t]]
        yield i, t, u, edges_at(audit.groups[slot].prompt, liked_for(audit.tasks[slot]), before)


def by_formula(audit: Audit) -> CheckResult:
    """Intervals of the completions that are asked for against the formula's own, with the protocol's tolerances."""
    void: CheckResult | None = None
    for i in audit.leaves:
        slot, k = divmod(i, audit.spec.group_size)
        records = audit.completions[slot][k]
        tokens = [record.token for record in records]
        own = written(audit.groups[slot].prompt, liked_for(audit.tasks[slot]), tokens)
        for t, (true, said) in enumerate(zip(own, records, strict=True)):
            off = max(abs(true.lo - said.lo), abs(true.last - said.last))
            if off > REJECT_TOLERANCE or true.lo > true.last:
                return CheckResult("policy", "fail", "the interval is not the policy's", slot, k, t)
            if off > VOID_TOLERANCE and void is None:
                void = CheckResult("policy", "void", "the interval is off", slot, k, t)
    return void or CheckResult("policy", "pass")
