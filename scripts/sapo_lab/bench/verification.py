"""What it costs to verify a batch, beside what it cost to generate it: every check, without the model and with it."""

from contextlib import ExitStack
from pathlib import Path

from sapo_client.batches.publish import NO_CHAIN, make_batch
from sapo_client.bench.meter import Meter
from sapo_client.bench.prompts import bench_spec
from sapo_client.bench.work import TimedEngine
from sapo_client.generation.factory import make_engine
from sapo_client.generation.groups import NOBODY
from sapo_client.policy.policy import Policy
from sapo_client.state.settings import GenerationSettings
from sapo_lab.bench.node import never_ending
from sapo_lab.bench.work import Report, Step, Work, do, versions
from sapo_verifier import protocol
from sapo_verifier.audit import Audit, PolicyModel
from sapo_verifier.bases import Bases
from sapo_verifier.checks import check_batch
from sapo_verifier.facts import BatchFacts
from sapo_verifier.model import policy_model
from sapo_verifier.tasks import TaskWorker


def run(work: Work) -> Report:
    """The one step: generated is the batch's generation by the engine alone, trained is the audit with the model.

    Tasks are the paper's and prompts the template's own, so that the batch passes every check.
    """
    folder = Path(work.policy)
    settings = GenerationSettings(engine=work.options["engine"])
    spec = never_ending(bench_spec(folder, group_size=work.group_size, max_new_tokens=work.new_tokens), folder)
    policy, bases = Policy.load(folder, spec.bases[0]), Bases([folder])
    published = policy.publish()
    beacon = protocol.H("silo", work.seed, 0)
    dealt = BatchFacts.dealt(NO_CHAIN, NOBODY, 0, NOBODY, beacon, published.digest, len(work.questions))
    with ExitStack() as stack:
        worker = stack.enter_context(TaskWorker())
        engine = TimedEngine(stack.enter_context(make_engine(policy, spec, settings, threads=work.threads)))
        engine.generate([[1, 2, 3]], [[]], [bytes(32)])  # warm
        engine.seconds = 0.0
        with Meter() as making:
            batch = make_batch(spec, dealt, policy, worker, engine)
        facts = batch.facts
        blocks = {**batch.blocks, published.digest: published.manifest}

        def audit(model: PolicyModel | None) -> Meter:
            with Meter() as meter:
                outcomes = check_batch(Audit(facts, spec, blocks, worker, bases.tokenizer, model))
            wrong = [o for o in outcomes if o.status != "pass" and (model is not None or o.check != "policy")]
            if wrong:
                raise SystemExit(f"the batch does not pass its own checks: {wrong}")
            return meter

        bases.tokenizer(spec.bases[0])
        without = min((audit(None) for _ in range(3)), key=lambda meter: meter.taken.seconds)
        model = policy_model(bases)
        audit(model)  # loads it
        with_model = audit(model)
    notes = {
        "engine_seconds": engine.seconds,
        "making_seconds": making.taken.seconds,
        "making_cpu_seconds": making.taken.cpu_seconds,
        "without_model_seconds": without.taken.seconds,
        "without_model_cpu_seconds": without.taken.cpu_seconds,
        "repair_rate": batch.stats.repaired / batch.stats.positions,
    }
    step = Step(making.taken, with_model.taken, batch.stats.positions)
    return Report([step], {"engine": settings.engine}, versions("sapo-network", "torch"), 0, notes)


if __name__ == "__main__":
    do(run)
