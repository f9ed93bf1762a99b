"""A batch, and a whole round: what this machine finds beside what the network decided, and what is paid."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from sapo_verifier.agreement import Agreed, agreement, is_expired, slashes_of, why_void
from sapo_verifier.audit import CheckResult
from sapo_verifier.chain.audits import AuditsReader, BatchOutcome, Votes
from sapo_verifier.chain.deployment import Deployment
from sapo_verifier.chain.errors import ChainUnavailable
from sapo_verifier.chain.events import between
from sapo_verifier.chain.pinned import PinnedReader, Source
from sapo_verifier.chain.reader import open_chain
from sapo_verifier.chain.urls import RPC
from sapo_verifier.checks import Verdict, verdict
from sapo_verifier.cid import cid
from sapo_verifier.errors import BAD, UNABLE, UnableError
from sapo_verifier.facts import BatchInfo
from sapo_verifier.objects import hex_digest
from sapo_verifier.pay import Pay, RoundPay, pay_of, schedule
from sapo_verifier.schedule import FINAL_AFTER
from sapo_verifier.showing import ShownSlot, slots_of
from sapo_verifier.verify import Verifier, open_verifier


@dataclass(frozen=True)
class BatchReport:
    """A batch: what the checks say here, what the network decided, and whether both agree.

    outcomes: of the checks, none where none was run. checks: what a voter with them would say, one of accept, reject,
    void, abstain; "expired" where nobody has to serve the blocks any more; "" without outcomes. why_void: by which rule
    the network's word is void, "" where it is another. pay: once the round is final.
    """

    index: int
    round: int
    node: str
    score: int  # the ones of the claim
    manifest: str  # CID, as the next one
    policy: str
    root: str
    block: int | None  # in which it was submitted
    transaction: str  # "" where that is not known
    outcomes: list[CheckResult]
    verdict: str  # what the outcomes come to, in words
    checks: str
    state: str  # the network's word, and the votes behind it
    final: bool
    stage_1: Votes
    in_stage_2: bool
    stage_2: Votes
    disputer: str  # "": nobody
    why_void: str
    agreed: Agreed
    words: str
    pay: Pay | None


@dataclass(frozen=True)
class Totals:
    """Of a round: what its pay is divided by and, once it is final, what is paid, in the token's smallest unit."""

    batches: int
    states: dict[str, int]
    pool: int
    claimed: int  # the ones that count
    per_one: int
    paid_verdicts: int  # the right ones
    per_verdict: int
    producers: int
    auditors: int
    locked: int


@dataclass(frozen=True)
class RoundReport:
    """All batches of a round."""

    source: Source
    round: int
    current: int
    final: bool
    final_in: int
    batches: list[BatchReport]
    totals: Totals

    def exit_status(self, *, strict: bool = False) -> int:
        """0 the network decided as this machine does; 1 it did not, or pays something else; 3 not known, or not final.

        strict: 1 also for what is bad and was rightly stopped.
        """
        return status_of(self.batches, strict=strict)


@dataclass(frozen=True)
class OneBatch(BatchReport):
    """One batch, with what a person can judge it by. why_not_shown: why there are no slots."""

    source: Source
    slots: list[ShownSlot]
    why_not_shown: str

    def exit_status(self, *, strict: bool = False) -> int:
        """As RoundReport's."""
        return status_of([self], strict=strict)


def status_of(batches: Sequence[BatchReport], *, strict: bool) -> int:
    """What a command about these batches ends with; see RoundReport.exit_status."""
    if any(each.agreed == "disagree" or (each.pay is not None and each.pay.differs) for each in batches):
        return BAD
    if strict and any(each.checks in ("reject", "void") for each in batches):
        return BAD
    return UNABLE if any(each.agreed == "unknown" for each in batches) else 0


def verify_round(
    round_: int,
    deployment: Deployment,
    *,
    rpc: str | Sequence[str] = RPC,
    gateways: Sequence[str] = (),
    base_folders: Sequence[Path] = (),
    model: bool = False,
    allow_private: bool = False,
) -> RoundReport:
    """Every batch of a round, checked and held against what the network decided and pays; the options are
    open_verifier's. Everything is read at one block.

    Raises UnableError for a round that has not begun or where the chain does not answer.
    """
    with open_chain(deployment, rpc) as reader:
        pinned = PinnedReader(reader)
        with open_verifier(
            pinned, gateways=gateways, base_folders=base_folders, model=model, allow_private=allow_private
        ) as verifier:
            return report_on_round(pinned, round_, verifier)


def report_on_round(reader: PinnedReader, round_: int, verifier: Verifier | None) -> RoundReport:
    """As verify_round. verifier: over the same reader; None: only what the chain says."""
    reader.refuse_later(round_)
    current = reader.current_round()
    batches = reader.batches_of(round_)
    facts = _facts(reader, round_, batches)
    found = [None if verifier is None else _checked(verifier, batch) for batch in batches]
    reports = [_report(reader, facts, i, results, current) for i, results in enumerate(found)]
    reader.check_same()
    return RoundReport(
        source=reader.source,
        round=round_,
        current=current,
        final=round_ + FINAL_AFTER <= current,
        final_in=round_ + FINAL_AFTER,
        batches=reports,
        totals=_totals(reader, round_, facts),
    )


