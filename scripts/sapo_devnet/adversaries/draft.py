"""An honest batch taken apart, so that a part can be falsified, and sealed again: digests, root and claim follow."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from sapo_client.batches.publish import Batch
from sapo_client.policy.policy import Policy
from sapo_verifier import protocol
from sapo_verifier.checks import batch_root
from sapo_verifier.cid import block_digest
from sapo_verifier.facts import BatchFacts
from sapo_verifier.model.positions import policy_intervals
from sapo_verifier.objects import BatchManifest, GroupBlock, Record, decode_records, encode_records
from sapo_verifier.spec import Spec
from sapo_verifier.tasks import TaskWorker, rewards

FULL = 1 << 64


@dataclass
class Draft:
    """records: by slot and completion. The rest of what a batch is follows from `seal`."""

    spec: Spec
    batch: Batch  # the honest one
    groups: list[GroupBlock]
    records: list[list[list[Record]]]
    bits: list[bool]

    @classmethod
    def of(cls, spec: Spec, batch: Batch) -> "Draft":
        manifest = BatchManifest.parse(batch.blocks[batch.facts.manifest])
        groups = [GroupBlock.parse(batch.blocks[digest]) for digest in manifest.groups]
        records = [
            decode_records(batch.blocks[group.records], spec.group_size, spec.max_new_tokens) for group in groups
        ]
        bits = [bool(batch.facts.claim >> i & 1) for i in range(batch.facts.slots * spec.group_size)]
        return cls(spec, batch, groups, records, bits)

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
        manifest = manifest_of(self.batch.facts, names)
        blocks[block_digest(manifest)] = manifest
        facts = self.batch.facts.made(block_digest(manifest), root, protocol.claim_word(self.bits))
        return replace(self.batch, facts=facts, blocks=blocks)

    def us(self, slot: int, k: int, n: int) -> list[int]:
        """The numbers that force the completion's tokens."""
        facts = self.batch.facts
        return protocol.stream_values(protocol.stream_key(facts.beacon, facts.policy, facts.node, slot, k), n)

    def replace(self, slot: int, k: int, records: Sequence[Record], policy: Policy) -> None:
        """Another completion, and the text that its tokens say."""
        self.records[slot][k] = list(records)
        texts = list(self.groups[slot].completions)
        texts[k] = policy.text([record.token for record in records])
        self.groups[slot] = self.groups[slot].model_copy(update={"completions": texts})

    def rescore(self, worker: TaskWorker) -> None:
        """Claim what the texts earn."""
        self.bits = [
            bool(bit)
            for task, group in zip(self.batch.dealt.tasks, self.groups, strict=True)
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


def manifest_of(facts: BatchFacts, groups: list[bytes]) -> bytes:
    return BatchManifest(
        chain=facts.chain_id,
        contract=facts.rounds,
        round=facts.round,
        node=facts.node,
        policy=facts.policy,
        groups=groups,
    ).encode()


def packed_records(records: Sequence[Record]) -> bytes:
    return b"".join(record.encode() for record in records)
