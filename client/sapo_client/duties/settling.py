"""What anybody may do about others: prove what is false, slash what was rejected, settle what is owed for its tenth.

All nodes see the same things, so each waits for its turn (turns.py), and asks the chain again before it sends.
"""

import logging
from dataclasses import dataclass, field

from sapo_client.batches.auditing import Auditor
from sapo_client.batches.pool import Pool
from sapo_client.duties.actor import Actor
from sapo_client.duties.debts import debts_of, would_pass
from sapo_client.duties.penalties import wrong_verdicts
from sapo_client.transactions.questions import cost_of
from sapo_client.transactions.turns import put_anew
from sapo_verifier.chain.audits import BatchOutcome, BatchState
from sapo_verifier.chain.contracts import Call
from sapo_verifier.chain.reader import NodeState
from sapo_verifier.facts import BatchInfo
from sapo_verifier.schedule import CALLERS_PART, FINAL_AFTER, PROVERS_PART, window_size

log = logging.getLogger(__name__)

LOOK_BACK = 3  # rounds that became final last: a bond outlives its last batch by no more
MOST_DEBTORS = 4  # that are looked into in one round; the others have other watchers, or their turn in the next
OPEN = (BatchState.PENDING, BatchState.STANDING, BatchState.DISPUTED)


@dataclass
class Settler:
    """One node's part in it. Lives as long as the node: rounds that are done with are not looked at again."""

    actor: Actor
    auditor: Auditor
    pool: Pool
    _clean: set[int] = field(default_factory=set)  # final rounds in which nothing is left to do

    def look(self, current: int) -> None:
        """Everything that is due in round `current` waits for this node's turn afterwards."""
        self._prove()
        final = current - FINAL_AFTER
        for round_ in range(max(0, final - LOOK_BACK + 1), final + 1):
            if round_ not in self._clean and not self._settle_round(round_):
                self._clean.add(round_)
        self._clean = {round_ for round_ in self._clean if round_ > final - LOOK_BACK}
        self._settle_debts(current)

    def _prove(self) -> None:
        """What anybody can prove needs no vote, and a tenth of the bond is the prover's."""
        for batch, proof in self.pool.proofs():
            reward = self._reward_of_proof(self.actor.audits.outcome_of(batch.index))
            if reward and self._is_worth(proof.call, reward):
                log.warning("batch %d can be proven false: %s", batch.index, proof.reason)
                last = batch.round + FINAL_AFTER - 1
                self._offer(f"prove/{batch.index}", proof.call, batch.round, reward, stage=1, last=last)

    def _reward_of_proof(self, outcome: BatchOutcome) -> int:
        """Wei. Where the node was slashed for another batch, nothing of its bond is left, but whoever accepted this one
        owes a penalty once it is proven false, and a tenth of that is for who settles it."""
        if outcome.state in OPEN:
            return int(self.actor.reader.deployment.spec.chain.bond, 16) // PROVERS_PART
        if outcome.state is not BatchState.VOID or outcome.is_final:
            return 0
        accepts = outcome.stage_1.accepts + outcome.stage_2.accepts
        return accepts * (self.actor.audits.terms().wrong_verdict_penalty // CALLERS_PART)

    def _settle_round(self, final: int) -> bool:
        """Slashes and wrong verdicts of a round, on batches that this node was dealt. Whether anything is left."""
        dealt: dict[int, BatchInfo] = {}
        for stage in (1, 2):
            dealt |= {batch.index: batch for batch in self.auditor.window(final, stage)}
        outcomes = self.actor.audits.outcomes_of(sorted(dealt))
        left = self._punish(final, outcomes)
        for outcome in outcomes:
            node = dealt[outcome.index].node
            call = Call("disputes", "settle", (node, final, outcome.index))
            if outcome.state is BatchState.REJECTED:
                if would_pass(self.actor.reader, call, self.actor.outbox.address):
                    self._offer(f"slash/{outcome.index}", call, final, None, stage=2)
                    left = True
                else:
                    left |= self._fetch_bounty(outcome.index)
            elif self._may_be_withheld(outcome) and node != self.actor.node:
                reward = self.actor.audits.terms().withheld_fee // CALLERS_PART
                if self._is_worth(call, reward):
                    self._offer(f"settle/{final}/{outcome.index}/{node}", call, final, reward, stage=2)
                    left = True
        return left

    def _may_be_withheld(self, outcome: BatchOutcome) -> bool:
        """Whether its producer may owe the fee for what nobody could look at: the contract knows."""
        doubts = outcome.stage_2.rejects + outcome.stage_2.voids
        least = self.actor.reader.deployment.spec.chain.min_rejects
        return outcome.state is BatchState.VOID and doubts >= least

    def _fetch_bounty(self, index: int) -> bool:
        """This node's part of a slashed bond, if it rejected the batch in stage 1. Whether there is one."""
        part = int(self.actor.reader.call(Call("disputes", "bountyOf", (index, self.actor.node))))
        call = Call("disputes", "claimBounty", (index, self.actor.node))
        if part and self._is_worth(call, part):
            put_anew(self.actor.outbox, f"bounty/{index}", call)
            return True
        return False

    def _punish(self, final: int, outcomes: list[BatchOutcome]) -> bool:
        """Wrong verdicts on the batches that this node was dealt: without it nobody would pay for them."""
        reward = self.actor.audits.terms().wrong_verdict_penalty // CALLERS_PART
        left = False
        for voter, index, call in wrong_verdicts(self.actor.reader, final, outcomes):
            if voter != self.actor.node and self._is_worth(call, reward):
                self._offer(f"settle/{final}/{index}/{voter}", call, final, reward, stage=2)
                left = True
        return left

    def _settle_debts(self, current: int) -> None:
        """What the producers that this node has met promised and did not do. They come first themselves."""
        nodes = sorted(self.pool.producers() - {self.actor.node})
        settled = self.actor.audits.are_settled(nodes)
        debtors = [node for node, is_settled in zip(nodes, settled, strict=True) if not is_settled]
        infos = self.actor.reader.nodes_of(debtors) if debtors else []
        owing = [i for i in infos if i.bond and i.state in (NodeState.REGISTERED, NodeState.EXITING)]
        for info in owing[:MOST_DEBTORS]:
            for debt in debts_of(self.actor.reader, self.actor.audits, info.node, current):
                reward = min(debt.fee, info.bond) // CALLERS_PART
                if self._is_worth(debt.call, reward):
                    self._offer(f"settle/{debt.round}/{info.node}", debt.call, debt.round, reward, stage=2, first=1)

    def _offer(
        self,
        key: str,
        call: Call,
        round_: int,
        reward: int | None,
        *,
        stage: int,
        first: int = 0,
        last: int | None = None,
    ) -> None:
        """For when it is this node's turn. reward: wei that the gas must not exceed; None: whatever it costs."""

        def needed() -> bool:
            if reward is None:
                return would_pass(self.actor.reader, call, self.actor.outbox.address)
            return self._is_worth(call, reward)

        size = window_size(self.actor.reader.deployment.spec.chain.draws, stage)
        crowd = min(self.actor.reader.round_at(round_).count, size)
        self.actor.turns.offer(key, call, crowd=crowd, needed=needed, first=first, deadline_round=last)

    def _is_worth(self, call: Call, reward: int) -> bool:
        """Whether the contract takes the call, and its gas costs less than the reward (wei)."""
        cost = cost_of(self.actor.reader, call, self.actor.outbox.address)
        return cost is not None and cost < reward
