"""A node's verdicts on the batches that it was dealt: found, committed to, and revealed a round later."""

import logging
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from sapo_client.batches.auditing import AuditCounts, Auditor
from sapo_client.batches.kept import KeptBlocks
from sapo_client.batches.pool import Pool
from sapo_client.batches.presence import Presence, Watch
from sapo_client.batches.seeds import Seeds
from sapo_client.duties.actor import Actor
from sapo_client.duties.answers import Answers
from sapo_client.duties.ballots import Ballot, BallotBox, Deal, deal_of
from sapo_client.duties.cases import Cases
from sapo_client.duties.promises import Promise
from sapo_client.duties.watches import Watches
from sapo_client.transactions.turns import put_anew
from sapo_verifier.audit import CheckResult
from sapo_verifier.chain.audits import BallotState
from sapo_verifier.chain.contracts import Call
from sapo_verifier.chain.errors import coins
from sapo_verifier.checks import Verdict, verdict
from sapo_verifier.facts import BatchInfo
from sapo_verifier.objects import MAX_FINDING_REASON, MAX_FINDINGS, BatchVerdict, Finding, VerdictReport
from sapo_verifier.schedule import COMMIT_AFTER, REVEAL_AFTER
from sapo_verifier.spots import encode_answers

log = logging.getLogger(__name__)

Found = Mapping[int, list[CheckResult]]  # by the batch's index
Told = Mapping[int, Sequence[int]]  # by the batch's index: to the questions of its spots, in the draw's order
NOTHING_ASKED: Told = MappingProxyType({})


