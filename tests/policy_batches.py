"""Batches of a real policy, made with the client's own parts, and ways to bend what they claim."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from sapo_client.batches.publish import make_batch
from sapo_client.policy.policy import Policy
from sapo_devnet.testkit.tiny_policy import tiny_folder
from sapo_verifier import protocol
from sapo_verifier.audit import Audit, CheckResult, Found, PolicyModel
from sapo_verifier.bases import Bases
from sapo_verifier.checks import batch_root, check_batch
from sapo_verifier.cid import BLOCK_LIMIT, block_digest
from sapo_verifier.facts import BatchFacts
from sapo_verifier.networks import pocket_spec
from sapo_verifier.objects import (
    NO_AUDIT,
    BatchManifest,
    GroupBlock,
    PolicyManifest,
    Record,
    decode_records,
    encode_records,
)
from sapo_verifier.spec import Spec
from sapo_verifier.tasks import TaskWorker, deal, rewards

CHAIN, ROUNDS, NODE, ROUND = 31337, "0x" + "12" * 20, "0x" + "ab" * 20, 3


def spec_of(*folders: Path, group_size: int = 4, max_new_tokens: int = 24) -> Spec:
    """The pocket spec, with a base for each folder: `pocket`, `pocket1`, …"""
    spec = pocket_spec(folders[0])
    others = [pocket_spec(folder).bases[0].model_copy(update={"id": f"pocket{i}"}) for i, folder in enumerate(folders)]
    changes = {"group_size": group_size, "max_new_tokens": max_new_tokens, "bases": [spec.bases[0], *others[1:]]}
    return Spec.model_validate(spec.model_copy(update=changes).to_json())


@dataclass
class World:
    """What all parties share: the spec, its first base's folder, a worker."""

    spec: Spec
    folder: Path
    worker: TaskWorker
    bases: Bases

    def policy(self) -> Policy:
        return Policy.load(self.folder, self.spec.bases[0])


def world(folder: Path, worker: TaskWorker, **options: int) -> World:
    made = tiny_folder(folder)
    return World(spec_of(made, **options), made, worker, Bases([made]))


@dataclass
class Made:
    """A batch, what the chain says of it, and its records by slot and completion, free to be changed."""

    world: World
    facts: BatchFacts
    blocks: dict[bytes, Found]
    records: list[list[list[Record]]] = field(default_factory=list)

    @property
    def groups(self) -> list[GroupBlock]:
        return self.audit(None).groups

    def audit(self, model: PolicyModel | None) -> Audit:
        world = self.world
        return Audit(self.facts, world.spec, self.blocks, world.worker, world.bases.tokenizer, model)

    def check(self, model: PolicyModel | None) -> CheckResult:
        """What `policy` says; every check before it passes."""
        *before, last = check_batch(self.audit(model))
        assert [outcome.status for outcome in before] == ["pass"] * 11, (before, last)
        return last

    def us(self, slot: int, k: int, count: int) -> list[int]:
        key = protocol.stream_key(self.facts.beacon, self.facts.policy, self.facts.node, slot, k)
        return protocol.stream_values(key, count)

    def sealed(self) -> "Made":
        """The same batch with the records as they are now: blocks, texts, root and claim go with them."""
        blocks, digests, bits = dict(self.blocks), [], []

        def put(data: bytes) -> bytes:
            blocks[block_digest(data)] = data
            return block_digest(data)

        world, packed = self.world, []
        tokenizer, eos = world.bases.tokenizer(world.spec.bases[0]), world.spec.bases[0].eos
        for slot, (group, records) in enumerate(zip(self.groups, self.records, strict=True)):
            ids = [[record.token for record in each] for each in records]
            texts = [tokenizer.decode(each[:-1] if each[-1] in eos else each) for each in ids]
            changes = {"completions": texts, "records": put(encode_records(records))}
            digests.append(put(group.model_copy(update=changes).encode()))
            task = deal(world.spec, self.facts.beacon, self.facts.node, slot, world.worker)
            bits += [bool(bit) for bit in rewards(world.spec, task, texts, world.worker)]
            packed += [b"".join(record.encode() for record in each) for each in records]
        manifest = BatchManifest.parse(self.blocks[self.facts.manifest]).model_copy(update={"groups": digests})  # type: ignore[arg-type]
        claim = protocol.claim_word(bits)
        facts = replace(self.facts, manifest=put(manifest.encode()), root=batch_root(packed), claim=claim)
        return Made(world, facts, blocks, self.records)


def declared(data: bytes, **changes: object) -> tuple[bytes, dict[bytes, Found]]:
    """The digest and the blocks of a policy manifest for these weights; its fields can be changed."""
    chunks = [data[at : at + BLOCK_LIMIT] for at in range(0, len(data), BLOCK_LIMIT)]
    names = [block_digest(chunk) for chunk in chunks]
    fields = {"audit": NO_AUDIT, "base": "pocket", "kind": "full", "size": len(data), "blocks": names}
    manifest = PolicyManifest.model_validate(fields | changes).encode()
    return block_digest(manifest), {block_digest(block): block for block in [manifest, *chunks]}


def made_by(
    world: World,
    sampler: Policy,
    *,
    slots: int = 2,
    says: tuple[bytes, dict[bytes, Found]] | None = None,
    seed: int = 0,
) -> Made:
    """A batch sampled from `sampler`. says: what is declared instead of it, as from `declared`."""
    published = sampler.publish()
    digest, blocks = published.digest, {block_digest(b): b for b in [published.manifest, *published.blocks]}
    if says is not None:
        digest, blocks = says
    dealt = BatchFacts.dealt(
        CHAIN, ROUNDS, ROUND, NODE, protocol.beacon(CHAIN, ROUNDS, ROUND, seed.to_bytes(32)), digest, slots
    )
    batch = make_batch(world.spec, dealt, sampler, world.worker)
    made = Made(world, batch.facts, {**batch.blocks, **blocks})
    limits = (world.spec.group_size, world.spec.max_new_tokens)
    made.records = [decode_records(made.audit(None).bytes_of(group.records), *limits) for group in made.groups]
    return made


def first_place(
    made: Made, own: Callable[[Sequence[int], Sequence[int]], list[tuple[int, int]]], tolerance: int
) -> tuple[int, int, int] | None:
    """Where the claims are first off by more than `tolerance`. own(prompt, tokens): the declared policy's intervals."""
    tokenizer = made.world.bases.tokenizer(made.world.spec.bases[0])
    for slot, group in enumerate(made.groups):
        for k, records in enumerate(made.records[slot]):
            intervals = own(tokenizer.prompt(group.prompt), [record.token for record in records])
            for t, (record, (lo, last)) in enumerate(zip(records, intervals, strict=True)):
                if max(abs(record.lo - lo), abs(record.last - last)) > tolerance:
                    return slot, k, t
    return None
