"""What a node says on chain about the batches it was dealt, and what follows (docs/protocol.md, A round's life).

In round c: reveal on c−2 and c−5, pay what is owed, claim what became final, commit on c−1 (stage 1), look again at
what stage 1 let pass in c−3 and dispute what is false or gone, commit stage 2 on c−4. Every step looks first whether it
was done, so it can be repeated; what takes longer (looking again, waiting for a turn) goes on in `go_on`.
"""

import logging
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from sapo_client.batches.pool import Pool
from sapo_client.batches.presence import Presence, Watch, Wish
from sapo_client.duties.ballots import Ballot, BallotBox, Deal
from sapo_client.duties.debts import debts_of
from sapo_client.duties.settling import Settler
from sapo_client.state.report import RoundReport
from sapo_client.transactions.outbox import Outbox
from sapo_client.transactions.turns import Turns, put_anew
from sapo_verifier.audit import CheckResult
from sapo_verifier.chain.audits import AuditsReader, BallotState, BatchState
from sapo_verifier.chain.contracts import Call
from sapo_verifier.chain.errors import coins
from sapo_verifier.chain.reader import BatchInfo, ChainReader, NodeInfo, NodeState
from sapo_verifier.checks import Verdict, verdict
from sapo_verifier.cid import block_digest
from sapo_verifier.objects import MAX_FINDING_REASON, MAX_FINDINGS, BatchVerdict, Finding, VerdictReport
from sapo_verifier.schedule import COMMIT_AFTER, DISPUTE_AFTER, FINAL_AFTER, MOST_CLAIMS, REVEAL_AFTER

log = logging.getLogger(__name__)

FORBEAR = 50  # rounds after a bond that was lost for what came back: no other one is risked for what is gone


def report(
    round_: int, stage: int, voter: str, verdicts: Mapping[int, int], findings: Mapping[int, list[CheckResult]]
) -> bytes:
    """The report block: per batch its verdict and the checks that did not pass."""
    batches = [
        BatchVerdict(
            index=index, verdict=verdicts[index], findings=[_finding(found) for found in failed[-MAX_FINDINGS:]]
        )
        for index in sorted(verdicts)
        for failed in [[outcome for outcome in findings[index] if outcome.status != "pass"]]
    ]
    return VerdictReport(round=round_, stage=stage, voter=voter, batches=batches).encode()


def _finding(outcome: CheckResult) -> Finding:
    assert outcome.status != "pass"
    return Finding(
        check=outcome.check,
        status=outcome.status,
        reason=outcome.reason[:MAX_FINDING_REASON],
        slot=outcome.slot,
        k=outcome.k,
        t=outcome.t,
    )


