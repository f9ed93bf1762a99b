"""Seeded mutations of honest batches: of bytes, documents, records and what the chain says, one or several at once.

What is changed is hashed, rooted and claimed again (`batches.Draft.seal`), so that it gets past the digests.
"""

import copy
import json
import random
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from sapo_devnet.formula.judging import by_formula
from sapo_devnet.formula.policy import EOS, VOCAB
from sapo_devnet.testkit.formula import GROUP, LIMIT, SLOTS, Draft, Sealed, loose_json
from sapo_verifier.audit import Audit, CheckResult, Cost, Recomputed
from sapo_verifier.cid import BLOCK_LIMIT
from sapo_verifier.errors import ObjectError
from sapo_verifier.ipfs import BlockTooLarge, BlockUnavailable, StoreFailed
from sapo_verifier.objects import BatchManifest, GroupBlock, Record, decode_records, encode_records
from sapo_verifier.tasks import TaskWorker

ODD: list[Any] = [
    None, True, -1, 0, 1, 2**32, 2**53, 10**400, 0.5, float("nan"), "", "x", "<18>", "\x00", "\ud800", "0x",
    "0x" + "00" * 32, "0x" + "ab" * 20, [], [1], {}, {"v": 2}, [[[[[[[[[[1]]]]]]]]]], "a" * 70_000,
]  # fmt: skip


def flip(rng: random.Random, data: bytes) -> bytes:
    """A few bytes changed, cut out, put in, or moved."""
    made = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 2, 5))):
        at = rng.randrange(len(made) + 1)
        match rng.randrange(5):
            case 0 if made:
                made[at % len(made)] ^= 1 << rng.randrange(8)
            case 1:
                del made[at : at + rng.choice((1, 4, 20))]
            case 2:
                made[at:at] = rng.randbytes(rng.choice((1, 4, 20)))
            case 3:
                made[at:at] = made[at : at + rng.choice((1, 24, 200))]
            case _:
                made[at : at + 1] = rng.choice((b'"', b"[", b"{", b"\\", b"\xff", b"0", b",", b"e"))
    return bytes(made)


def distort(rng: random.Random, document: dict[str, Any]) -> dict[str, Any]:
    """One field of a document set to something odd, removed, added or exchanged with another."""
    made = copy.deepcopy(document)
    parent: Any = made
    key: Any = rng.choice(sorted(parent)) if parent else "v"
    parent.setdefault(key, 1)
    while isinstance(parent[key], list | dict) and parent[key] and rng.random() < 0.7:
        parent = parent[key]
        key = rng.choice(sorted(parent)) if isinstance(parent, dict) else rng.randrange(len(parent))
    match rng.randrange(5):
        case 0:
            parent[key] = rng.choice(ODD)
        case 1:
            del parent[key]
        case 2 if isinstance(parent[key], int):
            parent[key] += rng.choice((-1, 1, 256))
        case 3 if isinstance(parent[key], str) and parent[key]:
            at = rng.randrange(len(parent[key]))
            parent[key] = parent[key][:at] + rng.choice(("", "0", "a", "<", "é", "\n")) + parent[key][at + 1 :]
        case 4 if isinstance(parent, list):
            parent.insert(key, rng.choice(parent))
        case _:
            made[rng.choice(["extra", "V", "", "records"])] = rng.choice(ODD)
    return made


def disturb(rng: random.Random, draft: Draft) -> None:
    """Records changed; text and rewards follow, so that only what comes later can find it."""
    slot = rng.randrange(SLOTS)
    k = rng.randrange(GROUP)
    records = list(draft.slots[slot].records[k])
    t = rng.randrange(len(records))
    match rng.randrange(9):
        case 0:
            records[t] = records[t]._replace(token=rng.choice((0, EOS, 5, VOCAB - 1, VOCAB, 2**32 - 1)))
        case 1:
            records[t] = records[t]._replace(token=rng.randrange(VOCAB))
        case 2:
            records[t] = records[t]._replace(lo=rng.randrange(2**64))
        case 3:
            records[t] = records[t]._replace(last=rng.randrange(2**64))
        case 4:
            records[t] = records[t]._replace(lo=max(0, records[t].lo - 1), last=min(2**64 - 1, records[t].last + 1))
        case 5:
            records = records[: t + 1]
        case 6:
            records = [*records, Record(rng.randrange(VOCAB), 0, 2**64 - 1)]
        case 7:
            records = draft.slots[rng.randrange(SLOTS)].records[rng.randrange(GROUP)]
        case _:
            records[t : t + 2] = records[t : t + 2][::-1]
    draft.slots[slot].records[k] = list(records)
    if rng.random() < 0.8 and all(record.token < VOCAB for record in records):
        draft.slots[slot].rewrite(k, list(records))


def bend_records(rng: random.Random, draft: Draft, worker: TaskWorker) -> None:
    """Only of a draft whose documents are whole: rewards are claimed again, mostly."""
    disturb(rng, draft)
    if rng.random() < 0.8 and all(r.token < VOCAB for s in draft.slots for c in s.records for r in c):
        draft.rescore(worker)


