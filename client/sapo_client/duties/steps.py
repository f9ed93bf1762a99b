"""The steps of a node's life in `Nodes`, from registration to withdrawal: what each calls, and why it would be refused
before anything is sent."""

from dataclasses import dataclass

from web3.exceptions import ContractLogicError, Web3RPCError

from sapo_client.duties.leaving import when, withdrawal
from sapo_verifier.chain import rpc
from sapo_verifier.chain.contracts import SOLIDITY_NAMES, Call, abi_type, function
from sapo_verifier.chain.errors import coins, explain
from sapo_verifier.chain.reader import ChainReader, NodeInfo, NodeState
from sapo_verifier.chain.signing import Fees, estimate_gas, request_of

REGISTER, EXIT, WITHDRAW, TOP_UP = "register", "exit", "withdraw", "top-up"
SET_ENDPOINT, SET_OPERATOR = "set-endpoint", "set-operator"
GAS = 400_000  # at most, of any step: what is named where the account lacks even what is paid in


@dataclass(frozen=True)
class Step:
    """kind: the command's name. key: in the outbox; one that ends in "/" gets a number. argument: for people."""

    kind: str
    key: str
    call: Call
    value: int = 0  # wei
    argument: str = ""

    @property
    def owners(self) -> bool:
        """Whether only the owner's key may do it."""
        return self.kind != TOP_UP

    @property
    def signature(self) -> str:
        """As wallets and explorers write it."""
        inputs = function(self.call.contract, self.call.function)["inputs"]
        return f"{self.call.function}({','.join(map(abi_type, inputs))})"

    @property
    def contract(self) -> str:
        return SOLIDITY_NAMES[self.call.contract]


def register(info: NodeInfo, operator: str, endpoint: str, bond: int) -> Step:
    """Under the name that `sapo run --register` has for it, so that it is sent once, whoever began it."""
    return Step(REGISTER, f"register/{info.registered_block}", Call("nodes", "register", (operator, endpoint)), bond)


def leave() -> Step:
    return Step(EXIT, "life/", Call("nodes", "requestExit"))


def withdraw(to: str) -> Step:
    return Step(WITHDRAW, "life/", Call("nodes", "withdraw", (to,)), argument=to)


def top_up(node: str, wei: int) -> Step:
    return Step(TOP_UP, "life/", Call("nodes", "topUp", (node,)), wei, coins(wei))


def set_operator(operator: str) -> Step:
    return Step(SET_OPERATOR, "life/", Call("nodes", "setOperator", (operator,)), argument=operator)


def set_endpoint(endpoint: str) -> Step:
    """Under the name that the node's own corrections have, which look at one another (elsewhere.py)."""
    return Step(SET_ENDPOINT, "endpoint/", Call("nodes", "setEndpoint", (endpoint,)), argument=endpoint)


def is_done(info: NodeInfo, step_kind: str, argument: str) -> bool:
    """Whether the chain has already what is asked for."""
    held = {SET_ENDPOINT: info.endpoint, SET_OPERATOR: info.operator}.get(step_kind)
    return held == argument and info.state in (NodeState.REGISTERED, NodeState.EXITING)


def refusal(reader: ChainReader, node: str, sender: str, kind: str, call: Call, value: int) -> str:
    """Why the contract would refuse the call, or what the sender lacks for it, in words; empty if nothing.

    Raises ChainUnavailable.
    """
    info = reader.node_of(node)
    if kind == WITHDRAW and info.state is NodeState.EXITING and reader.block_number() + 1 < info.exit_block:
        return f"the bond of {node} is locked until {when(reader, info.exit_block)}; withdraw then"
    if kind == EXIT and info.state is NodeState.EXITING:
        return f"the node {node} has asked to exit already; {withdrawal(reader, info.exit_block)}"
    if kind == TOP_UP and (words := _wrong_top_up(reader, info, value)):
        return words
    held = reader.balance(sender)
    with rpc.transport(reader.rpc_url):
        gas = GAS
        if held >= value:
            try:
                gas = estimate_gas(reader.w3, request_of(reader, call, sender, value))
            except (ContractLogicError, Web3RPCError) as error:
                return explain(error)
        needed = value + gas * Fees.of_market(reader.w3).max_fee
    if held >= needed:
        return ""
    return (
        f"the account {sender} holds {coins(held)} coins, and {kind} can cost {coins(needed)}, {coins(value)} of them "
        f"paid to the contract and the rest for gas; send the account {coins(needed - held)} more"
    )


def missing_bond(reader: ChainReader, info: NodeInfo) -> int:
    """Wei that a registered node's bond lacks; 0 for any other."""
    bond = int(reader.deployment.spec.chain.bond, 16)
    return bond - info.bond if info.state is NodeState.REGISTERED else 0


def _wrong_top_up(reader: ChainReader, info: NodeInfo, value: int) -> str:
    missing = missing_bond(reader, info)
    if info.state is not NodeState.REGISTERED or value == missing:
        return ""  # the contract says the first
    if not missing:
        return f"nothing is missing of the bond of {info.node}; nothing is left to do"
    return f"the bond of {info.node} misses exactly {coins(missing)} coins, and a top-up pays exactly that"
