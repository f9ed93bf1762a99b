"""Disputes: what stage 1 accepted, and is false by what this node found or finds now, or is not to be had any more; and
what a node answered in stage 1, where that is false (looking.py)."""

import logging
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sapo_client.batches.auditing import Auditor, Seen
from sapo_client.batches.pool import Holders, Pool
from sapo_client.batches.presence import Presence, Watch, Wish
from sapo_client.duties.actor import Actor
from sapo_client.duties.ballots import BallotBox, deal_of
from sapo_client.duties.debts import would_pass
from sapo_client.duties.testimony import Testimony
from sapo_client.duties.watches import Watches
from sapo_client.transactions.turns import put_anew
from sapo_verifier.chain.audits import BatchOutcome, BatchState
from sapo_verifier.chain.contracts import Call
from sapo_verifier.chain.reader import NodeState
from sapo_verifier.checks import Verdict, verdict
from sapo_verifier.facts import BatchInfo
from sapo_verifier.schedule import DISPUTE_AFTER, FINAL_AFTER, MOST_CLAIMS

log = logging.getLogger(__name__)

FORBEAR = 50  # rounds after a bond that was lost for what came back: no other one is risked for what is gone
FALSE, GONE, ANSWERS = "dispute/", "absent/", "answers/"  # what such a dispute's key in the outbox begins with
MOST_MISSING = 4  # blocks that are asked for again, of a batch that this node could not get
OPEN = (BatchState.PENDING, BatchState.STANDING, BatchState.DISPUTED)


