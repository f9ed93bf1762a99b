"""The `policy` check for the formula, as sapo_verifier.model answers it for a model."""

import time
from collections.abc import Sequence

from sapo_devnet.formula.policy import edges_at, formula_manifest, liked_for, written
from sapo_verifier import intervals
from sapo_verifier.audit import Audit, CheckResult, PolicyModel, Recomputed
from sapo_verifier.cid import block_digest
from sapo_verifier.intervals import REJECT_TOLERANCE, VOID_TOLERANCE


class FormulaModel:
    """Knows the formula; any other policy is left to `other`, or remains unknown."""

    def __init__(self, other: PolicyModel | None = None) -> None:
        self.runs = other is not None and other.runs
        self.seconds = 0.0
        self._other = other

    def __call__(self, audit: Audit) -> Recomputed:
        started = time.monotonic()
        try:
            return self._answer(audit)
        finally:
            self.seconds += time.monotonic() - started

    def judge(self, audit: Audit, answers: Sequence[int]) -> CheckResult:
        raise NotImplementedError

    def _answer(self, audit: Audit) -> Recomputed:
        if audit.policy.weights() == block_digest(formula_manifest(audit.base)):  # whatever its audit
            result = by_formula(audit)
            return Recomputed(result, formula_answers(audit) if result.status == "pass" else ())
        if self._other is None:
            words = "its policy is not the formula, and no model runs here"
            return Recomputed(CheckResult("policy", "unknown", words))
        return self._other(audit)


def formula_answers(audit: Audit) -> tuple[int, ...]:
    """To the questions of the audit's spots, as the formula has it."""
    found = []
    for i in () if audit.spots is None else audit.spots.leaves:
        slot, k = divmod(i, audit.spec.group_size)
        records = audit.completions[slot][k]
        assert audit.spots is not None
        question = audit.spots.question(i, records)
        before = [record.token for record in records[: question.t]]
        edges = edges_at(audit.groups[slot].prompt, liked_for(audit.tasks[slot]), before)
        found.append(0 if question.u is None else intervals.owner(edges, question.u))
    return tuple(found)


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
