"""Disputes: what stage 1 accepted, and is false by what this node found, or is served no longer."""

import logging
from collections.abc import Callable
from dataclasses import dataclass

from sapo_client.batches.auditing import Auditor
from sapo_client.batches.presence import Presence, Watch, Wish
from sapo_client.duties.actor import Actor
from sapo_client.duties.ballots import BallotBox, deal_of
from sapo_client.duties.debts import would_pass
from sapo_client.duties.watches import Watches
from sapo_client.transactions.turns import put_anew
from sapo_verifier.chain.audits import BatchOutcome, BatchState
from sapo_verifier.chain.contracts import Call
from sapo_verifier.chain.reader import NodeState
from sapo_verifier.checks import Verdict
from sapo_verifier.facts import BatchInfo
from sapo_verifier.schedule import DISPUTE_AFTER, FINAL_AFTER, MOST_CLAIMS

log = logging.getLogger(__name__)

FORBEAR = 50  # rounds after a bond that was lost for what came back: no other one is risked for what is gone
FALSE, GONE = "dispute/", "absent/"  # what such a dispute's key in the outbox begins with


@dataclass
class Disputes:
    """Of one node."""

    actor: Actor
    ballots: BallotBox
    auditor: Auditor
    presence: Presence
    watches: Watches

    def look(self, current: int) -> None:
        """Batches that stage 1 accepted, and that this node found false, or that it accepted and are gone by now."""
        judged = current - DISPUTE_AFTER
        deal = deal_of(self.actor.reader, judged, 1) if judged >= 0 else None
        ballot = self.ballots.get(deal) if deal else None
        if ballot is None:
            return
        window = self.auditor.window(judged, 1)
        said = {batch.index: (ballot.word >> (2 * j)) & 3 for j, batch in enumerate(window)}
        stands = {outcome.index: self._stands(outcome) for outcome in self.actor.audits.outcomes_of(sorted(said))}
        standing = [batch for batch in window if stands[batch.index]]
        for batch in standing:
            if said[batch.index] == Verdict.REJECT:
                log.warning("batch %d is to be disputed: stage 1 accepted what failed here", batch.index)
                self._offer(f"{FALSE}{judged}/{batch.index}", batch, lambda: True)
        accepted = [batch for batch in standing if said[batch.index] == Verdict.ACCEPT]
        self.watches.ask(self.presence.drawn(accepted, every_kind=False), [], current, self._dispute_gone)

    def close(self, final: int) -> None:
        """The bonds of own disputes come back, also of rounds in which this node was not running."""
        disputes = [*self._sent(FALSE), *self._sent(GONE)]
        own = {index for round_, index in disputes if round_ > final - MOST_CLAIMS}
        if final >= 0:
            own |= {batch.index for batch in self.auditor.window(final, 1)}
        for outcome in self.actor.audits.outcomes_of(sorted(own)):
            closable = outcome.is_final and outcome.disputer == self.actor.node
            if not closable or self.actor.reader.batch_at(outcome.index).round > final:
                continue
            call = Call("disputes", "closeDispute", (outcome.index, outcome.index))
            # Not before the node of a rejected batch is slashed: a part of its bond may come with it.
            if would_pass(self.actor.reader, call, self.actor.outbox.address):
                put_anew(self.actor.outbox, f"close/{outcome.index}", call)

    def _dispute_gone(self, watch: Watch) -> None:
        """Its producer owes the blocks until the round is final; the first in line disputes, and risks a bond."""
        if watch.unserved and not watch.is_online():
            self.actor.say("no producer of a window could be reached: is this machine's own connection working?")
            return
        for wish in watch.unserved:
            batch = wish.batch
            log.warning("batch %d is to be disputed: its producer serves it no longer", batch.index)

            def still(wish: Wish = wish) -> bool:
                return self._may_risk(wish.batch.round + DISPUTE_AFTER) and bool(self.presence.unserved([wish]))

            self._offer(f"{GONE}{batch.round}/{batch.index}", batch, still)

    def _offer(self, key: str, batch: BatchInfo, still: Callable[[], bool]) -> None:
        def needed() -> bool:
            return self._stands(self.actor.audits.outcome_of(batch.index)) and still()

        crowd = min(self.actor.reader.round_at(batch.round).count, self.actor.reader.deployment.spec.chain.draws)
        call, last = Call("disputes", "dispute", (batch.index, batch.index)), batch.round + DISPUTE_AFTER
        bond = self.actor.audits.terms().dispute_bond
        self.actor.turns.offer(key, call, crowd=crowd, needed=needed, value=bond, deadline_round=last)

    def _stands(self, outcome: BatchOutcome) -> bool:
        """Whether stage 1 accepted it, and nobody has asked yet that the batch itself is judged again.

        Somebody may have disputed what its node said of others: stage 2 is about it then, and lets it stand for want of
        this dispute, whatever became of its blocks.
        """
        votes = outcome.stage_1
        others = votes.revealed - votes.accepts - votes.rejects
        least = max(self.actor.reader.deployment.spec.chain.min_accepts, 2 * others)
        is_open = outcome.state in (BatchState.STANDING, BatchState.DISPUTED)
        return is_open and outcome.disputer is None and votes.rejects == 0 and votes.accepts >= least

    def _may_risk(self, current: int) -> bool:
        """Whether no bond of an earlier dispute about what was gone is open, or was lost a short time ago.

        Who comes back in stage 2 wins the disputer's bond for nobody: so never more than one is at stake.
        """
        for round_, index in self._sent(GONE):
            if round_ > current - FINAL_AFTER:
                return False
            if round_ > current - FORBEAR and not self._had_reason(index):
                return False
        return True

    def _had_reason(self, index: int) -> bool:
        """Whether the bond of a dispute comes back, as a final batch fares (docs/protocol.md, Dispute)."""
        outcome = self.actor.audits.outcome_of(index)
        doubts = outcome.stage_2.rejects + outcome.stage_2.voids
        if outcome.state in (BatchState.REJECTED, BatchState.PROVEN_FALSE):
            return True
        if doubts > 0 and 3 * doubts >= outcome.stage_2.revealed:
            return True
        node = self.actor.reader.batch_at(index).node
        return outcome.state is BatchState.VOID and self.actor.reader.node_of(node).state is NodeState.SLASHED

    def _sent(self, kind: str) -> list[tuple[int, int]]:
        """(round, index) of the disputes of this kind that this node has sent or is about to send."""
        keys = [
            key
            for key in self.actor.outbox.keys(kind)
            if self.actor.outbox.state(key).status not in ("failed", "expired")
        ]
        return [(int(key.split("/")[1]), int(key.split("/")[2])) for key in keys]
