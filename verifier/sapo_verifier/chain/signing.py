"""A transaction before it is sent: what it asks for, how much gas it takes, what it may pay, and its signature."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from eth_utils.address import to_checksum_address
from web3 import Web3
from web3.exceptions import Web3RPCError

from sapo_verifier.chain.contracts import Call
from sapo_verifier.chain.errors import ChainError
from sapo_verifier.chain.reader import ChainReader
from sapo_verifier.chain.rpc import NotNow

if TYPE_CHECKING:
    from eth_account.signers.local import LocalAccount

GWEI = 10**9


@dataclass(frozen=True)
class Fees:
    """Wei per gas (EIP-1559)."""

    max_fee: int
    tip: int

    @classmethod
    def of_market(cls, w3: Web3, cap: int | None = None) -> Self:
        """Room for the base fee to double, as wallets do, within the cap. Raises as base_fee does."""
        tip = int(w3.eth.max_priority_fee)
        max_fee = 2 * base_fee(w3) + tip
        return cls(max_fee, tip) if cap is None else cls(min(max_fee, cap), min(tip, cap))

    def raised(self, market: "Fees", cap: int) -> "Fees | None":
        """At least an eighth more, as nodes ask of a replacement (they ask a tenth); None where the cap forbids it."""
        max_fee = max(market.max_fee, self.max_fee * 9 // 8 + 1)
        tip = max(market.tip, self.tip * 9 // 8 + 1)
        return Fees(max_fee, min(tip, max_fee)) if max_fee <= cap else None


def base_fee(w3: Web3) -> int:
    """Wei per gas that the latest block asked for. Raises ChainError where the chain knows no base fee.

    From the history of fees: a whole block has a hash for every transaction, whoever sent it.
    """
    fees = w3.eth.fee_history(1, "latest", [50])["baseFeePerGas"]
    if not fees or not any(fees):  # nodes of chains before EIP-1559 say zero
        raise ChainError("this chain has no base fee (EIP-1559), which sending needs; use another chain")
    return int(fees[0])


def request_of(reader: ChainReader, call: Call, sender: str | None, value: int = 0) -> Any:
    """A call as the RPC takes it, to be estimated, called or signed. value: wei."""
    request = {
        "to": to_checksum_address(reader.address_of(call.contract)),
        "data": "0x" + call.encode().hex(),
        "value": value,
    }
    return request | ({"from": to_checksum_address(sender)} if sender else {})


def needed_gas(w3: Web3, request: Any) -> int:
    """Gas that it takes in the block that comes next: calls depend on its number and on our earlier ones."""
    try:
        return w3.eth.estimate_gas(request, "pending")
    except (Web3RPCError, NotNow):
        # Not every RPC knows the pending block; if it is something else, it says so again.
        return w3.eth.estimate_gas(request, "latest")


def with_spare(gas: int) -> int:
    """A quarter more: the chain's state changes until it is mined, and what is left over is not paid."""
    return gas * 5 // 4


def estimate_gas(w3: Web3, request: Any) -> int:
    """What a transaction is signed with. Raises web3's errors where the contract or the chain's nodes refuse it."""
    return with_spare(needed_gas(w3, request))


def sign(
    account: "LocalAccount", request: Any, *, chain_id: int, nonce: int, gas: int, fees: Fees
) -> tuple[bytes, bytes]:
    """Hash and bytes of an EIP-1559 transaction."""
    signed = account.sign_transaction(
        request
        | {
            "type": 2,
            "chainId": chain_id,
            "nonce": nonce,
            "gas": gas,
            "maxFeePerGas": fees.max_fee,
            "maxPriorityFeePerGas": fees.tip,
        }
    )
    return bytes(signed.hash), bytes(signed.raw_transaction)
