"""The draw is the training set: fetch the batches that the beacon deals to this node, check them, keep their groups."""

import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

from sapo_client.batches.ingest import training_groups
from sapo_client.batches.pins import PinBook
from sapo_client.batches.seeds import Seeds
from sapo_client.training.groups import Group, has_advantage
from sapo_verifier import protocol
from sapo_verifier.audit import Audit, CheckResult, Cost, Found, PolicyModel, TokenizerFinder, fetch_batch
from sapo_verifier.chain.errors import ChainUnavailable
from sapo_verifier.chain.reader import ChainReader
from sapo_verifier.checks import check_answers, check_batch
from sapo_verifier.errors import ObjectError
from sapo_verifier.facts import BatchFacts, BatchInfo
from sapo_verifier.ipfs import BlockUnavailable, GatewayReader
from sapo_verifier.proofs import Proof, find_proof
from sapo_verifier.schedule import COMMIT_AFTER, KEEP_AFTER, SERVE_AFTER, window_size
from sapo_verifier.spec import Spec
from sapo_verifier.spots import Spots
from sapo_verifier.tasks import TaskWorker

if TYPE_CHECKING:
    from sapo_client.policy.policy import Policy

log = logging.getLogger(__name__)


@dataclass
class FetchBudget:
    """Seconds for fetching a round's batches. Each may take an even part of what is left, so that a producer that
    stalls or trickles uses up its own part only."""

    seconds: float
    batches: int  # still to fetch

    @contextmanager
    def store(self, store: GatewayReader) -> Iterator["HurriedStore"]:
        """For the next batch: the store with its part of the time."""
        started = time.monotonic()
        part = max(0.0, self.seconds) / max(1, self.batches)
        yield HurriedStore(store, started + part)
        self.batches -= 1
        self.seconds -= time.monotonic() - started


@dataclass(frozen=True)
class HurriedStore:
    """A store that gives up at a moment (of time.monotonic)."""

    store: GatewayReader
    end: float

    def get_many(self, wants: Sequence[tuple[bytes, int]], peers: Sequence[str] = ()) -> Mapping[bytes, Found]:
        left = self.end - time.monotonic()
        if left <= 0:
            reason = "not asked for: fetching the rest of its batch had used up its time (audit.seconds)"
            return {digest: BlockUnavailable(reason) for digest, _ in wants}
        return self.store.get_many(wants, peers, deadline=left)


@dataclass(frozen=True)
class AuditCounts:
    """What a node fetched and checked of others, in groups, and what that took."""

    drawn: int = 0  # groups in the windows dealt to this node
    fetched: int = 0
    checked: int = 0  # passed every check that could be made
    failed: int = 0  # a check failed, was void, or could not be made here
    with_advantage: int = 0
    failures: tuple[str, ...] = ()  # one sentence per batch that may not be trained on
    weights_bytes: int = 0  # of other nodes' policies; what is here already is not fetched again
    recomputed: int = 0  # completions on which the producer's policy was run
    asked: tuple[str, ...] = ()  # producers whose batches were fetched
    reached: tuple[str, ...] = ()  # those of which all blocks came

    def __add__(self, other: "AuditCounts") -> "AuditCounts":
        return AuditCounts(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(self)))


@dataclass(frozen=True)
class Seen:
    """A batch that was looked at: what the checks say, what can be learned from it, what can be proven against it.

    spots: the completions on which the policy was run; None: on all, and nothing was asked. answers: to their
    questions, in the draw's order; none unless the policy check passed. missing: blocks that did not come, and the
    bytes that each may have. hides: its policy is too ill-conditioned to tell, and yet no pass came near the record
    (audit.Recomputed).
    """

    batch: BatchInfo
    results: list[CheckResult]
    groups: list[Group]  # [] unless it may be trained on
    proof: Proof | None
    spots: Spots | None = None
    answers: tuple[int, ...] = ()
    missing: tuple[tuple[bytes, int], ...] = ()
    hides: bool = False


