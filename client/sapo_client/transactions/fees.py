"""What a transaction may cost, why it failed, who used a nonce, and whether its round is still the same: the outbox's
questions to the chain."""

from dataclasses import dataclass
from typing import Any, Self, cast

from eth_utils.address import to_checksum_address
from web3 import Web3
from web3.exceptions import ContractLogicError, Web3RPCError

from sapo_verifier.chain import rpc
from sapo_verifier.chain.contracts import Call
from sapo_verifier.chain.errors import ChainError, ChainUnavailable, explain
from sapo_verifier.chain.reader import ChainReader

GWEI = 10**9


@dataclass(frozen=True)
class Fees:
    """Wei per gas (EIP-1559)."""

    max_fee: int
    tip: int

    @classmethod
    def of_market(cls, w3: Web3, cap: int) -> Self:
        """Room for the base fee to double, as wallets do, within the cap."""
        tip = min(int(w3.eth.max_priority_fee), cap)
        return cls(min(2 * base_fee(w3) + tip, cap), tip)

    def raised(self, market: "Fees", cap: int) -> "Fees | None":
        """At least an eighth more, as nodes ask of a replacement (they ask a tenth); None where the cap forbids it."""
        max_fee = max(market.max_fee, self.max_fee * 9 // 8 + 1)
        tip = max(market.tip, self.tip * 9 // 8 + 1)
        return Fees(max_fee, min(tip, max_fee)) if max_fee <= cap else None


def base_fee(w3: Web3) -> int:
    """Wei per gas that the latest block asked for. Raises ChainError where the chain knows no base fee."""
    fee = w3.eth.get_block("latest").get("baseFeePerGas")
    if fee is None:
        raise ChainError("this chain has no base fee (EIP-1559), which the client needs; use another chain")
    return int(fee)


def estimate_gas(w3: Web3, request: Any) -> int:
    """Gas with a quarter to spare, in the block that comes next: calls depend on its number and on our earlier ones."""
    try:
        gas = w3.eth.estimate_gas(request, "pending")
    except Web3RPCError:
        # Not every RPC knows the pending block; if it is something else, it says so again.
        gas = w3.eth.estimate_gas(request, "latest")
    return gas * 5 // 4


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
    return "the contract refused when it was mined, and would not now: something else came before it in its block", True


def taker_of_nonce(w3: Web3, address: str, nonce: int, low: int, high: int) -> bytes | None:
    """The hash of the account's mined transaction with that nonce, between two blocks; None if it is not found."""
    try:
        while low < high:
            middle = (low + high) // 2
            if w3.eth.get_transaction_count(to_checksum_address(address), middle) > nonce:
                high = middle
            else:
                low = middle + 1
        transactions = cast(Any, w3.eth.get_block(high, full_transactions=True)["transactions"])
    except Web3RPCError:
        # Old state is not kept everywhere. Without it nothing is known.
        return None
    ours = (t for t in transactions if t["from"].lower() == address and t["nonce"] == nonce)
    return next((bytes(t["hash"]) for t in ours), None)


def cost_of(reader: ChainReader, call: Call, sender: str) -> int | None:
    """Wei that a call costs at the latest block's prices, or None where the contract refuses it."""
    request: Any = {
        "from": to_checksum_address(sender),
        "to": to_checksum_address(reader.address_of(call.contract)),
        "data": "0x" + call.encode().hex(),
    }
    with rpc.transport(reader.rpc_url):
        try:
            gas = estimate_gas(reader.w3, request)
        except ContractLogicError:
            return None
        return gas * base_fee(reader.w3)


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
