"""The formula beside a model, and the worker that formula nodes share."""

from collections.abc import Iterator, Sequence

import pytest

from sapo_devnet.formula.batches import formula_batch, published_formula
from sapo_devnet.formula.judging import FormulaModel, by_formula
from sapo_devnet.formula.policy import WEIGHTS, edges_at, formula_base, formula_spec, sample, tokens_of, written
from sapo_devnet.formula.shared import RememberingWorker
from sapo_devnet.testkit.formula import BEACON, CHAIN, NODE, ROUNDS, honest
from sapo_verifier.audit import Audit, CheckResult, Cost, Recomputed
from sapo_verifier.facts import BatchFacts
from sapo_verifier.intervals import interval, owner
from sapo_verifier.protocol import stream_value
from sapo_verifier.tasks import TaskWorker

CONFIG = {"min_numbers": 2, "max_numbers": 2, "min_value": 1, "max_value": 60}


class Model:
    """Answers in its own words, and takes a second each time."""

    runs = True
    seconds = 0.0
    cost = Cost(1.0, 2.0, 3.0)

    def __call__(self, audit: Audit) -> Recomputed:
        return Recomputed(CheckResult("policy", "pass", "by the model"))

    def judge(self, audit: Audit, answers: Sequence[int]) -> CheckResult:
        return CheckResult("answers", "pass", "by the model")


@pytest.fixture(scope="module")
def worker() -> Iterator[TaskWorker]:
    with RememberingWorker() as made:
        yield made


def audit_of(worker: TaskWorker, *, published: bool) -> Audit:
    """A batch by the formula, committed for some round, or under that of the base itself."""
    if not published:
        sealed = honest(worker).seal()
        return sealed.audit(worker, lambda _: pytest.fail("no tokenizer is asked for"))
    spec = formula_spec()
    base = formula_base(spec)
    policy = published_formula(base).under(b"\7" * 32)
    facts = BatchFacts.dealt(CHAIN, ROUNDS, 7, NODE, BEACON, policy.digest, 2)
    made, blocks = formula_batch(spec, facts, base, worker)
    return Audit(made, spec, {**blocks, policy.digest: policy.manifest}, worker, lambda _: pytest.fail("not asked for"))


def test_the_formula_judges_its_own_and_leaves_the_rest_to_the_model(worker: TaskWorker) -> None:
    own, other = audit_of(worker, published=True), audit_of(worker, published=False)
    assert by_formula(own) == by_formula(other) == CheckResult("policy", "pass")
    both = FormulaModel(Model())
    assert (both.runs, both(own).result.reason, both(other).result.reason) == (True, "", "by the model")
    alone = FormulaModel()
    assert (alone.runs, alone(own).result.status, alone(other).result.status) == (False, "pass", "unknown")
    assert alone.seconds > 0
    assert alone.cost.passes == alone.seconds
    assert both.cost.load == 1.0
    assert both.cost.passes > 3.0


def test_what_is_committed_holds_no_weights_of_the_base(worker: TaskWorker) -> None:
    audit = audit_of(worker, published=True)
    assert audit.policy.kind == "full"
    assert [limit for _, limit in audit.weight_blocks()] == [len(WEIGHTS)]


def test_a_completion_is_forced_and_its_records_are_the_formulas(worker: TaskWorker) -> None:
    liked, key = tokens_of("<42>"), bytes(range(32))
    records = sample("B6*7=", liked, key, 24)
    assert written("B6*7=", liked, [record.token for record in records]) == records
    for t, record in enumerate(records):
        edges = edges_at("B6*7=", liked, [before.token for before in records[:t]])
        assert record.token == owner(edges, stream_value(key, t))
        assert (record.lo, record.last) == interval(edges, record.token)


def test_the_shared_worker_asks_once_and_says_the_same(worker: TaskWorker) -> None:
    asked: list[str] = []

    class Counting(RememberingWorker):
        def _ask(self, command, *others):
            asked.append(command)
            return super()._ask(command, *others)

    with TaskWorker() as plain, Counting() as made:
        for _ in range(3):
            entry = made.entry("gcd", CONFIG, 5)
            assert entry == plain.entry("gcd", CONFIG, 5)
            answers = [entry["answer"], "no number", entry["answer"]]
            assert made.scores("gcd", CONFIG, 5, answers) == plain.scores("gcd", CONFIG, 5, answers)
    assert asked.count("entry") == 1
    assert asked.count("score") == 2
