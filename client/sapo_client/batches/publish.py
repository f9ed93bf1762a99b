"""A round's batch: the tasks that were dealt, the completions that the beacon forces, and the blocks that hold them."""

from collections.abc import Sequence
from dataclasses import dataclass

from sapo_client.generation.engine import Engine
from sapo_client.generation.records import RecordStats, make_records
from sapo_client.policy.policy import Policy
from sapo_client.policy.tokenization import prompt_ids
from sapo_verifier import protocol
from sapo_verifier.audit import Audit, BatchFacts
from sapo_verifier.checks import batch_root, check_batch
from sapo_verifier.cid import block_digest
from sapo_verifier.errors import SapoError
from sapo_verifier.objects import BatchManifest, GroupBlock, Record, encode_records
from sapo_verifier.spec import Spec
from sapo_verifier.tasks import Task, TaskError, TaskWorker, deal, render, rewards

NOBODY = "0x" + "00" * 20
NO_CHAIN = 1  # a batch names some chain; with nobody as its contract no network can take it for its own


class UnfitBatchError(SapoError):
    """A batch of our own that our own checks refuse: nothing is submitted, the round is skipped."""


@dataclass(frozen=True)
class Dealt:
    """What the chain fixes before generation starts."""

    chain_id: int
    rounds: str  # address of the Rounds contract
    round: int
    node: str
    beacon: bytes
    policy: bytes  # the committed digest
    slots: int

    def keys(self, size: int) -> list[bytes]:
        """The streams of all completions, slot after slot, in groups of `size`."""
        return [
            protocol.stream_key(self.beacon, self.policy, self.node, slot, k)
            for slot in range(self.slots)
            for k in range(size)
        ]

    def facts(self, manifest: bytes, root: bytes, claim: int) -> BatchFacts:
        """What the chain will say of the batch; its index is not known yet, and no check uses it."""
        return BatchFacts(
            chain_id=self.chain_id,
            rounds=self.rounds,
            index=0,
            node=self.node,
            round=self.round,
            slots=self.slots,
            policy=self.policy,
            manifest=manifest,
            root=root,
            claim=claim,
            beacon=self.beacon,
        )


@dataclass(frozen=True)
class Batch:
    """A finished batch: what goes on chain, and the blocks that go to IPFS by their digests."""

    manifest: bytes  # digest
    root: bytes
    claim: int
    blocks: dict[bytes, bytes]
    stats: RecordStats


def make_batch(spec: Spec, dealt: Dealt, policy: Policy, worker: TaskWorker, engine: Engine | None = None) -> Batch:
    """Generate, score and encode a batch. The policy's weights must be those of `dealt.policy`.

    engine: what generates, for this policy; None: the policy's own. Raises TaskError if a task cannot be generated or
    scored on this machine.
    """
    size = spec.group_size
    tasks = [deal(spec, dealt.beacon, dealt.node, slot, worker) for slot in range(dealt.slots)]
    prompts = [render(task, policy.base.template, spec.answer) for task in tasks]
    engine = engine or policy.engine(spec.max_new_tokens)
    records, stats = make_records(
        engine,
        policy.model,
        [ids for task in tasks for ids in [prompt_ids(policy.tokenizer, policy.base, task, spec.answer)] * size],
        dealt.keys(size),
        vocab=policy.base.vocab,
        max_new_tokens=spec.max_new_tokens,
    )
    engine.sleep()
    blocks: dict[bytes, bytes] = {}
    groups: list[bytes] = []
    bits: list[bool] = []
    for slot, (task, prompt) in enumerate(zip(tasks, prompts, strict=True)):
        mine = records[slot * size : (slot + 1) * size]
        texts = [policy.text([record.token for record in completion]) for completion in mine]
        bits += _scores(spec, task, texts, worker)
        groups.append(_put(blocks, _group(slot, task, prompt, texts, _put(blocks, encode_records(mine)))))
    manifest = BatchManifest(
        chain=dealt.chain_id,
        contract=dealt.rounds,
        round=dealt.round,
        node=dealt.node,
        policy=dealt.policy,
        groups=groups,
    )
    root = batch_root([_packed(completion) for completion in records])
    return Batch(_put(blocks, manifest.encode()), root, protocol.claim_word(bits), blocks, stats)


def check_own(
    spec: Spec, dealt: Dealt, batch: Batch, policy_manifest: bytes, policy: Policy, worker: TaskWorker
) -> None:
    """Run every check on our own batch before anybody else does. Raises UnfitBatchError."""
    facts = dealt.facts(batch.manifest, batch.root, batch.claim)
    blocks = {**batch.blocks, dealt.policy: policy_manifest}
    for outcome in check_batch(Audit(facts, spec, blocks, worker, lambda _: policy.tokenizer)):
        if outcome.status in ("fail", "void"):
            raise UnfitBatchError(
                f"our own batch of round {dealt.round} fails the check {outcome.check}: {outcome.reason} "
                f"(slot {outcome.slot}, completion {outcome.k}, position {outcome.t}); it is not submitted"
            )


def _scores(spec: Spec, task: Task, texts: list[str], worker: TaskWorker) -> list[bool]:
    scores = rewards(spec, task, texts, worker)
    if None in scores:
        raise TaskError(f"the scorer of {task.dataset} (seed {task.seed}) gave no result; is this machine overloaded?")
    return [bool(score) for score in scores]


def _group(slot: int, task: Task, prompt: str, texts: list[str], records: bytes) -> bytes:
    return GroupBlock(
        slot=slot,
        attempt=task.attempt,
        dataset=task.dataset,
        seed=task.seed,
        prompt=prompt,
        completions=texts,
        records=records,
    ).encode()


def _packed(records: Sequence[Record]) -> bytes:
    return b"".join(record.encode() for record in records)


def _put(blocks: dict[bytes, bytes], data: bytes) -> bytes:
    digest = block_digest(data)
    blocks[digest] = data
    return digest