def bend_document(rng: random.Random, draft: Draft) -> None:
    """One of the JSON documents says something else."""
    slot = draft.slots[rng.randrange(SLOTS)]
    match rng.randrange(4):
        case 0:
            sealed = draft.seal()
            manifest = distort(rng, json.loads(sealed.blocks[sealed.names["manifest"]]))  # type: ignore[arg-type]
            draft.raw_manifest = loose_json(manifest)
        case 1:
            draft.policy = distort(rng, draft.policy)
        case _:
            slot.document = distort(rng, slot.document)


def bend_bytes(rng: random.Random, draft: Draft) -> None:
    """The bytes of one block change, and its name with them."""
    sealed = draft.seal()
    slot = rng.randrange(SLOTS)

    def bent(name: str) -> bytes:
        data = sealed.blocks[sealed.names[name]]
        assert isinstance(data, bytes)
        return flip(rng, data)

    match rng.randrange(4):
        case 0:
            draft.raw_manifest = bent("manifest")
        case 1:
            draft.raw_policy = bent("policy")
        case 2:
            draft.slots[slot].raw_group = bent(f"group {slot}")
        case _:
            raw = flip(rng, encode_records(draft.slots[slot].records))
            try:
                draft.slots[slot].records = decode_records(raw, GROUP, LIMIT)  # the root goes with it
            except ObjectError:
                draft.slots[slot].raw_records = raw


def bend_facts(rng: random.Random, draft: Draft) -> None:
    """What the chain holds: a bit of the claim, or the root."""
    if rng.random() < 0.5:
        bit = rng.randrange(256 if rng.random() < 0.2 else SLOTS * GROUP)
        draft.claim(bit // GROUP, bit % GROUP, not draft.claimed(bit // GROUP, bit % GROUP))
    else:
        draft.root = flip(rng, draft.seal().facts.root)[:32].ljust(32, b"\0")


def mutate(rng: random.Random, draft: Draft, worker: TaskWorker) -> None:
    """One mutation of some kind; sometimes records are disturbed as well."""
    if rng.random() < 0.15:
        disturb(rng, draft)
    match rng.randrange(18):
        case 0 | 1 | 2 | 3:
            bend_bytes(rng, draft)
        case 4 | 5 | 6 | 7:
            bend_document(rng, draft)
        case 8 | 9:
            bend_facts(rng, draft)
        case _:
            bend_records(rng, draft, worker)


def mutate_several(rng: random.Random, draft: Draft, worker: TaskWorker) -> None:
    """Several mutations of several kinds. Records first: later kinds leave documents that cannot be scored again."""
    for _ in range(rng.choice((0, 1, 1, 2, 4))):
        bend_records(rng, draft, worker)
    for bend, most in ((bend_document, 3), (bend_facts, 2), (bend_bytes, 3)):
        for _ in range(rng.randrange(most + 1) if rng.random() < 0.35 else 0):
            bend(rng, draft)


def tamper(rng: random.Random, sealed: Sealed) -> None:
    """What the network does to a sealed batch: a block missing, too large, exchanged, other bytes; a failing store."""
    digest = rng.choice(sorted(sealed.blocks))
    block = sealed.blocks[digest]
    assert isinstance(block, bytes)
    match rng.randrange(6):
        case 0:
            del sealed.blocks[digest]
        case 1:
            sealed.blocks[digest] = BlockUnavailable("nobody has it")
        case 2:
            sealed.blocks[digest] = BlockTooLarge("longer than allowed")
        case 3:
            sealed.blocks[digest] = StoreFailed("the disk is full")
        case 4:
            sealed.blocks[digest] = sealed.blocks[rng.choice(sorted(sealed.blocks))]
        case _:
            sealed.blocks[digest] = flip(rng, block) if rng.random() < 0.8 else block + bytes(BLOCK_LIMIT + 1)


def meaning(sealed: Sealed) -> tuple[Any, ...]:
    """Everything that a batch says, but for interval bounds and what is hashed over them."""

    def block(digest: bytes) -> bytes:
        found = sealed.blocks[digest]
        assert isinstance(found, bytes)
        return found

    manifest = BatchManifest.parse(block(sealed.facts.manifest))
    groups = [GroupBlock.parse(block(digest)) for digest in manifest.groups]
    tokens = [
        [[record.token for record in completion] for completion in decode_records(block(g.records), GROUP, LIMIT)]
        for g in groups
    ]
    shown = manifest.to_json() | {"groups": len(groups)}
    return shown, [g.to_json() | {"records": ""} for g in groups], tokens, sealed.facts.claim, sealed.facts.policy


@dataclass
class StandIn:
    """Answers the `policy` check by the formula, whatever the policy is called."""

    runs: bool = False
    seconds: float = 0.0
    cost: Cost = field(default_factory=Cost)

    def __call__(self, audit: Audit) -> Recomputed:
        return Recomputed(by_formula(audit))

    def judge(self, audit: Audit, answers: Sequence[int]) -> CheckResult:
        return CheckResult("answers", "unknown", "no voter answers here")

    def audits(self, audit: Audit) -> Audit:
        """The audit, with this policy to answer its last check."""
        return replace(audit, model=self)
