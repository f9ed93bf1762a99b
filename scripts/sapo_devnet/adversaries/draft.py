"""An honest batch taken apart, so that a part can be falsified, and sealed again: digests, root and claim follow."""

from collections.abc import Sequence
from dataclasses import dataclass

from sapo_client.batches.publish import Batch, Dealt
from sapo_client.generation.records import RecordStats
from sapo_client.policy.policy import Policy
from sapo_verifier import protocol
from sapo_verifier.checks import batch_root
from sapo_verifier.cid import block_digest
from sapo_verifier.model.positions import policy_intervals
from sapo_verifier.objects import BatchManifest, GroupBlock, Record, decode_records, encode_records
from sapo_verifier.spec import Spec
from sapo_verifier.tasks import Task, TaskWorker, deal, rewards

FULL = 1 << 64


@dataclass
class Draft:
    """records: by slot and completion. The rest of what a batch is follows from `seal`."""

    spec: Spec
    dealt: Dealt
    groups: list[GroupBlock]
    records: list[list[list[Record]]]
    bits: list[bool]
    stats: RecordStats

    @classmethod
    def of(cls, spec: Spec, dealt: Dealt, batch: Batch) -> "Draft":
        manifest = BatchManifest.parse(batch.blocks[batch.manifest])
        groups = [GroupBlock.parse(batch.blocks[digest]) for digest in manifest.groups]
        records = [
            decode_records(batch.blocks[group.records], spec.group_size, spec.max_new_tokens) for group in groups
        ]
        bits = [bool(batch.claim >> i & 1) for i in range(dealt.slots * spec.group_size)]
        return cls(spec, dealt, groups, records, bits, batch.stats)

    def seal(self) -> Batch:
        blocks: dict[bytes, bytes] = {}
        names: list[bytes] = []
        for group, completions in zip(self.groups, self.records, strict=True):
            packed = encode_records(completions)
            blocks[block_digest(packed)] = packed
            block = group.model_copy(update={"records": block_digest(packed)}).encode()
            blocks[block_digest(block)] = block
            names.append(block_digest(block))
        root = batch_root([packed_records(completion) for slot in self.records for completion in slot])
        manifest = manifest_of(self.dealt, names)
        blocks[block_digest(manifest)] = manifest
        return Batch(block_digest(manifest), root, protocol.claim_word(self.bits), blocks, self.stats)

    def us(self, slot: int, k: int, n: int) -> list[int]:
        """The numbers that force the completion's tokens."""
        dealt = self.dealt
        return protocol.stream_values(protocol.stream_key(dealt.beacon, dealt.policy, dealt.node, slot, k), n)

    def replace(self, slot: int, k: int, records: Sequence[Record], policy: Policy) -> None:
        """Another completion, and the text that its tokens say."""
        self.records[slot][k] = list(records)
        texts = list(self.groups[slot].completions)
        texts[k] = policy.text([record.token for record in records])
        self.groups[slot] = self.groups[slot].model_copy(update={"completions": texts})

    def tasks(self, worker: TaskWorker) -> list[Task]:
        dealt = self.dealt
        return [deal(self.spec, dealt.beacon, dealt.node, slot, worker) for slot in range(dealt.slots)]

    def rescore(self, worker: TaskWorker) -> None:
        """Claim what the texts earn."""
        self.bits = [
            bool(bit)
            for task, group in zip(self.tasks(worker), self.groups, strict=True)
            for bit in rewards(self.spec, task, list(group.completions), worker)
        ]

    def intervals(self, slot: int, tokens: Sequence[int], policy: Policy) -> list[tuple[int, int]]:
        """What the policy gives these tokens, after the slot's prompt."""
        prompt = policy.tokenizer.prompt(self.groups[slot].prompt)
        return policy_intervals(policy.model, prompt, tokens, policy.base.vocab)


def around(u: int, lo: int, last: int) -> tuple[int, int]:
    """An interval as wide as another, but with u in it."""
    width = max(1, last - lo + 1)
    start = min(max(0, u - width // 2), FULL - width)
    return start, start + width - 1


def manifest_of(dealt: Dealt, groups: list[bytes]) -> bytes:
    return BatchManifest(
        chain=dealt.chain_id,
        contract=dealt.rounds,
        round=dealt.round,
        node=dealt.node,
        policy=dealt.policy,
        groups=groups,
    ).encode()


def packed_records(records: Sequence[Record]) -> bytes:
    return b"".join(record.encode() for record in records)