@dataclass
class Verdicts:
    """Of one node."""

    actor: Actor
    ballots: BallotBox
    auditor: Auditor
    pool: Pool
    presence: Presence
    watches: Watches
    blocks: KeptBlocks
    seeds: Seeds
    answers: Answers

    def reveal(self, current: int, stage: int) -> None:
        """What was committed in an earlier round is revealed in this one, or it costs a fee."""
        voted = current - REVEAL_AFTER[stage]
        committed = self.actor.audits.commitment_of(self.actor.node, voted, stage) if voted >= 0 else None
        if committed is None:
            return  # nothing got on chain, and now it cannot; or it is revealed
        stored = self.ballots.all_of(voted, stage)
        now = deal_of(self.actor.reader, voted, stage)
        ballot = next((b for b in stored if b.deal == now and b.hash(self.actor.node) == committed), None)
        if ballot is None:
            fee = coins(self.actor.audits.terms().missed_reveal_fee)
            self.actor.say(
                f"the verdicts that this node committed on round {voted} in stage {stage} cannot be revealed: what is "
                f"on chain is of no ballot that is here. That costs {fee} coins of the bond"
            )
            return
        self.blocks.keep([ballot.report], current)
        call = ballot.reveal(self.actor.node)
        beacon = (voted + COMMIT_AFTER[stage], ballot.deal.beacon)
        put_anew(self.actor.outbox, f"reveal/{voted}/{stage}", call, deadline_round=current, beacon=beacon)

    def commit(self, current: int, stage: int) -> AuditCounts:
        """Judge what was dealt to this node in this round, and commit to it; what was audited now for it."""
        voted = current - COMMIT_AFTER[stage]
        deal = deal_of(self.actor.reader, voted, stage) if voted >= 0 else None
        if deal is None:
            return AuditCounts()
        if self.ballots.get(deal) is not None:
            self.send(deal)
            return AuditCounts()
        if self.actor.reader.batch_of(self.actor.node, voted) is None:
            return AuditCounts()  # only who has a batch in the round judges it
        if stage == 1 and (words := self.seeds.why_none(voted)):
            self.actor.say(f"this node commits no verdicts on round {voted} in stage 1: {words}")
            return AuditCounts()
        window = self.auditor.window(voted, stage)
        judged = window if stage == 1 else [b for b in window if self.actor.audits.outcome_of(b.index).in_stage_2]
        return self.judge(deal, window, judged) if judged else AuditCounts()

    def promise(self, current: int, stage: int) -> Promise:
        """The commitment of this round, to be sent again where the contract refuses it for something that passes."""
        voted = current - COMMIT_AFTER[stage]

        def again() -> None:
            if voted >= 0 and (deal := deal_of(self.actor.reader, voted, stage)) is not None:
                self.send(deal)

        return Promise(verdicts_key(voted, stage), current, again)

    def judge(self, deal: Deal, window: Sequence[BatchInfo], judged: Sequence[BatchInfo]) -> AuditCounts:
        """Verdicts on a window."""
        if deal.stage == 2:
            return self._judge_again(deal, window, judged)
        looked, counts = self.pool.look(judged)
        answers = {seen.batch.index: seen.answers for seen in looked}
        self._cast(deal, window, {seen.batch.index: seen.results for seen in looked}, answers)
        return counts

    def _judge_again(self, deal: Deal, window: Sequence[BatchInfo], judged: Sequence[BatchInfo]) -> AuditCounts:
        """In stage 2 a batch that passed must be there still, or again, and one that could not be had may be there now.
        What its node answered about others is judged where somebody doubts it, and the worst decides."""
        cases = Cases.read(self.actor, deal.round, judged)
        itself = [case.batch for case in cases.cases if case.itself]
        looked, counts = self.pool.look(itself, again=True, holders=cases.holders)
        found = {batch.index: list[CheckResult]() for batch in judged}
        found |= {seen.batch.index: list(seen.results) for seen in looked}
        questions = [(case.batch.index, question) for case in cases.cases for question in case.questions]
        answered = self.answers.judge(cases.testimony, [question for _, question in questions])
        for (index, _), result in zip(questions, answered, strict=True):
            found[index].append(result)
        passed = [batch for batch in itself if verdict(found[batch.index]) == Verdict.ACCEPT]

        def then(watch: Watch) -> None:
            lost = {wish.batch.index: _gone(wish.batch, watch) for wish in watch.unserved}
            self._cast(deal, window, found | lost)

        wishes = self.presence.drawn(passed, every_kind=True, holders=cases.holders)
        controls = self.presence.drawn([batch for batch in window if batch not in judged], every_kind=False)
        self.watches.ask(wishes, controls, deal.round + COMMIT_AFTER[2], then)
        return counts

    def _cast(self, deal: Deal, window: Sequence[BatchInfo], found: Found, answers: Told = NOTHING_ASKED) -> None:
        self.fill_in(deal, window, {index: verdict(results) for index, results in found.items()}, found, answers)
        self.send(deal)

    def fill_in(
        self,
        deal: Deal,
        window: Sequence[BatchInfo],
        verdicts: Mapping[int, int],
        found: Found,
        answers: Told = NOTHING_ASKED,
    ) -> None:
        """The ballot, stored; none where there is nothing to say. Only accepts are asked about, and in stage 1 only."""
        word = sum(verdicts.get(batch.index, Verdict.ABSTAIN) << (2 * j) for j, batch in enumerate(window))
        if word:
            block = report_block(deal.round, deal.stage, self.actor.node, verdicts, found)
            salt = self.seeds.seed(deal.round) if deal.stage == 1 else secrets.token_bytes(32)
            accepted = [batch.index for batch in window if verdicts.get(batch.index) == Verdict.ACCEPT]
            told = encode_answers([token for index in accepted for token in answers.get(index, ())])
            self.ballots.put(Ballot(deal, word, block, salt, told))

    def send(self, deal: Deal) -> None:
        """Commit to the ballot of a deal, unless that is done. The contract takes one commitment, and keeps the first;
        one that was made for another history of the chain it refuses."""
        ballot, node, audits = self.ballots.get(deal), self.actor.node, self.actor.audits
        if ballot is None or audits.verdicts_of(node, deal.round, deal.stage)[0] is BallotState.REVEALED:
            return
        hash_ = ballot.hash(node)
        committed = audits.commitment_of(node, deal.round, deal.stage)
        if committed is not None:
            if committed != hash_:
                self.actor.say(
                    f"round {deal.round}, stage {deal.stage}: verdicts of no ballot that is here are committed "
                    "already, so this node's cannot be"
                )
            return
        current = deal.round + COMMIT_AFTER[deal.stage]
        if not self.actor.may_promise(current):
            return  # also what was looked at again before a pause began
        call = Call("audits", "commitVerdicts", (node, deal.round, deal.stage, deal.beacon, deal.acc, hash_))
        key = verdicts_key(deal.round, deal.stage)
        put_anew(self.actor.outbox, key, call, deadline_round=current, beacon=(current, deal.beacon))


def verdicts_key(round_: int, stage: int) -> str:
    """A commitment's name in the outbox."""
    return f"verdicts/{round_}/{stage}"


def report_block(round_: int, stage: int, voter: str, verdicts: Mapping[int, int], found: Found) -> bytes:
    """The report block: per batch its verdict and the checks that did not pass, those that failed last."""
    batches = [
        BatchVerdict(
            index=index, verdict=verdicts[index], findings=[_finding(result) for result in worst[-MAX_FINDINGS:]]
        )
        for index in sorted(verdicts)
        for worst in [sorted((r for r in found[index] if r.status != "pass"), key=lambda r: r.status == "fail")]
    ]
    return VerdictReport(round=round_, stage=stage, voter=voter, batches=batches).encode()


def _finding(result: CheckResult) -> Finding:
    assert result.status != "pass"
    return Finding(
        check=result.check,
        status=result.status,
        reason=result.reason[:MAX_FINDING_REASON],
        slot=result.slot,
        k=result.k,
        t=result.t,
    )


def _gone(batch: BatchInfo, watch: Watch) -> list[CheckResult]:
    reason = (
        f"it was fetched before, and its producer serves it no longer, nor who looked at it: asked {watch.looks} times"
    )
    log.warning("batch %d: %s", batch.index, reason)
    return [CheckResult("available", "void" if watch.is_online() else "unknown", reason)]
