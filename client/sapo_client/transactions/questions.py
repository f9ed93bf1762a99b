"""The outbox's questions to the chain: why something failed, who took a nonce, what a call costs, what is too late."""

from collections.abc import Sequence
from typing import Any, NamedTuple, cast

from eth_utils.address import to_checksum_address
from web3 import Web3
from web3.exceptions import ContractLogicError, Web3RPCError

from sapo_client.transactions.store import Entry
from sapo_verifier.chain import rpc
from sapo_verifier.chain.contracts import Call
from sapo_verifier.chain.errors import ChainError, ChainUnavailable, coins, explain
from sapo_verifier.chain.reader import ChainReader
from sapo_verifier.chain.signing import base_fee, estimate_gas, request_of


class Taker(NamedTuple):
    """The mined transaction that has a nonce of an account."""

    hash: bytes
    block: int


def succeeded(receipt: dict[str, Any]) -> bool:
    return int(receipt["status"], 16) == 1


def why_failed(w3: Web3, request: Any, gas: int, receipt: dict[str, Any]) -> tuple[str, bool]:
    """Why a mined transaction failed: the chain does not keep the reason, so it is asked again. And whether the same
    call may succeed now: a reorganization can put transactions into another order than that of the estimate.
    """
    if int(receipt["gasUsed"], 16) >= gas:
        return "the transaction ran out of gas: the chain's state changed after the estimate", True
    try:
        w3.eth.call(request, int(receipt["blockNumber"], 16))
    except (ContractLogicError, Web3RPCError) as error:
        return explain(error), False
    except rpc.NotNow as error:  # old state is not kept everywhere
        return f"the transaction failed, and why is not to be had: {error}", False
    return "the contract refused when it was mined, and would not now: something else came before it in its block", True


def taker_of_nonce(w3: Web3, address: str, nonce: int, low: int, high: int) -> Taker | None:
    """The account's mined transaction with that nonce, between two blocks; None if it is not found."""
    try:
        while low < high:
            middle = (low + high) // 2
            if w3.eth.get_transaction_count(to_checksum_address(address), middle) > nonce:
                high = middle
            else:
                low = middle + 1
        transactions = cast(Any, w3.eth.get_block(high, full_transactions=True)["transactions"])
    except (Web3RPCError, rpc.NotNow):
        # Old state is not kept everywhere. Without it nothing is known.
        return None
    ours = (t for t in transactions if t["from"].lower() == address and t["nonce"] == nonce)
    return next((Taker(bytes(t["hash"]), high) for t in ours), None)


def cost_of(reader: ChainReader, call: Call, sender: str) -> int | None:
    """Wei that a call costs at the latest block's prices, or None where the contract refuses it."""
    with rpc.transport(reader.rpc_url):
        try:
            gas = estimate_gas(reader.w3, request_of(reader, call, sender))
        except ContractLogicError:
            return None
        return gas * base_fee(reader.w3)


def lacking(reader: ChainReader, address: str, entry: Entry, cost: int, reserved: int) -> str:
    """What the account lacks for this transaction and those before it, in words; empty if nothing.

    cost: wei for its gas at most; reserved: wei that those before it can cost.
    """
    needed = entry.value + cost + reserved
    held = reader.balance(address)
    if held >= needed:
        return ""
    return (
        f"the account {address} holds {coins(held)} coins, and {entry.key} can cost {coins(needed)}, "
        f"{coins(entry.value)} of them paid to the contract; send the account {coins(needed - held)} more"
    )


def beacon_now(reader: ChainReader, round_: int) -> bytes | None:
    """The round's beacon; before it is captured, the one that capturing it would give; zeros if it never can be.

    None while that is not known. Raises ChainUnavailable.
    """
    if (beacon := reader.beacon(round_)) is not None:
        return beacon
    if reader.current_round() > round_:
        return bytes(32)
    try:
        captured = bytes(reader.call(Call("rounds", "poke")))
    except ChainUnavailable:
        raise
    except ChainError:  # in the round's first block the contract refuses
        return None
    return captured if any(captured) else None


def past_deadline(entries: Sequence[Entry], round_: int | None) -> dict[int, str]:
    """The ids of those whose deadline passed, and that in words. round_: the chain's; None: none has a deadline."""
    return {
        entry.id: f"round {entry.deadline} ended before it was mined" + (f" ({entry.reason})" if entry.reason else "")
        for entry in entries
        if entry.deadline is not None and round_ is not None and round_ > entry.deadline
    }


def of_other_histories(reader: ChainReader, entries: Sequence[Entry], late: dict[int, str]) -> set[int]:
    """Adds those to `late` whose round has another beacon now. Returns the ids of those of which that is not known
    yet: they are left alone."""
    guarded = [(e, e.beacon_round) for e in entries if e.beacon_round is not None and e.id not in late]
    beacons = {round_: beacon_now(reader, round_) for _, round_ in guarded}
    for entry, round_ in guarded:
        if beacons[round_] not in (None, entry.beacon):
            late[entry.id] = f"a reorganization gave round {round_} another beacon before it was mined"
    return {entry.id for entry, round_ in guarded if beacons[round_] is None}
