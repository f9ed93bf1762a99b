"""What the checks look at: the chain's facts about a batch, the fetched blocks, and what a check says."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, Protocol, Self, TypeVar, cast

from sapo_verifier.bases import Tokenizer
from sapo_verifier.cid import BLOCK_LIMIT
from sapo_verifier.errors import ObjectError, SapoError
from sapo_verifier.facts import BatchFacts
from sapo_verifier.ipfs import BlockUnavailable
from sapo_verifier.objects import BatchManifest, GroupBlock, PolicyManifest, Record, split_records, unpack_records
from sapo_verifier.protocol import RECORD_BYTES
from sapo_verifier.spec import BaseRule, Spec
from sapo_verifier.spots import Spots
from sapo_verifier.tasks import Task, TaskWorker, deal, render

T = TypeVar("T")
Status = Literal["pass", "fail", "void", "unknown"]
Found = bytes | SapoError  # a block, or why it could not be had
WEIGHT_BLOCKS_AT_A_TIME = 64


@dataclass(frozen=True)
class CheckResult:
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
class Recomputed:
    """What running the declared policy on a batch gave. result: of the `policy` check.

    answers: to the questions of the audit's spots, in the draw's order; none unless the check passed. hides: it is
    void, as the policy is too ill-conditioned to tell, and yet no pass came near the record: to be disputed.
    """

    result: CheckResult
    answers: tuple[int, ...] = ()
    hides: bool = False


@dataclass(frozen=True)
class Cost:
    """Seconds of running policies. load: reading bases; merge: putting a policy's weights into its base; passes: the
    model over completions, those that a failure has to survive too."""

    load: float = 0.0
    merge: float = 0.0
    passes: float = 0.0

    def __add__(self, other: "Cost") -> "Cost":
        return Cost(self.load + other.load, self.merge + other.merge, self.passes + other.passes)

    def __sub__(self, other: "Cost") -> "Cost":
        return Cost(self.load - other.load, self.merge - other.merge, self.passes - other.passes)


class PolicyModel(Protocol):
    """What answers the `policy` check: see model.policy_model, which needs torch."""

    runs: bool  # whether it runs models here, so that weights are worth fetching

    @property
    def seconds(self) -> float:
        """Spent so far, on everything."""
        ...

    @property
    def cost(self) -> Cost:
        """Of that, what ran a model took so far."""
        ...

    def __call__(self, audit: "Audit") -> Recomputed:
        """Runs the policy on the audit's spots; on every completion, and without questions, if it has none."""
        ...

    def judge(self, audit: "Audit", answers: Sequence[int]) -> CheckResult:
        """The check `answers`: what a voter whose spots are the audit's answered about the batch, in the draw's order.
        It fails where an answer is false, one is missing or too many, or a spot fails `policy`, and is void where that
        cannot be told. For batches that passed the checks before `policy`."""
        ...


class SlotError(ObjectError):
    """What a batch holds for one slot is not what the protocol asks for."""

    def __init__(self, problem: str, slot: int) -> None:
        super().__init__(problem)
        self.slot = slot


