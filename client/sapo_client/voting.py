"""What a node says on chain about the batches it was dealt, and what follows (docs/protocol.md, A round's life).

In round c: commit on c−1 (stage 1), reveal on c−2, dispute what stage 1 let pass in c−3, commit and reveal stage 2 on
c−4 and c−5, settle and claim what became final. Every step looks first whether it was done, so it can be repeated.
"""

import logging
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from sapo_client.ballots import Ballot, BallotBox
from sapo_client.debts import debts_of
from sapo_client.fees import cost_of
from sapo_client.outbox import Outbox
from sapo_client.penalties import wrong_verdicts
from sapo_client.pool import Pool
from sapo_client.report import RoundReport
from sapo_verifier import protocol
from sapo_verifier.chain.audits import AuditsReader, BallotState, BatchState
from sapo_verifier.chain.contracts import Call
from sapo_verifier.chain.errors import coins
from sapo_verifier.chain.reader import BatchInfo, ChainReader, NodeState
from sapo_verifier.checks import Verdict, verdict
from sapo_verifier.cid import block_digest
from sapo_verifier.evidence import Outcome
from sapo_verifier.objects import MAX_FINDINGS, MAX_REASON, BatchVerdict, Finding, VerdictReport

log = logging.getLogger(__name__)

FINAL_AFTER = 6  # rounds
MOST_CLAIMS = 32  # rounds of one claim
PROVERS_PART = 4  # of a bond: the reward of a fraud proof
CALLERS_PART = 10  # of a penalty: the reward of settling it
COMMIT_AFTER = {1: 1, 2: 4}  # stage: rounds after the round that is judged
REVEAL_AFTER = {1: 2, 2: 5}


