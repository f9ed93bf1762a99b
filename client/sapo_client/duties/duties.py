"""What a node does on chain beside publishing (docs/protocol.md, A round's life), and in which order.

In round c: reveal on c−2 and c−5, pay what is owed, claim what became final, commit on c−1 (stage 1), look again at
what stage 1 let pass in c−3, and at what others answered there, and dispute what is false or gone, commit stage 2 on
c−4. Every step looks first whether it
was done, so it can be repeated; what takes longer (looking again, waiting for a turn) goes on in `go_on`.
"""

from dataclasses import dataclass

from sapo_client.batches.auditing import AuditCounts
from sapo_client.duties.actor import Actor
from sapo_client.duties.bond import Bond
from sapo_client.duties.claiming import claim_final
from sapo_client.duties.disputes import Disputes
from sapo_client.duties.looking import Looking
from sapo_client.duties.promises import Promises
from sapo_client.duties.settling import Settler
from sapo_client.duties.verdicts import Verdicts
from sapo_client.duties.watches import Watches
from sapo_verifier.chain.reader import NodeState
from sapo_verifier.schedule import FINAL_AFTER


@dataclass
class Duties:
    """The duties of one node."""

    actor: Actor
    bond: Bond
    promises: Promises
    verdicts: Verdicts
    disputes: Disputes
    looking: Looking
    settler: Settler
    watches: Watches

    def begin(self) -> None:
        """A round begins: what was watched in an earlier one is of no use any more."""
        self.watches.clear()

    def play(self, current: int) -> AuditCounts:
        """Everything that is due in round `current`, into the outbox or into line; what was audited for it."""
        bonded = self.actor.reader.node_of(self.actor.node).state in (NodeState.REGISTERED, NodeState.EXITING)
        counts = AuditCounts()
        if bonded:
            for stage in (1, 2):
                self.verdicts.reveal(current, stage)
            self.disputes.close(current - FINAL_AFTER)
        claim_final(self.actor, current - FINAL_AFTER)
        if bonded:
            if self.bond.restore() and self.actor.may_promise(current):
                for stage in (1, 2):
                    counts += self.verdicts.commit(current, stage)
                    self.promises.keep(self.verdicts.promise(current, stage))
            self.denounce(current)
        self.verdicts.ballots.drop_before(current - FINAL_AFTER - 2)
        self.go_on()
        return counts

    def denounce(self, current: int) -> None:
        """What stage 1 let pass and should not have; what can be proven; what is to be settled."""
        self.disputes.look(current)
        self.looking.look(current)
        self.settler.look(current)

    def go_on(self) -> None:
        """One poll: looks again where it is time to, and does what follows."""
        self.watches.go_on()
        self.promises.go_on()

    @property
    def finished(self) -> bool:
        """Whether nothing is waited for any more."""
        return self.watches.finished
