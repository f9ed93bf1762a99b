"""The `policy` check for the formula, as sapo_verifier.model answers it for a model."""

import time

from sapo_devnet.formula.policy import formula_manifest, liked_for, written
from sapo_verifier.audit import Audit, CheckResult, PolicyModel
from sapo_verifier.checks import completions
from sapo_verifier.cid import block_digest
from sapo_verifier.intervals import REJECT_TOLERANCE, VOID_TOLERANCE


class FormulaModel:
    """Knows the formula; any other policy is left to `other`, or remains unknown."""

    def __init__(self, other: PolicyModel | None = None) -> None:
        self.runs = other is not None and other.runs
        self.seconds = 0.0
        self._other = other

    def __call__(self, audit: Audit) -> CheckResult:
        started = time.monotonic()
        try:
            return self._answer(audit)
        finally:
            self.seconds += time.monotonic() - started

    def _answer(self, audit: Audit) -> CheckResult:
        if audit.policy.weights() == block_digest(formula_manifest(audit.base)):  # whatever its audit
            return by_formula(audit)
        if self._other is None:
            return CheckResult("policy", "unknown", "its policy is not the formula, and no model runs here")
        return self._other(audit)


def by_formula(audit: Audit) -> CheckResult:
    """Every interval against the formula's own, with the protocol's tolerances."""
    void: CheckResult | None = None
    for slot, k, records in completions(audit):
        tokens = [record.token for record in records]
        own = written(audit.groups[slot].prompt, liked_for(audit.tasks[slot]), tokens)
        for t, (true, said) in enumerate(zip(own, records, strict=True)):
            off = max(abs(true.lo - said.lo), abs(true.last - said.last))
            if off > REJECT_TOLERANCE or true.lo > true.last:
                return CheckResult("policy", "fail", "the interval is not the policy's", slot, k, t)
            if off > VOID_TOLERANCE and void is None:
                void = CheckResult("policy", "void", "the interval is off", slot, k, t)
    return void or CheckResult("policy", "pass")
