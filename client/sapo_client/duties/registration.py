"""A node's place in the `Nodes` contract: registered with the bond, reachable at its endpoint."""

import logging
import threading

from sapo_client.duties.funding import need
from sapo_client.transactions.outbox import Outbox
from sapo_verifier.chain.contracts import Call
from sapo_verifier.chain.errors import coins
from sapo_verifier.chain.reader import ChainReader, NodeInfo, NodeState
from sapo_verifier.errors import SapoError, UsageError

log = logging.getLogger(__name__)


def ensure_registered(
    reader: ChainReader,
    outbox: Outbox,
    node: str,
    operator: str,
    endpoint: str,
    *,
    register: bool,
    stop: threading.Event,
) -> None:
    """The node may take part and says where its blocks are; registers or changes the endpoint where needed.

    Locks the bond only if `register`. Raises SapoError where this key or the node's state does not allow it.
    """
    info = reader.node_of(node)
    bond = int(reader.deployment.spec.chain.bond, 16)
    if info.state in (NodeState.NONE, NodeState.WITHDRAWN):
        refuse_unregistered(reader, info, operator, register=register)
        key = f"register/{info.registered_block}"
        # An earlier run may have stored it with another endpoint, which is put right below.
        call = outbox.call_of(key) or Call("nodes", "register", (operator, endpoint))
        if not _send(outbox, key, call, stop, value=bond):
            return
        info = reader.node_of(node)
    refuse_useless(info, operator)
    if info.endpoint != endpoint:
        if node != operator:
            log.warning("peers look for this node at %s; only the owner can change that to %s", info.endpoint, endpoint)
            return
        call = Call("nodes", "setEndpoint", (endpoint,))
        under_way = (key for key in outbox.keys("endpoint/") if outbox.call_of(key) == call and key in outbox.pending())
        _send(outbox, next(under_way, f"endpoint/{reader.block_number()}"), call, stop)


def why_silent(info: NodeInfo, bond: int) -> str:
    """Why a node can promise nothing (policies, verdicts), and what it does all the same; empty if it can.

    bond: wei of a full one.
    """
    if info.active:
        return ""
    match info.state:
        case NodeState.SLASHED:
            return (
                f"node {info.node} was slashed: its bond is gone, and it can take no part again. It claims what it has "
                "earned before; stop it, and start over with another key"
            )
        case NodeState.EXITING:
            return (
                f"node {info.node} has asked to exit: it promises nothing new, does what it owes, and claims its pay. "
                f"Withdraw the bond from block {info.exit_block} on"
            )
        case NodeState.REGISTERED:
            return (
                f"node {info.node} has {coins(info.bond)} of its bond of {coins(bond)} left: it tops it up before it "
                "promises anything"
            )
    return f"node {info.node} is not registered (any more): it can take no part"


def refuse_useless(info: NodeInfo, operator: str) -> None:
    """Raises SapoError where the node can do nothing at all, or this key nothing for it."""
    if info.state is NodeState.SLASHED:
        raise SapoError(
            f"node {info.node} was slashed and cannot take part again; `sapo claim` pulls what it earned before. Start "
            "over with another key"
        )
    if operator not in (info.node, info.operator):
        raise UsageError(f"the key {operator} is neither the owner {info.node} nor its operator {info.operator}")


def refuse_unregistered(reader: ChainReader, info: NodeInfo, operator: str, *, register: bool) -> None:
    """Raises SapoError where the node is not registered, and is not to be or cannot be by this key."""
    bond = int(reader.deployment.spec.chain.bond, 16)
    if info.node != operator and register:
        raise UsageError(f"only the owner {info.node} can register the node, not its operator {operator}")
    if info.node != operator:
        raise SapoError(
            f"node {info.node} is not registered. Its owner locks the bond of {coins(bond)} with Nodes.register; this "
            f"operator, {operator}, needs {need(reader, operator, 0).words}"
        )
    if not register:
        asked = need(reader, operator, bond)
        todo = f"Send it {asked.words}. Then" if asked.missing else "It holds enough:"
        raise SapoError(
            f"node {info.node} is not registered. {todo} start it once with --register, which locks the bond"
        )


def _send(outbox: Outbox, key: str, call: Call, stop: threading.Event, *, value: int = 0) -> bool:
    """Put the call in the outbox and wait until it is mined. False if asked to stop before that."""
    outbox.put(key, call, value=value)
    if outbox.state(key).status == "failed":  # in an earlier run: what it lacked may be there now
        outbox.retry(key)
    while outbox.pending() and not stop.is_set():
        outbox.pump()
        stop.wait(0.2)
    state = outbox.state(key)
    if state.status == "failed":
        raise SapoError(f"{call.function} was not accepted: {state.reason}")
    if state.status == "mined":
        log.info("%s is mined", call.function)
    return state.status == "mined"