@dataclass(frozen=True)
class Documents:
    """A batch's blocks, parsed. Every property raises ObjectError (SlotError where a slot's blocks are the reason)."""

    facts: BatchFacts
    spec: Spec
    blocks: Mapping[bytes, Found]

    def bytes_of(self, digest: bytes) -> bytes:
        found = self.blocks.get(digest)
        if not isinstance(found, bytes):
            raise ObjectError(f"block 0x{digest.hex()} is not at hand")
        return found

    @cached_property
    def _read(self) -> dict[tuple[str, bytes], Any]:
        return {}

    def _once(self, what: str, parse: Callable[[bytes], T], digest: bytes) -> T:
        """What `parse` makes of a block. It is parsed once as what it is, however often it is named, also if it is
        misshapen: what a batch costs is bounded by its bytes."""
        data, key = self.bytes_of(digest), (what, digest)
        if key not in self._read:
            try:
                self._read[key] = parse(data)
            except ObjectError as error:
                self._read[key] = error
        found = self._read[key]
        if isinstance(found, ObjectError):
            raise ObjectError(str(found))
        return cast(T, found)

    @cached_property
    def manifest(self) -> BatchManifest:
        """With one group per slot, all of them different."""
        manifest = self._once("manifest", BatchManifest.parse, self.facts.manifest)
        if len(manifest.groups) != self.facts.slots:
            raise ObjectError(f"the manifest has {len(manifest.groups)} groups, not {self.facts.slots}")
        if len(set(manifest.groups)) != len(manifest.groups):
            raise ObjectError("the manifest lists a group twice")
        return manifest

    @cached_property
    def policy(self) -> PolicyManifest:
        return self._once("policy", PolicyManifest.parse, self.facts.policy)

    @cached_property
    def groups(self) -> list[GroupBlock]:
        """By slot, each with G completions."""
        return [self._group(slot, digest) for slot, digest in enumerate(self.manifest.groups)]

    def _group(self, slot: int, digest: bytes) -> GroupBlock:
        try:
            group = self._once("group", GroupBlock.parse, digest)
        except ObjectError as error:
            raise SlotError(str(error), slot) from error
        if group.slot != slot:
            raise SlotError(f"the block says slot {group.slot}", slot)
        if len(group.completions) != self.spec.group_size:
            raise SlotError(f"{len(group.completions)} completions, not {self.spec.group_size}", slot)
        return group

    @cached_property
    def records(self) -> list[list[bytes]]:
        """By slot and completion, the packed records."""
        return [self._records(slot, group.records) for slot, group in enumerate(self.groups)]

    def _records(self, slot: int, digest: bytes) -> list[bytes]:
        try:
            return self._once("records", self._split, digest)
        except ObjectError as error:
            raise SlotError(str(error), slot) from error

    def _split(self, data: bytes) -> list[bytes]:
        return split_records(data, self.spec.group_size, self.spec.max_new_tokens)

    @cached_property
    def completions(self) -> list[list[list[Record]]]:
        """By slot and completion, the records, unpacked once for all checks and for training; several groups may name
        one block."""
        unpacked: dict[bytes, list[list[Record]]] = {}
        for group, packed in zip(self.groups, self.records, strict=True):
            if group.records not in unpacked:
                unpacked[group.records] = [unpack_records(part) for part in packed]
        return [unpacked[group.records] for group in self.groups]

    def named(self) -> dict[bytes, int]:
        """Every block that the batch is known to name, and the most bytes that it may have.

        A document that is missing or misshapen ends the list: what lies behind it cannot save the batch, and fetching
        and parsing it would only cost time.
        """
        limits = {self.facts.manifest: BLOCK_LIMIT, self.facts.policy: BLOCK_LIMIT}
        with suppress(ObjectError):  # the schema check meets it again and says what is wrong
            _ = self.policy
            for digest in self.manifest.groups:
                limits.setdefault(digest, BLOCK_LIMIT)
            for group in self.groups:
                limits.setdefault(group.records, records_limit(self.spec))
        return limits

    def weight_blocks(self) -> list[tuple[bytes, int]]:
        """The policy's weights in order, each chunk with the bytes that it may have.

        None of a batch that fails without them: with a document misshapen, another base, or more bytes than allowed.
        """
        try:
            _ = self.records
            policy = self.policy
        except ObjectError:
            return []
        base = self.spec.base(policy.base)
        if base is None or policy.kind == "base" or policy.size > base.max_adapter_bytes:
            return []
        if policy.lora is not None and policy.lora.rank > base.max_rank:
            return []
        return [(digest, min(BLOCK_LIMIT, policy.size - i * BLOCK_LIMIT)) for i, digest in enumerate(policy.blocks)]