@dataclass
class Voting:
    """The votes of one node in one round. keep(block): put it to IPFS. say(words): to the operator, once."""

    reader: ChainReader
    audits: AuditsReader
    outbox: Outbox
    ballots: BallotBox
    turns: Turns
    settler: Settler
    presence: Presence
    voter: str
    pool: Pool
    report: RoundReport  # of the current round
    keep: Callable[[bytes], None]
    say: Callable[[str], None]
    _later: list[tuple[Watch, Callable[[Watch], None]]] = field(default_factory=list)

    def play(self, current: int) -> None:
        """Everything that is due in round `current`, into the outbox or into line."""
        info = self.reader.node_of(self.voter)
        bonded = info.state in (NodeState.REGISTERED, NodeState.EXITING)
        if bonded:
            for stage in (1, 2):
                self._reveal(current, stage)
            self._close_disputes(current - FINAL_AFTER)
        self._claim(current - FINAL_AFTER)
        if bonded:
            owed = self._pay_own_debts(current)
            if self._is_full(info, owed, current):
                for stage in (1, 2):
                    self._commit(current, stage)
            self._denounce(current)
        self.ballots.drop_before(current - FINAL_AFTER - 2)
        self.go_on()

    def go_on(self) -> None:
        """One poll: looks again where it is time to, and does what follows."""
        if not self._later:
            return
        block = self.reader.block_number()
        for entry in list(self._later):
            watch, then = entry
            watch.step(block)
            if watch.finished:
                self._later.remove(entry)
                then(watch)

    @property
    def finished(self) -> bool:
        """Whether nothing is waited for any more."""
        return not self._later

    # -- what the node owes --

    def _reveal(self, current: int, stage: int) -> None:
        voted = current - REVEAL_AFTER[stage]
        committed = self.audits.commitment_of(self.voter, voted, stage) if voted >= 0 else None
        if committed is None:
            return  # nothing got on chain, and now it cannot; or it is revealed
        stored = self.ballots.all_of(voted, stage)
        now = self._deal(voted, stage)
        ballot = next((b for b in stored if b.deal == now and b.hash(self.voter) == committed), None)
        if ballot is None:
            fee = coins(self.audits.terms().missed_reveal_fee)
            others = "was made for another history of the chain" if stored else "is of no ballot that is here"
            self.say(
                f"the verdicts that this node committed on round {voted} in stage {stage} cannot be revealed: what is "
                f"on chain {others}. That costs {fee} coins of the bond"
            )
            return
        self.keep(ballot.report)
        digest = block_digest(ballot.report)
        call = Call("audits", "revealVerdicts", (self.voter, voted, stage, ballot.word, digest, ballot.salt))
        beacon = (voted + COMMIT_AFTER[stage], ballot.deal.beacon)
        put_anew(self.outbox, f"reveal/{voted}/{stage}", call, deadline_round=current, beacon=beacon)

    def _pay_own_debts(self, current: int) -> int:
        """What this node promised and missed: until it is settled, it can promise nothing. Returns the fees in wei."""
        debts = debts_of(self.reader, self.audits, self.voter, current)
        for debt in debts:
            log.warning("settling what this node missed in round %d: %s coins", debt.round, coins(debt.fee))
            self._once(f"settle/{debt.round}/{current}", debt.call)
        return sum(debt.fee for debt in debts)

    def _is_full(self, info: NodeInfo, owed: int, current: int) -> bool:
        """Whether the bond is full, or will be before what is put next: only then the node can promise anything."""
        if info.state is not NodeState.REGISTERED:
            return False
        missing = int(self.reader.deployment.spec.chain.bond, 16) - max(0, info.bond - owed)
        if not missing:
            return True
        held = self.reader.balance(self.outbox.address)
        if held <= missing:
            self.say(
                f"the bond is short of {coins(missing)} coins, and the account {self.outbox.address} holds only "
                f"{coins(held)}: send it {coins(missing - held)} and some more for gas. Until then this node promises "
                "nothing, and only does what it owes"
            )
            return False
        log.warning("topping the bond up by %s coins after a fine", coins(missing))
        self._once(f"top-up/{current}", Call("nodes", "topUp", (self.voter,)), value=missing, deadline=current)
        return True

    # -- verdicts --

    def _deal(self, voted: int, stage: int) -> Deal | None:
        """What the chain, as it is now, dealt on a round; None where there is nothing."""
        beacon = self.reader.beacon(voted + COMMIT_AFTER[stage])
        info = self.reader.round_at(voted)
        return None if beacon is None or info.count == 0 else Deal(voted, stage, beacon, info.acc)

    def _commit(self, current: int, stage: int) -> None:
        voted = current - COMMIT_AFTER[stage]
        deal = self._deal(voted, stage) if voted >= 0 else None
        if deal is None:
            return
        if self.ballots.get(deal) is not None:
            self._send(deal)
            return
        window = self.pool.window(voted, stage)
        judged = window if stage == 1 else [batch for batch in window if self.audits.outcome_of(batch.index).in_stage_2]
        if judged:
            self._judge(deal, window, judged)

    def _judge(self, deal: Deal, window: Sequence[BatchInfo], judged: Sequence[BatchInfo]) -> None:
        """Verdicts on a window. In stage 2 a batch that passed must be there still, or again, and one that could not be
        had may be there now."""
        looked = self.pool.look(judged, self.report, again=deal.stage == 2)
        findings = {seen.batch.index: seen.outcomes for seen in looked}
        if deal.stage == 1:
            self._cast(deal, window, findings)
            return
        passed = [batch for batch in judged if verdict(findings[batch.index]) == Verdict.ACCEPT]

        def then(watch: Watch) -> None:
            lost = {wish.batch.index: self._is_gone(wish.batch, watch) for wish in watch.unserved}
            self._cast(deal, window, findings | lost)

        wishes = self.presence.drawn(passed, every_kind=True)
        controls = self.presence.drawn([batch for batch in window if batch not in judged], every_kind=False)
        self._watch(wishes, controls, deal.round + COMMIT_AFTER[2], then)

    def _is_gone(self, batch: BatchInfo, watch: Watch) -> list[CheckResult]:
        reason = f"it was fetched before, and its producer serves it no longer: asked {watch.looks} times"
        log.warning("batch %d: %s", batch.index, reason)
        return [CheckResult("available", "void" if watch.is_online() else "unknown", reason)]

    def _cast(self, deal: Deal, window: Sequence[BatchInfo], findings: Mapping[int, list[CheckResult]]) -> None:
        self._fill_in(deal, window, {index: verdict(found) for index, found in findings.items()}, findings)
        self._send(deal)

    def _fill_in(
        self,
        deal: Deal,
        window: Sequence[BatchInfo],
        verdicts: Mapping[int, int],
        findings: Mapping[int, list[CheckResult]],
    ) -> None:
        """The ballot, stored; none where there is nothing to say."""
        word = sum(verdicts.get(batch.index, Verdict.ABSTAIN) << (2 * j) for j, batch in enumerate(window))
        if word:
            block = report(deal.round, deal.stage, self.voter, verdicts, findings)
            self.ballots.put(Ballot(deal, word, block, secrets.token_bytes(32)))

    def _send(self, deal: Deal) -> None:
        """Commit to the ballot of a deal, unless that is done. The contract takes one commitment, and keeps the first:
        one that a reorganization made worthless is not sent again, but the network may have mined it all the same."""
        ballot = self.ballots.get(deal)
        if ballot is None or self.audits.verdicts_of(self.voter, deal.round, deal.stage)[0] is BallotState.REVEALED:
            return
        hash_ = ballot.hash(self.voter)
        committed = self.audits.commitment_of(self.voter, deal.round, deal.stage)
        if committed is not None:
            if committed != hash_:
                self.say(
                    f"round {deal.round}, stage {deal.stage}: verdicts for another history of the chain are committed "
                    "already, so those for this one cannot be"
                )
            return
        current = deal.round + COMMIT_AFTER[deal.stage]
        call = Call("audits", "commitVerdicts", (self.voter, deal.round, deal.stage, hash_))
        key = f"verdicts/{deal.round}/{deal.stage}"
        put_anew(self.outbox, key, call, deadline_round=current, beacon=(current, deal.beacon))

    # -- what others did --

    def _denounce(self, current: int) -> None:
        """What stage 1 let pass and should not have; what can be proven; what is to be settled."""
        self._dispute(current - DISPUTE_AFTER)
        self.settler.look(current)

    def _dispute(self, judged: int) -> None:
        """Batches that stage 1 accepted, and that this node found false, or that it accepted and are gone by now."""
        deal = self._deal(judged, 1) if judged >= 0 else None
        ballot = self.ballots.get(deal) if deal else None
        if ballot is None:
            return
        window = self.pool.window(judged, 1)
        said = {batch.index: (ballot.word >> (2 * j)) & 3 for j, batch in enumerate(window)}
        states = {outcome.index: outcome.state for outcome in self.audits.outcomes_of(sorted(said))}
        standing = [batch for batch in window if states[batch.index] is BatchState.STANDING]
        for batch in standing:
            if said[batch.index] == Verdict.REJECT:
                log.warning("batch %d is to be disputed: stage 1 accepted what failed here", batch.index)
                self._offer_dispute(f"dispute/{judged}/{batch.index}", batch, lambda: True)
        accepted = [batch for batch in standing if said[batch.index] == Verdict.ACCEPT]
        wishes = self.presence.drawn(accepted, every_kind=False)
        self._watch(wishes, [], judged + DISPUTE_AFTER, self._dispute_gone)

    def _dispute_gone(self, watch: Watch) -> None:
        """Its producer owes the blocks until the round is final; the first in line disputes, and risks a bond."""
        if watch.unserved and not watch.is_online():
            self.say("no producer of a window could be reached: is this machine's own connection working?")
            return
        for wish in watch.unserved:
            batch = wish.batch
            log.warning("batch %d is to be disputed: its producer serves it no longer", batch.index)

            def still(wish: Wish = wish) -> bool:
                return self._may_risk(wish.batch.round + DISPUTE_AFTER) and bool(self.presence.unserved([wish]))

            self._offer_dispute(f"absent/{batch.round}/{batch.index}", batch, still)

    def _offer_dispute(self, key: str, batch: BatchInfo, still: Callable[[], bool]) -> None:
        def needed() -> bool:
            return self.audits.outcome_of(batch.index).state is BatchState.STANDING and still()

        crowd = min(self.reader.round_at(batch.round).count, self.reader.deployment.spec.chain.draws)
        call, last = Call("audits", "dispute", (batch.index,)), batch.round + DISPUTE_AFTER
        bond = self.audits.terms().dispute_bond
        self.turns.offer(key, call, crowd=crowd, needed=needed, value=bond, deadline_round=last)

    def _may_risk(self, current: int) -> bool:
        """Whether no bond of an earlier dispute about what was gone is open, or was lost a short time ago.

        Who comes back in stage 2 wins the disputer's bond for nobody: so never more than one is at stake.
        """
        for round_, index in self._disputes("absent/"):
            if round_ > current - FINAL_AFTER:
                return False
            if round_ > current - FORBEAR:
                outcome = self.audits.outcome_of(index)
                doubts = outcome.stage_2.rejects + outcome.stage_2.voids
                if outcome.state is BatchState.ACCEPTED or (outcome.state is BatchState.VOID and doubts < 2):
                    return False
        return True

    def _disputes(self, prefix: str) -> list[tuple[int, int]]:
        """(round, index) of the disputes that this node has sent or is about to send."""
        keys = [key for key in self.outbox.keys(prefix) if self.outbox.state(key).status not in ("failed", "expired")]
        return [(int(key.split("/")[1]), int(key.split("/")[2])) for key in keys]

    # -- what is earned --

    def _close_disputes(self, final: int) -> None:
        """The bonds of own disputes, also of rounds in which this node was not running."""
        disputes = [*self._disputes("dispute/"), *self._disputes("absent/")]
        own = {index for round_, index in disputes if round_ > final - MOST_CLAIMS}
        if final >= 0:
            own |= {batch.index for batch in self.pool.window(final, 1)}
        for outcome in self.audits.outcomes_of(sorted(own)):
            if outcome.is_final and outcome.disputer == self.voter and self._round_of(outcome.index) <= final:
                self._once(f"close/{outcome.index}", Call("audits", "closeDispute", (outcome.index,)))

    def _round_of(self, index: int) -> int:
        return self.reader.batch_at(index).round

    def _claim(self, final: int) -> None:
        """The own pay, also of rounds in which this node was not running."""
        rounds = range(max(0, final - MOST_CLAIMS + 1), final + 1)
        ready = tuple(pay.round for pay in self.audits.payouts_of(self.voter, rounds) if pay.amount and not pay.claimed)
        if ready and self.audits.is_settled(self.voter):
            self._once(f"claim/{final}", Call("rewards", "claimMany", (self.voter, ready)))

    # -- small things --

    def _watch(
        self,
        wishes: Sequence[Wish],
        controls: Sequence[Wish],
        current: int,
        then: Callable[[Watch], None],
    ) -> None:
        """Ask for the blocks in this round, and then go on."""
        blocks = self.reader.deployment.spec.chain.round_blocks
        end = self.reader.first_block_of(current) + blocks * 2 // 3  # what follows has to be mined in time
        self._later.append((Watch(self.presence, wishes, controls, end), then))

    def _once(self, key: str, call: Call, *, value: int = 0, deadline: int | None = None) -> None:
        if self.outbox.call_of(key) is None:
            self.outbox.put(key, call, value=value, deadline_round=deadline)
