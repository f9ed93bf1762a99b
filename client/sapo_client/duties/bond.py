"""A node's bond: what it owes is settled, and what a fine took is topped up, before it promises anything."""

import logging
from dataclasses import dataclass

from sapo_client.duties.actor import Actor
from sapo_client.duties.debts import debts_of
from sapo_client.transactions.turns import put_once
from sapo_verifier.chain.contracts import Call
from sapo_verifier.chain.errors import coins
from sapo_verifier.chain.reader import NodeInfo, NodeState

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Bond:
    """Of one node."""

    actor: Actor

    def pay_debts(self, current: int) -> int:
        """What this node promised and missed: until it is settled, it can promise nothing. Returns the fees in wei."""
        debts = debts_of(self.actor.reader, self.actor.audits, self.actor.node, current)
        for debt in debts:
            log.warning("settling what this node missed in round %d: %s coins", debt.round, coins(debt.fee))
            put_once(self.actor.outbox, f"settle/{debt.round}/{current}", debt.call)
        return sum(debt.fee for debt in debts)

    def is_full(self, info: NodeInfo, owed: int, current: int) -> bool:
        """Whether the bond is full, or will be before what is put next: only then the node can promise anything."""
        if info.state is not NodeState.REGISTERED:
            return False
        missing = int(self.actor.reader.deployment.spec.chain.bond, 16) - max(0, info.bond - owed)
        if not missing:
            return True
        held = self.actor.reader.balance(self.actor.outbox.address)
        if held <= missing:
            self.actor.say(
                f"the bond is short of {coins(missing)} coins, and the account {self.actor.outbox.address} holds only "
                f"{coins(held)}: send it {coins(missing - held)} and some more for gas. Until then this node promises "
                "nothing, and only does what it owes"
            )
            return False
        log.warning("topping the bond up by %s coins after a fine", coins(missing))
        call = Call("nodes", "topUp", (self.actor.node,))
        put_once(self.actor.outbox, top_up_key(current), call, value=missing, deadline_round=current)
        return True


def top_up_key(round_: int) -> str:
    """A round's top-up in the outbox."""
    return f"top-up/{round_}"
