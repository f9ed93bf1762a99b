"""What the checks look at: the chain's facts about a batch, the fetched blocks, and what a check says."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Literal, Protocol, TypeVar

from sapo_verifier.bases import Tokenizer
from sapo_verifier.errors import ObjectError, SapoError
from sapo_verifier.objects import BatchManifest, Document, GroupBlock, PolicyManifest, split_records
from sapo_verifier.protocol import RECORD_BYTES
from sapo_verifier.spec import BaseRule, Spec
from sapo_verifier.tasks import Task, TaskWorker, deal

if TYPE_CHECKING:
    from sapo_verifier.chain.deployment import Deployment
    from sapo_verifier.chain.reader import BatchInfo

Status = Literal["pass", "fail", "void", "unknown"]
Found = bytes | SapoError  # a block, or why it could not be had
BLOCK_LIMIT = 1 << 20


@dataclass(frozen=True)
class BatchFacts:
    """What the chain says about one batch."""

    chain_id: int
    rounds: str  # address of the Rounds contract
    index: int
    node: str
    round: int
    slots: int
    policy: bytes  # digest committed before the beacon existed
    manifest: bytes
    root: bytes
    claim: int
    beacon: bytes


def facts_of(deployment: "Deployment", batch: "BatchInfo", beacon: bytes) -> BatchFacts:
    """A batch's facts, as checks take them. beacon: that of the batch's own round."""
    return BatchFacts(
        chain_id=deployment.chain_id,
        rounds=deployment.contracts.rounds,
        index=batch.index,
        node=batch.node,
        round=batch.round,
        slots=batch.slots,
        policy=batch.policy,
        manifest=batch.manifest,
        root=batch.root,
        claim=batch.claim,
        beacon=beacon,
    )


@dataclass(frozen=True)
class Outcome:
    """What one check found. A failure names the slot, the completion k and the position t, as far as they apply."""

    check: str
    status: Status
    reason: str = ""
    slot: int | None = None
    k: int | None = None
    t: int | None = None
    evidence: dict[str, str] = field(default_factory=dict)


class Store(Protocol):
    """Where blocks come from: ipfs.BlockStore for a node, ipfs.GatewayReader for an auditor."""

    def get_many(self, wants: Sequence[tuple[bytes, int]], peers: Sequence[str] = ()) -> Mapping[bytes, Found]:
        """For each (digest, limit in bytes) the block, or the error that says why there is none."""


TokenizerFinder = Callable[[BaseRule], Tokenizer]  # raises bases.BaseMissingError


@dataclass(frozen=True)
class Audit:
    """One batch under audit. Parsed properties raise ObjectError; `schema` is the first to look at them."""

    facts: BatchFacts
    spec: Spec
    blocks: Mapping[bytes, Found]
    worker: TaskWorker
    tokenizer: TokenizerFinder

    def bytes_of(self, digest: bytes) -> bytes:
        found = self.blocks.get(digest)
        if not isinstance(found, bytes):
            raise ObjectError(f"block 0x{digest.hex()} is not at hand")
        return found

    @cached_property
    def manifest(self) -> BatchManifest:
        return BatchManifest.parse(self.bytes_of(self.facts.manifest))

    @cached_property
    def policy(self) -> PolicyManifest:
        return PolicyManifest.parse(self.bytes_of(self.facts.policy))

    @cached_property
    def groups(self) -> list[GroupBlock]:
        return [self._group(slot, digest) for slot, digest in enumerate(self.manifest.groups)]

    def _group(self, slot: int, digest: bytes) -> GroupBlock:
        try:
            return GroupBlock.parse(self.bytes_of(digest))
        except ObjectError as error:
            raise ObjectError(f"slot {slot}: {error}") from error

    @cached_property
    def records(self) -> list[list[bytes]]:
        """By slot and completion, the packed records."""
        return [self._records(slot, group.records) for slot, group in enumerate(self.groups)]

    def _records(self, slot: int, digest: bytes) -> list[bytes]:
        try:
            return split_records(self.bytes_of(digest), self.spec.group_size, self.spec.max_new_tokens)
        except ObjectError as error:
            raise ObjectError(f"slot {slot}: {error}") from error

    @cached_property
    def tasks(self) -> list[Task]:
        """The tasks that were dealt, by slot; raises TaskError where this machine cannot generate one."""
        facts = self.facts
        return [deal(self.spec, facts.beacon, facts.node, slot, self.worker) for slot in range(facts.slots)]

    @cached_property
    def base(self) -> BaseRule:
        base = self.spec.base(self.policy.base)
        if base is None:
            raise ObjectError(f"the base {self.policy.base!r} is not in the spec")
        return base


def fetch_batch(store: Store, spec: Spec, facts: BatchFacts, peers: Sequence[str]) -> dict[bytes, Found]:
    """Everything that the checks of one batch need, in three steps of parallel gets, each bounded in size.

    peers: endpoints (multiaddrs), the producer's first. Blocks that do not parse end the walk; the checks say why.
    """
    blocks = dict(store.get_many([(facts.manifest, BLOCK_LIMIT), (facts.policy, BLOCK_LIMIT)], peers))
    manifest = _parsed(BatchManifest, blocks.get(facts.manifest))
    if manifest is None:
        return blocks
    digests = manifest.groups[: facts.slots]
    blocks.update(store.get_many([(digest, BLOCK_LIMIT) for digest in digests], peers))
    groups = [_parsed(GroupBlock, blocks.get(digest)) for digest in digests]
    wants = [(group.records, records_limit(spec)) for group in groups if group is not None]
    blocks.update(store.get_many(wants, peers))
    return blocks


def records_limit(spec: Spec) -> int:
    """The most bytes that a records block can have."""
    return spec.group_size * (4 + RECORD_BYTES * spec.max_new_tokens)


Model = TypeVar("Model", bound=Document)


def _parsed(model: type[Model], found: Found | None) -> Model | None:
    if not isinstance(found, bytes):
        return None
    try:
        return model.parse(found)
    except ObjectError:
        return None  # the schema check parses it again and says what is wrong
