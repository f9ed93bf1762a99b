"""A node's bond: what it owes is settled, and what a fine took is topped up, before it promises anything."""

import logging
from dataclasses import dataclass, field

from sapo_client.duties.actor import Actor
from sapo_client.duties.debts import debts_of, taken_by
from sapo_client.duties.funding import need
from sapo_client.transactions.turns import latest, put_anew
from sapo_verifier.chain.contracts import Call
from sapo_verifier.chain.errors import coins
from sapo_verifier.chain.reader import NodeState

log = logging.getLogger(__name__)


@dataclass
class Bond:
    """Of one node."""

    actor: Actor
    _settling: dict[str, int] = field(default_factory=dict)  # own settlements by key, and the rounds that they are of

    def restore(self) -> bool:
        """Have everything that is overdue settled, and the bond filled up, unless that is on its way already. Whether
        the bond is full, or will be before what is put next: only then the node can promise anything.

        May be called as often as one likes: what the contract refused, because somebody else settled first or another
        fine came between, is put anew with what is true now.
        """
        reader, outbox = self.actor.reader, self.actor.outbox
        current = reader.current_round()
        debts = debts_of(reader, self.actor.audits, self.actor.node, current)
        for debt in debts:
            key = f"settle/{debt.round}/{current}"
            if key not in self._settling and debt.fee:
                log.info("round %d: %s coins are owed for what this node missed", debt.round, coins(debt.fee))
            put_anew(outbox, key, debt.call, although_mined=True)
            self._settling[key] = debt.round
        info = reader.node_of(self.actor.node)
        if info.state is not NodeState.REGISTERED:
            return False
        missing = int(reader.deployment.spec.chain.bond, 16) - max(0, info.bond - sum(debt.fee for debt in debts))
        if not missing:
            return True
        key = top_up_key(current)
        if latest(outbox, key).status in ("intent", "sent"):
            return True
        held = reader.balance(outbox.address)
        if held <= missing:
            self.actor.say(
                f"the bond is short of {coins(missing)} coins, and the account {outbox.address} holds only "
                f"{coins(held)}: send it {need(reader, outbox.address, missing).words}. Until then this node promises "
                "nothing, and only does what it owes"
            )
            return False
        log.warning("topping the bond up by %s coins after a fine", coins(missing))
        call = Call("nodes", "topUp", (self.actor.node,))
        put_anew(outbox, key, call, although_mined=True, value=missing, deadline_round=current)
        return True

    def is_ready(self) -> bool:
        """Whether the contract would take a promise now: nothing is overdue, and the bond is full."""
        return self.actor.reader.node_of(self.actor.node).active and self.actor.audits.is_settled(self.actor.node)

    def tell(self) -> None:
        """One poll: what own settlements really took from the bond. Others may have settled first, or in part."""
        for key, round_ in list(self._settling.items()):
            state = latest(self.actor.outbox, key)
            if state.status in ("intent", "sent"):
                continue
            del self._settling[key]
            if state.hash is None or state.status != "mined":
                log.warning("round %d: this node took nothing from its own bond: %s", round_, state.reason)
                continue
            taken, back = taken_by(self.actor.reader, state.hash, self.actor.node)
            if not taken:
                continue
            log.warning(
                "round %d is settled: %s coins were taken from the bond for what this node missed, of which %s came "
                "back to its caller",
                *(round_, coins(taken), coins(back)),
            )


def top_up_key(round_: int) -> str:
    """A round's top-up in the outbox."""
    return f"top-up/{round_}"