@dataclass(frozen=True)
class Dealt:
    """What the beacon deals to a batch's slots: the tasks, and their prompts as its base's template renders them."""

    tasks: list[Task]
    prompts: list[str]

    @classmethod
    def to(cls, facts: BatchFacts, spec: Spec, base: BaseRule, worker: TaskWorker) -> Self:
        """Raises TaskError where this machine cannot generate a task."""
        tasks = [deal(spec, facts.beacon, facts.node, slot, worker) for slot in range(facts.slots)]
        return cls(tasks, [render(task, base.template, spec.answer) for task in tasks])


@dataclass(frozen=True)
class Audit(Documents):
    """One batch under audit. `schema` is the first check that relies on the documents.

    dealt_before: by who made the batch on this machine; None: the tasks are dealt here and now. spots: the completions
    on which the policy is run, and what is asked about them; None: it is run on all, and nothing is asked.
    """

    worker: TaskWorker
    tokenizer: TokenizerFinder
    model: PolicyModel | None = None
    dealt_before: Dealt | None = None
    spots: Spots | None = None

    @cached_property
    def recomputed(self) -> Recomputed | None:
        """The policy's own pass, once; None without a model. For batches that passed the checks before it."""
        return None if self.model is None else self.model(self)

    @property
    def leaves(self) -> Sequence[int]:
        """The completions i = slot · G + k on which the policy is run."""
        return range(self.facts.slots * self.spec.group_size) if self.spots is None else self.spots.leaves

    @cached_property
    def wanted(self) -> dict[bytes, int]:
        """`named`, once: the blocks of an audit do not change."""
        return self.named()

    @cached_property
    def dealt(self) -> Dealt:
        """Tasks and prompts by slot; raises TaskError where this machine cannot generate one."""
        return self.dealt_before or Dealt.to(self.facts, self.spec, self.base, self.worker)

    @property
    def tasks(self) -> list[Task]:
        """The tasks that were dealt, by slot. Raises as `dealt`."""
        return self.dealt.tasks

    @cached_property
    def base(self) -> BaseRule:
        base = self.spec.base(self.policy.base)
        if base is None:
            raise ObjectError(f"the base {self.policy.base!r} is not in the spec")
        return base


def fetch_batch(
    store: Store, spec: Spec, facts: BatchFacts, peers: Sequence[str], *, weights: bool = False
) -> dict[bytes, Found]:
    """Everything that the checks of one batch need, in three steps of parallel gets, each bounded in size.

    peers: endpoints (multiaddrs), the producer's first. No block is fetched twice, however often the batch names it.
    weights: the policy's weights too, for the `policy` check; only of a batch that is whole, and some at a time, so
    that the first that is missing ends it.
    """
    blocks: dict[bytes, Found] = {}
    documents = Documents(facts, spec, blocks)
    for _ in range(3):  # manifests, groups, records
        wants = [(digest, limit) for digest, limit in documents.named().items() if digest not in blocks]
        if not wants:
            break
        found = store.get_many(wants, peers)
        missing = BlockUnavailable("the store gave no answer for it")
        blocks.update({digest: found.get(digest, missing) for digest, _ in wants})
    if weights:
        fetch_weights(store, documents, blocks, peers)
    return blocks


def fetch_weights(store: Store, documents: Documents, blocks: dict[bytes, Found], peers: Sequence[str]) -> None:
    """The policy's weights of a batch that is whole, added to `blocks`, some at a time: the first that is missing ends
    it. documents: over these very blocks."""
    chunks = documents.weight_blocks()
    for at in range(0, len(chunks), WEIGHT_BLOCKS_AT_A_TIME):
        wants = [chunk for chunk in chunks[at : at + WEIGHT_BLOCKS_AT_A_TIME] if chunk[0] not in blocks]
        found = store.get_many(wants, peers) if wants else {}
        missing = BlockUnavailable("the store gave no answer for it")
        blocks.update({digest: found.get(digest, missing) for digest, _ in wants})
        if not all(isinstance(blocks[digest], bytes) for digest, _ in wants):
            return


def records_limit(spec: Spec) -> int:
    """The most bytes that a records block can have."""
    return spec.group_size * (4 + RECORD_BYTES * spec.max_new_tokens)