@dataclass(frozen=True)
class Asked:
    """What one voter of stage 1 answered about one batch. peers: endpoints of who may have the batch's blocks."""

    batch: BatchInfo
    spots: Spots
    answers: Sequence[int]
    peers: Sequence[str]


@dataclass(frozen=True)
class Auditor:
    """Everything that an audit needs beside the round."""

    reader: ChainReader
    store: GatewayReader
    spec: Spec
    worker: TaskWorker
    tokenizer: TokenizerFinder
    model: PolicyModel | None  # answers the policy check; None: that check is left out
    pins: PinBook
    voter: str  # this node
    seeds: Seeds  # its own, which its spots are drawn with

    def window(self, round_: int, stage: int = 1) -> list[BatchInfo]:
        """The batches of `round_` that a stage's beacon deals to this node; [] while there are none.

        Reads these batches only, whatever the number of nodes. Raises ChainUnavailable where the RPC's answers do not
        fit each other.
        """
        info = self.reader.round_at(round_)
        dealer = self.reader.beacon(round_ + COMMIT_AFTER[stage])
        if info.count == 0 or dealer is None:
            return []
        own = self.reader.batch_of(self.voter, round_)
        own_position = None if own is None else own - info.first
        start = protocol.window_start(dealer, self.voter, stage, info.count, own_position)
        size = window_size(self.spec.chain.draws, stage)
        positions = protocol.window(start, info.count, own_position, size)
        batches = self.reader.batches_at([info.first + position for position in positions])
        if any(batch.round != round_ or batch.node == self.voter for batch in batches):
            raise ChainUnavailable(
                f"{self.reader.where} gives batches that are not those of round {round_} dealt to this node; "
                "try again, and use another RPC if it stays so"
            )
        return batches

    def endpoints(self, batches: Sequence[BatchInfo]) -> dict[str, str]:
        """Where the producers say that their blocks are."""
        nodes = self.reader.nodes_of([batch.node for batch in batches]) if batches else []
        return {info.node: info.endpoint for info in nodes}

    def spots(self, batches: Sequence[BatchInfo]) -> list[Spots]:
        """Of each batch the completions that this node recomputes in stage 1, and what it is asked about them.

        The next round's beacon draws them. Raises ChainUnavailable where it is not there: no window has such a batch.
        """
        drawn = {round_: self.reader.beacon(round_ + COMMIT_AFTER[1]) for round_ in {batch.round for batch in batches}}
        return [self._spots(batch, drawn[batch.round]) for batch in batches]

    def _spots(self, batch: BatchInfo, beacon: bytes | None) -> Spots:
        if beacon is None:
            raise ChainUnavailable(
                f"{self.reader.where} gives no beacon of round {batch.round + COMMIT_AFTER[1]}, which dealt batches of "
                "the round before to this node; try again"
            )
        seed, completions = self.seeds.seed(batch.round), batch.slots * self.spec.group_size
        return Spots.of(beacon, seed, batch.index, completions, self.spec.spot)

    def endpoints_of(self, nodes: Sequence[str]) -> list[str]:
        """Where these nodes say that their blocks are, each once; nothing of who is no node."""
        infos = self.reader.nodes_of(list(dict.fromkeys(nodes))) if nodes else []
        return [info.endpoint for info in infos if info.endpoint]

    def audit(
        self,
        batch: BatchInfo,
        endpoints: list[str],
        policy: "Policy",
        budget: FetchBudget | None = None,
        spots: Spots | None = None,
    ) -> tuple[Seen, AuditCounts]:
        """Fetch and check one batch. Without a budget, fetching takes as long as the store allows; without spots, the
        policy is run on every completion."""
        facts = self._facts(batch)
        with budget.store(self.store) if budget else nullcontext(self.store) as store:
            blocks = fetch_batch(store, self.spec, facts, endpoints, weights=self.model is not None)
        audit = Audit(facts, self.spec, blocks, self.worker, self.tokenizer, self.model, spots=spots)
        weights = self._pin(audit)
        results = check_batch(audit)
        counts = AuditCounts(
            drawn=batch.slots,
            fetched=batch.slots if (came := results[0].status == "pass") else 0,
            weights_bytes=weights,
            recomputed=_recomputed(audit, results),
            asked=(batch.node,),
            reached=(batch.node,) if came else (),
        )
        policy_check = self.model is not None
        if not usable(results, policy_check=policy_check):
            worst = next(result for result in results if not _passes(result, policy_check))
            sentence = f"batch {batch.index} of {batch.node}: {worst.check} {worst.status}: {worst.reason}"
            log.warning("not trained on: %s", sentence)
            counts += AuditCounts(failed=batch.slots, failures=(sentence,))
            missing = _missing(audit) if results[-1].status == "void" else ()
            hides = results[-1].check == "policy" and audit.recomputed is not None and audit.recomputed.hides
            return Seen(batch, results, [], _proof(audit, results), spots, (), missing, hides), counts
        groups = training_groups(audit, policy, external=True)
        counts += AuditCounts(checked=batch.slots, with_advantage=sum(map(has_advantage, groups)))
        answers = audit.recomputed.answers if audit.recomputed else ()
        return Seen(batch, results, groups, None, spots, answers), counts

    def judge(self, asked: Asked, budget: FetchBudget) -> CheckResult:
        """The check `answers`, once the batch is fetched; whatever is fetched stays, as in an audit."""
        facts = self._facts(asked.batch)
        with budget.store(self.store) as store:
            blocks = fetch_batch(store, self.spec, facts, asked.peers, weights=self.model is not None)
        audit = Audit(facts, self.spec, blocks, self.worker, self.tokenizer, self.model, spots=asked.spots)
        self._pin(audit)
        return check_answers(audit, asked.answers)

    def cost(self) -> Cost:
        """What running policies took so far, looks at others' answers as well."""
        return Cost() if self.model is None else self.model.cost

    def _facts(self, batch: BatchInfo) -> BatchFacts:
        beacon = self.reader.beacon(batch.round)
        if beacon is None:
            raise ChainUnavailable(
                f"{self.reader.where} gives no beacon of round {batch.round}, which has batches; try again"
            )
        return BatchFacts.of(self.reader.deployment, batch, beacon)

    def _pin(self, audit: Audit) -> int:
        """Blocks stay as long as anybody may want them; weights, which are large, while the batch is in the pool, and
        until nobody judges it any more: whoever has to may find that its node serves it no longer.

        Returns the weights' bytes.
        """
        at_hand = {digest: found for digest, found in audit.blocks.items() if isinstance(found, bytes)}
        weights = {digest for digest, _ in audit.weight_blocks() if digest in at_hand and digest not in audit.wanted}
        self.pins.keep(weights, audit.facts.round + max(self.spec.pool_rounds, SERVE_AFTER))
        self.pins.keep(at_hand.keys() - weights, audit.facts.round + KEEP_AFTER)
        return sum(len(at_hand[digest]) for digest in weights)


def _missing(audit: Audit) -> tuple[tuple[bytes, int], ...]:
    """What the batch is known to name and did not come."""
    weights = audit.weight_blocks() if audit.model is not None else []
    named = audit.wanted | dict(weights)
    return tuple((digest, limit) for digest, limit in named.items() if not isinstance(audit.blocks.get(digest), bytes))


def _proof(audit: Audit, results: list[CheckResult]) -> Proof | None:
    """Only a failed check can have a proof; what is not at hand has none."""
    if results[-1].status != "fail":
        return None
    try:
        return find_proof(audit)
    except ObjectError:
        return None


def _recomputed(audit: Audit, results: list[CheckResult]) -> int:
    """On how many completions the policy was run: none where a check before it failed, or its weights did not load."""
    last = results[-1]
    return len(audit.leaves) if last.check == "policy" and (last.status == "pass" or last.k is not None) else 0


def usable(results: list[CheckResult], *, policy_check: bool) -> bool:
    """Whether a batch may be trained on: every check passed. Without `policy_check`, that one may be unknown."""
    return all(_passes(result, policy_check) for result in results)


def _passes(result: CheckResult, policy_check: bool) -> bool:
    return result.status == "pass" or (result.status == "unknown" and result.check == "policy" and not policy_check)
