"""The way out: when the bond can be withdrawn, and when a node that has withdrawn owes nothing and is owed nothing."""

from sapo_client.duties.actor import Actor
from sapo_client.duties.claiming import unclaimed
from sapo_verifier.chain.contracts import Call
from sapo_verifier.chain.errors import ChainError, ChainUnavailable
from sapo_verifier.chain.reader import ChainReader, NodeState
from sapo_verifier.schedule import FINAL_AFTER, MOST_CLAIMS

UNITS = ((86400, "days"), (3600, "h"), (60, "min"), (1, "s"))


def when(reader: ChainReader, block: int) -> str:
    """A block in words: its round, and how long it takes till then at the chain's own pace, where that is known."""
    rules = reader.deployment.spec.chain
    left = max(0, block - reader.block_number())
    words = f"block {block}, in round {(block - reader.deployment.first_block) // rules.round_blocks}"
    pace = reader.seconds_per_block(rules.round_blocks)
    return f"{words}, in about {rough(left * pace)}" if pace else words


def withdrawal(reader: ChainReader, exit_block: int) -> str:
    """When an exiting node's bond can be withdrawn, in words."""
    if reader.block_number() >= exit_block:
        return "the bond can be withdrawn: `sapo withdraw --to ADDRESS`"
    return f"the bond can be withdrawn from {when(reader, exit_block)}; until then the node does what it owes"


def rough(seconds: float) -> str:
    """Seconds in the unit of which there are two or more: “40 s”, “3 h”."""
    size, unit = next(((size, unit) for size, unit in UNITS if seconds >= 2 * size), UNITS[-1])
    return f"{seconds / size:.0f} {unit}"


def is_over(actor: Actor, *, claims: bool) -> bool:
    """Whether the node has withdrawn, as deep in the chain as the outbox calls its own transactions settled, and
    nothing is left to send or to claim. claims: whether the node pulls its pay itself. Raises ChainUnavailable."""
    reader, outbox = actor.reader, actor.outbox
    if reader.node_of(actor.node).state is not NodeState.WITHDRAWN or outbox.pending():
        return False
    deep = max(0, reader.block_number() - outbox.confirmations + 1)
    try:
        held = reader.call(Call("nodes", "nodeOf", (actor.node,)), block=deep)
    except ChainUnavailable:
        raise
    except ChainError:  # no state of that block, so nothing is known for certain
        return False
    if list(NodeState)[held[3]] is not NodeState.WITHDRAWN:
        return False
    final = reader.current_round() - FINAL_AFTER
    rounds = range(max(0, final - MOST_CLAIMS + 1), final + 1)
    return not claims or not unclaimed(actor.audits, actor.node, rounds)