def report(
    round_: int, stage: int, voter: str, verdicts: Mapping[int, int], findings: Mapping[int, list[Outcome]]
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


def _finding(outcome: Outcome) -> Finding:
    assert outcome.status != "pass"
    return Finding(
        check=outcome.check,
        status=outcome.status,
        reason=outcome.reason[:MAX_REASON],
        slot=outcome.slot,
        k=outcome.k,
        t=outcome.t,
    )


@dataclass(frozen=True)
class Voting:
    """The votes of one node. keep(block): put it to IPFS."""

    reader: ChainReader
    audits: AuditsReader
    outbox: Outbox
    ballots: BallotBox
    voter: str
    pool: Pool
    report: RoundReport  # of the current round
    keep: Callable[[bytes], None]

    def play(self, current: int) -> None:
        """Everything that is due in round `current`, into the outbox."""
        self._pay_own_debts(current)
        for stage in (1, 2):
            self._commit(current, stage)
            self._reveal(current, stage)
        self._prove()
        self._dispute(current - 3)
        self._settle(current - FINAL_AFTER)
        self.ballots.drop_before(current - FINAL_AFTER - 2)

    def _pay_own_debts(self, current: int) -> None:
        """What this node promised and missed: until it is settled, and the bond full again, it can promise nothing."""
        fees = 0
        for debt in debts_of(self.reader, self.audits, self.voter, current):
            log.warning("settling what this node missed in round %d: %s coins", debt.round, coins(debt.fee))
            self._once(f"settle/{debt.round}/{current}", debt.call)
            fees += debt.fee
        bond = int(self.reader.deployment.spec.chain.bond, 16)
        info = self.reader.node_of(self.voter)
        missing = bond - max(0, info.bond - fees)
        if info.state is NodeState.REGISTERED and missing:
            log.warning("topping the bond up by %s coins after a fine", coins(missing))
            # Right after the debts, so that what is committed below finds a full bond.
            self._once(f"top-up/{current}", Call("nodes", "topUp", (self.voter,)), value=missing, deadline=current)

    def _commit(self, current: int, stage: int) -> None:
        voted = current - COMMIT_AFTER[stage]
        key = f"verdicts/{voted}/{stage}"
        if voted < 0 or self.outbox.call_of(key) is not None:
            return
        dealer = self.reader.beacon(current)
        window = self.pool.window(voted, stage)
        if dealer is None or not window:
            return
        ballot = self.ballots.get(voted, stage) or self._fill_in(voted, stage, window)
        if ballot is None:
            return
        acc = self.reader.round_at(voted).acc
        hash_ = protocol.verdicts_hash(
            dealer, acc, self.voter, stage, ballot.word, block_digest(ballot.report), ballot.salt
        )
        call = Call("audits", "commitVerdicts", (self.voter, voted, stage, hash_))
        self.outbox.put(key, call, deadline_round=current)

    def _fill_in(self, voted: int, stage: int, window: list[BatchInfo]) -> Ballot | None:
        """Verdicts on the window, stored; None if there is nothing to say."""
        judged = window if stage == 1 else [batch for batch in window if self.audits.outcome_of(batch.index).in_stage_2]
        findings = {seen.batch.index: seen.outcomes for seen in self.pool.look(judged, self.report)}
        verdicts = {batch.index: verdict(findings[batch.index]) for batch in judged}
        word = sum(verdicts.get(batch.index, Verdict.ABSTAIN) << (2 * j) for j, batch in enumerate(window))
        if word == 0:
            return None
        block = report(voted, stage, self.voter, verdicts, findings)
        return self.ballots.put(Ballot(voted, stage, word, block, secrets.token_bytes(32)))

    def _reveal(self, current: int, stage: int) -> None:
        voted = current - REVEAL_AFTER[stage]
        key = f"reveal/{voted}/{stage}"
        ballot = self.ballots.get(voted, stage)
        if ballot is None or self.outbox.call_of(key) is not None:
            return
        if self.audits.verdicts_of(self.voter, voted, stage)[0] is not BallotState.COMMITTED:
            return  # it never got on chain: the round is over, so it never will
        self.keep(ballot.report)
        call = Call(
            "audits",
            "revealVerdicts",
            (self.voter, voted, stage, ballot.word, block_digest(ballot.report), ballot.salt),
        )
        self.outbox.put(key, call, deadline_round=current)

    def _dispute(self, judged: int) -> None:
        """Batches that this node found false and stage 1 accepted all the same."""
        ballot = self.ballots.get(judged, 1)
        if ballot is None:
            return
        for j, batch in enumerate(self.pool.window(judged, 1)):
            rejected = (ballot.word >> (2 * j)) & 3 == Verdict.REJECT
            if not rejected or self.audits.outcome_of(batch.index).state is not BatchState.STANDING:
                continue
            key = f"dispute/{batch.index}"
            if self.outbox.call_of(key) is None:
                log.warning("disputing batch %d: stage 1 accepted what failed here", batch.index)
                call = Call("audits", "dispute", (batch.index,))
                self.outbox.put(key, call, deadline_round=judged + 3, value=self.audits.terms().dispute_bond)

    def _prove(self) -> None:
        """What anybody can prove needs no vote, and a quarter of the bond is the prover's."""
        for batch, proof in self.pool.proofs():
            state = self.audits.outcome_of(batch.index).state
            if state not in (BatchState.PENDING, BatchState.STANDING, BatchState.DISPUTED):
                continue
            if self._is_worth(proof.call, int(self.reader.deployment.spec.chain.bond, 16) // PROVERS_PART):
                log.warning("proving batch %d false: %s", batch.index, proof.reason)
                self._once(f"prove/{batch.index}", proof.call, deadline=batch.round + FINAL_AFTER - 1)

    def _settle(self, final: int) -> None:
        """What became final: the own dispute's bond, the slash of what was rejected, the own pay."""
        if final < 0:
            return
        for batch in self.pool.window(final, 1):
            outcome = self.audits.outcome_of(batch.index)
            if outcome.disputer == self.voter:
                self._once(f"close/{batch.index}", Call("audits", "closeDispute", (batch.index,)))
            if outcome.state is BatchState.REJECTED:
                self._once(f"slash/{batch.index}", Call("audits", "settle", (batch.node, final, batch.index)))
        self._punish(final)
        self._claim(final)

    def _punish(self, final: int) -> None:
        """Wrong verdicts on the batches that this node was dealt: without it nobody would pay for them."""
        dealt = {batch.index for stage in (1, 2) for batch in self.pool.window(final, stage)}
        outcomes = self.audits.outcomes_of(sorted(dealt))
        reward = self.audits.terms().wrong_verdict_penalty // CALLERS_PART
        for voter, index, call in wrong_verdicts(self.reader, final, outcomes):
            if voter != self.voter and self._is_worth(call, reward):
                self._once(f"settle/{final}/{index}/{voter}", call)

    def _claim(self, final: int) -> None:
        """The own pay, also of rounds in which this node was not running."""
        rounds = range(max(0, final - MOST_CLAIMS + 1), final + 1)
        ready = tuple(pay.round for pay in self.audits.payouts_of(self.voter, rounds) if pay.amount and not pay.claimed)
        if ready and self.audits.is_settled(self.voter):
            self._once(f"claim/{final}", Call("rewards", "claimMany", (self.voter, ready)))

    def _is_worth(self, call: Call, reward: int) -> bool:
        """Whether the contract takes the call, and its gas costs less than the reward (wei)."""
        cost = cost_of(self.reader, call, self.outbox.address)
        return cost is not None and cost < reward

    def _once(self, key: str, call: Call, *, value: int = 0, deadline: int | None = None) -> None:
        if self.outbox.call_of(key) is None:
            self.outbox.put(key, call, value=value, deadline_round=deadline)