@dataclass
class Disputes:
    """Of one node."""

    actor: Actor
    ballots: BallotBox
    auditor: Auditor
    presence: Presence
    watches: Watches
    pool: Pool

    def look(self, current: int) -> None:
        """Batches that stage 1 accepted, and that this node found false; that it could not get, and that are false by
        what others have of them; that nobody asked has any more."""
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
                self._offer_false(batch, "stage 1 accepted what failed here")
        accepted = [batch for batch in standing if said[batch.index] == Verdict.ACCEPT]
        voided = [batch for batch in standing if said[batch.index] == Verdict.VOID]
        if not accepted and not voided:
            return
        testimony = Testimony.read(self.actor.reader, self.actor.node, judged, stands)
        holders = {batch.index: testimony.accepters(batch.index) for batch in (*accepted, *voided)}
        gone = [wish for wish in self._look_again(voided, holders) if wish.blocks]
        wishes = self.presence.drawn(accepted, every_kind=False, holders=holders) + gone
        self.watches.ask(wishes, [], current, self._dispute_gone)

    def offer_about(self, batch: BatchInfo, about: int) -> None:
        """Dispute what the batch's node answered about the batch `about`, when it is this node's turn."""

        def needed() -> bool:
            disputer, _ = self.actor.audits.disputer_of(batch.index, about)
            return disputer is None and self.actor.audits.outcome_of(batch.index).state in OPEN

        self._offer(f"{ANSWERS}{batch.round}/{batch.index}/{about}", batch, about, needed)

    def _look_again(self, batches: Sequence[BatchInfo], holders: Holders) -> list[Wish]:
        """At what this node voted void: those who accepted it have its blocks. What is not to be had of them either."""
        looked, _ = self.pool.look(batches, anew=True, holders=holders) if batches else ([], None)
        for seen in looked:
            if verdict(seen.results) is Verdict.REJECT:
                self._offer_false(seen.batch, f"stage 1 accepted what fails: {seen.results[-1].reason}")
            elif seen.hides:
                self._offer_false(seen.batch, "its policy hides whether it is true, and no pass comes near its record")
        return [self._wish(seen, holders) for seen in looked]

    def _wish(self, seen: Seen, holders: Holders) -> Wish:
        some = secrets.SystemRandom().sample(seen.missing, min(MOST_MISSING, len(seen.missing)))
        return Wish(seen.batch, some, tuple(holders[seen.batch.index]))

    def close(self, final: int) -> None:
        """The bonds of own disputes come back, also of rounds in which this node was not running."""
        self._close_answers(final)
        disputes = [*self._sent(FALSE), *self._sent(GONE)]
        own = {index for round_, index in disputes if round_ > final - MOST_CLAIMS}
        if final >= 0:
            own |= {batch.index for batch in self.auditor.window(final, 1)}
        for outcome in self.actor.audits.outcomes_of(sorted(own)):
            # The bond is its sender's, which may be the operator's key.
            closable = outcome.is_final and outcome.disputer in (self.actor.outbox.address, self.actor.node)
            if not closable or self.actor.reader.batch_at(outcome.index).round > final:
                continue
            call = Call("disputes", "closeDispute", (outcome.index, outcome.index))
            # Not before the node of a rejected batch is slashed: a part of its bond may come with it.
            if would_pass(self.actor.reader, call, self.actor.outbox.address):
                put_anew(self.actor.outbox, f"close/{outcome.index}", call)

    def _close_answers(self, final: int) -> None:
        """The same of disputes about answers, each with its own bond."""
        for key in self._keys(ANSWERS):
            _, round_, index, about, *_ = map(str, key.split("/"))
            if not final - MOST_CLAIMS < int(round_) <= final:
                continue
            disputer, is_open = self.actor.audits.disputer_of(int(index), int(about))
            call = Call("disputes", "closeDispute", (int(index), int(about)))
            sender = self.actor.outbox.address
            if is_open and disputer == sender and would_pass(self.actor.reader, call, sender):
                put_anew(self.actor.outbox, f"close-answers/{index}/{about}", call)

    def _dispute_gone(self, watch: Watch) -> None:
        """Its producer owes the blocks until the round is final, and nobody else that was asked has them; the first in
        line disputes, and risks a bond."""
        if watch.unserved and not watch.is_online():
            self.actor.say("no producer of a window could be reached: is this machine's own connection working?")
            return
        for wish in watch.unserved:
            batch = wish.batch
            log.warning("batch %d is to be disputed: neither its producer nor who accepted it serves it", batch.index)

            def needed(wish: Wish = wish) -> bool:
                may = self._stands_now(wish.batch) and self._may_risk(wish.batch.round + DISPUTE_AFTER)
                return may and bool(self.presence.unserved([wish]))

            self._offer(f"{GONE}{batch.round}/{batch.index}", batch, batch.index, needed)

    def _offer_false(self, batch: BatchInfo, words: str) -> None:
        log.warning("batch %d is to be disputed: %s", batch.index, words)
        self._offer(f"{FALSE}{batch.round}/{batch.index}", batch, batch.index, lambda: self._stands_now(batch))

    def _offer(self, key: str, batch: BatchInfo, about: int, needed: Callable[[], bool]) -> None:
        crowd = min(self.actor.reader.round_at(batch.round).count, self.actor.reader.deployment.spec.chain.draws)
        call, last = Call("disputes", "dispute", (batch.index, about)), batch.round + DISPUTE_AFTER
        bond = self.actor.audits.terms().dispute_bond
        self.actor.turns.offer(key, call, crowd=crowd, needed=needed, value=bond, deadline_round=last)

    def _stands_now(self, batch: BatchInfo) -> bool:
        return self._stands(self.actor.audits.outcome_of(batch.index))

    def _stands(self, outcome: BatchOutcome) -> bool:
        """Whether stage 1 accepted it, and nobody has asked yet that the batch itself is judged again.

        Somebody may have disputed what its node said of others: stage 2 is about it then, and lets it stand for want of
        this dispute, whatever became of its blocks.
        """
        is_open = outcome.state in (BatchState.STANDING, BatchState.DISPUTED)
        min_accepts = self.actor.reader.deployment.spec.chain.min_accepts
        return is_open and outcome.disputer is None and outcome.accepted_in_stage_1(min_accepts)

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
        return [(int(key.split("/")[1]), int(key.split("/")[2])) for key in self._keys(kind)]

    def _keys(self, kind: str) -> list[str]:
        return [
            key
            for key in self.actor.outbox.keys(kind)
            if self.actor.outbox.state(key).status not in ("failed", "expired")
        ]