def _checked(verifier: Verifier, batch: BatchInfo) -> list[CheckResult]:
    """What is not to be had of the chain for one batch keeps nothing of what was found of others."""
    try:
        return verifier.verify(batch).results
    except ChainUnavailable as error:
        return [CheckResult("available", "unknown", str(error))]


def _totals(reader: PinnedReader, round_: int, facts: "_Facts") -> Totals:
    states = dict(Counter(outcome.state.value for outcome in facts.outcomes))
    pay = facts.pay
    if pay is None:
        return Totals(len(facts.batches), states, schedule(reader.deployment.spec.chain, round_), 0, 0, 0, 0, 0, 0, 0)
    producers, auditors = sum(each.producer for each in pay.pays), sum(each.auditor for each in pay.pays)
    return Totals(
        batches=len(facts.batches),
        states=states,
        pool=pay.pool,
        claimed=pay.claimed,
        per_one=pay.per_one,
        paid_verdicts=pay.paid_verdicts,
        per_verdict=pay.per_verdict,
        producers=producers,
        auditors=auditors,
        locked=pay.pool - producers - auditors,
    )


def report_on_batch(verifier: Verifier, index: int) -> OneBatch:
    """One batch, fetched, checked, and held against what the network decided. verifier: over a PinnedReader."""
    reader = verifier.reader
    assert isinstance(reader, PinnedReader)
    batch = verifier.batch(index)
    facts = _facts(reader, batch.round, reader.batches_of(batch.round))
    audit = verifier.audit(batch)
    results = verifier.check(audit)
    slots: list[ShownSlot] = []
    why_not = ""
    try:
        slots = slots_of(audit)
    except UnableError as error:
        why_not = str(error)
    place = [each.index for each in facts.batches].index(index)
    report = _report(reader, facts, place, results, reader.current_round())
    reader.check_same()
    return OneBatch(**vars(report), source=reader.source, slots=slots, why_not_shown=why_not)


@dataclass(frozen=True)
class _Facts:
    """What the chain says about a round's batches, in their order."""

    batches: list[BatchInfo]
    outcomes: list[BatchOutcome]
    pay: RoundPay | None
    slashes: dict[int, int]
    submitted: dict[int, tuple[int, bytes]]  # by index: block and transaction


def _facts(reader: PinnedReader, round_: int, batches: list[BatchInfo]) -> _Facts:
    if not batches:
        return _Facts([], [], None, {}, {})
    head, audits = reader.block_number(), AuditsReader(reader)
    outcomes = audits.outcomes_of([batch.index for batch in batches])
    final = audits.totals(round_).is_final
    pay = pay_of(reader, round_, batches, outcomes, head) if final else None
    void = [batch for batch, outcome in zip(batches, outcomes, strict=True) if outcome.state.value == "void"]
    slashes = slashes_of(reader, void, head) if void else {}
    last = min(head, reader.first_block_of(round_ + 1) - 1)
    submitted = {
        event.args["index"]: (event.block, event.transaction)
        for event in between(reader, reader.first_block_of(round_), last)
        if event.name == "BatchSubmitted"
    }
    return _Facts(batches, outcomes, pay, slashes, submitted)


def _report(
    reader: PinnedReader, facts: _Facts, place: int, results: list[CheckResult] | None, current: int
) -> BatchReport:
    batch, outcome = facts.batches[place], facts.outcomes[place]
    void = why_void(outcome, reader.deployment.spec.chain, len(facts.batches), facts.slashes.get(batch.index))
    both = agreement(batch, outcome, void, results, current)
    mine = "" if results is None else verdict(results).name.lower()
    if (
        results is not None
        and verdict(results) in (Verdict.VOID, Verdict.ABSTAIN)
        and is_expired(batch, current, results)
    ):
        mine = "expired"
    block, transaction = facts.submitted.get(batch.index, (None, b""))
    return BatchReport(
        index=batch.index,
        round=batch.round,
        node=batch.node,
        score=batch.claim.bit_count(),
        manifest=cid(batch.manifest),
        policy=cid(batch.policy),
        root=hex_digest(batch.root),
        block=block,
        transaction=hex_digest(transaction) if transaction else "",
        outcomes=results or [],
        verdict=in_words(results) if results else "",
        checks=mine,
        state=outcome.state.value,
        final=outcome.is_final,
        stage_1=outcome.stage_1,
        in_stage_2=outcome.in_stage_2,
        stage_2=outcome.stage_2,
        disputer=outcome.disputer or "",
        why_void=void,
        agreed=both.agreed,
        words=both.words,
        pay=None if facts.pay is None else facts.pay.pays[place],
    )


def in_words(results: Sequence[CheckResult]) -> str:
    """What the results come to."""
    statuses = [result.status for result in results]
    if "fail" in statuses:
        return f"the check {results[-1].check} failed"
    if "void" in statuses:
        return f"nothing can be said: {results[-1].reason}"
    unknown = [result.check for result in results if result.status == "unknown"]
    if unknown == ["available"]:
        return f"nothing can be said from here: {results[-1].reason}"
    return "nothing failed" + (f"; not checked here: {', '.join(unknown)}" if unknown else "")
