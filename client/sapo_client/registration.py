"""A node's place in the `Nodes` contract: registered with the bond, reachable at its endpoint."""

import logging
import threading

from sapo_client.outbox import Outbox
from sapo_verifier.chain.contracts import Call
from sapo_verifier.chain.errors import coins
from sapo_verifier.chain.reader import ChainReader, NodeInfo, NodeState
from sapo_verifier.errors import SapoError

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
        if not register:
            raise SapoError(
                f"node {node} is not registered. Send it {coins(bond)} for the bond and some more for gas, then "
                "start it once with --register, which locks the bond"
            )
        if node != operator:
            raise SapoError(f"only the owner {node} can register the node, not its operator {operator}")
        key = f"register/{info.registered_block}"
        # An earlier run may have stored it with another endpoint, which is put right below.
        call = outbox.call_of(key) or Call("nodes", "register", (operator, endpoint))
        if not _send(outbox, key, call, stop, value=bond):
            return
        info = reader.node_of(node)
    _refuse_inactive(info, operator, bond)
    if info.endpoint != endpoint:
        if node != operator:
            log.warning("peers look for this node at %s; only the owner can change that to %s", info.endpoint, endpoint)
            return
        _send(outbox, f"endpoint/{reader.block_number()}", Call("nodes", "setEndpoint", (endpoint,)), stop)


def _refuse_inactive(info: NodeInfo, operator: str, bond: int) -> None:
    if info.state is NodeState.SLASHED:
        raise SapoError(f"node {info.node} was slashed and cannot take part again; start over with another key")
    if info.state is NodeState.EXITING:
        raise SapoError(f"node {info.node} has asked to exit; withdraw the bond from block {info.exit_block} on")
    if not info.active:
        raise SapoError(
            f"node {info.node} has {coins(info.bond)} of its bond of {coins(bond)} left; top it up with Nodes.topUp"
        )
    if operator not in (info.node, info.operator):
        raise SapoError(f"the key {operator} is neither the owner {info.node} nor its operator {info.operator}")


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
