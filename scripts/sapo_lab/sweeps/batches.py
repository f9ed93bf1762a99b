"""Mutated batches through every check: nothing raises, and what is accepted says what the honest batch says."""

import random
import tempfile
from collections.abc import Callable
from pathlib import Path

from sapo_devnet.formula.policy import write_tokenizer
from sapo_devnet.testkit.formula import honest
from sapo_lab.sweeps.mutations import StandIn, meaning, mutate, mutate_several, tamper
from sapo_lab.sweeps.tally import Tally
from sapo_verifier.audit import CheckResult
from sapo_verifier.bases import Tokenizer
from sapo_verifier.checks import check_batch
from sapo_verifier.spec import BaseRule
from sapo_verifier.tasks import TaskWorker

LIMIT_SECONDS = 5.0  # mutated texts may cost a scorer its time
LIMIT_MIB = 64.0


def sweep(count: int, seed: int) -> Tally:
    """Cases seed … seed + count − 1. Raises AssertionError, naming the case, at the first one that breaks a rule."""
    tally, policy = Tally(LIMIT_SECONDS, LIMIT_MIB), StandIn()
    with TaskWorker() as worker, tempfile.TemporaryDirectory() as folder:
        write_tokenizer(Path(folder))
        tokenizer = Tokenizer(Path(folder))
        true = meaning(honest(worker).seal())
        for case in range(seed, seed + count):
            outcomes = _one(case, worker, lambda _: tokenizer, policy, tally, true)
            last = outcomes[-1]
            tally.count(f"{last.check}: {last.status}" if last.status != "pass" else "none of them: accepted")
    return tally


def _one(
    case: int,
    worker: TaskWorker,
    tokenizer: Callable[[BaseRule], Tokenizer],
    policy: StandIn,
    tally: Tally,
    true: object,
) -> list[CheckResult]:
    rng = random.Random(case)
    draft = honest(worker)
    (mutate if case % 2 else mutate_several)(rng, draft, worker)
    sealed = draft.seal()
    if rng.random() < 0.1:
        tamper(rng, sealed)
    audit = policy.audits(sealed.audit(worker, tokenizer))
    outcomes = tally.measured(f"batch {case}", lambda: check_batch(audit))
    assert [outcome.status for outcome in outcomes[:-1]] == ["pass"] * (len(outcomes) - 1), (case, outcomes)
    if outcomes[-1].status == "pass":
        assert outcomes[-1].check == "policy", (case, outcomes)
        assert meaning(sealed) == true, f"case {case}: accepted, and says something else"
    return outcomes
