"""A round's batch: the tasks that were dealt, the completions that the beacon forces, and the blocks that hold them."""

from dataclasses import dataclass

from sapo_client.batches.encoding import encode_batch
from sapo_client.generation.engine import Engine
from sapo_client.generation.records import RecordStats, make_records
from sapo_client.generation.torch_engine import TorchEngine
from sapo_client.policy.policy import Policy
from sapo_verifier.audit import Audit, Dealt
from sapo_verifier.checks import check_batch
from sapo_verifier.errors import SapoError
from sapo_verifier.facts import BatchFacts
from sapo_verifier.spec import Spec
from sapo_verifier.tasks import TaskWorker

NO_CHAIN = 1  # a batch names some chain; with nobody as its contract no network can take it for its own


class UnfitBatchError(SapoError):
    """A batch of our own that our own checks refuse: nothing is submitted, the round is skipped."""


@dataclass(frozen=True)
class Batch:
    """A finished batch: what goes on chain, the blocks that go to IPFS by their digests, and how it was made."""

    facts: BatchFacts
    blocks: dict[bytes, bytes]
    dealt: Dealt
    stats: RecordStats


def make_batch(
    spec: Spec, facts: BatchFacts, policy: Policy, worker: TaskWorker, engine: Engine | None = None
) -> Batch:
    """Generate, score and encode a batch.

    facts: as dealt; the policy's weights must be those of `facts.policy`. engine: what generates, for this policy;
    None: torch. Raises TaskError if a task cannot be generated or scored on this machine.
    """
    size, base = spec.group_size, policy.base
    dealt = Dealt.to(facts, spec, base, worker)
    engine = engine or TorchEngine(policy, spec.max_new_tokens)
    records, stats = make_records(
        engine,
        policy.model,
        [ids for prompt in dealt.prompts for ids in [policy.tokenizer.prompt(prompt, base.template)] * size],
        facts.stream_keys(size),
        vocab=base.vocab,
        max_new_tokens=spec.max_new_tokens,
    )
    engine.sleep()
    made, blocks = encode_batch(spec, facts, dealt, records, policy.text, worker)
    return Batch(made, blocks, dealt, stats)


def check_own(spec: Spec, batch: Batch, policy_manifest: bytes, policy: Policy, worker: TaskWorker) -> Audit:
    """Run every check on our own batch before anybody else does; its audit, to be learned from.

    Raises UnfitBatchError.
    """
    audit = own_audit(spec, batch, policy_manifest, policy, worker)
    for result in check_batch(audit):
        if result.status in ("fail", "void"):
            raise UnfitBatchError(
                f"our own batch of round {batch.facts.round} fails the check {result.check}: {result.reason} "
                f"(slot {result.slot}, completion {result.k}, position {result.t}); it is not submitted"
            )
    return audit


def own_audit(spec: Spec, batch: Batch, policy_manifest: bytes, policy: Policy, worker: TaskWorker) -> Audit:
    """An own batch as others see it, with the tasks that it was made for."""
    blocks = {**batch.blocks, batch.facts.policy: policy_manifest}
    return Audit(batch.facts, spec, blocks, worker, lambda _: policy.tokenizer, dealt_before=batch.dealt)
