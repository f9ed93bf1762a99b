"""One transaction of somebody who runs no node: signed here, sent once, waited for. A node has its outbox instead."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from eth_utils.address import to_checksum_address
from web3.exceptions import ContractLogicError, TimeExhausted, Web3RPCError

from sapo_verifier.chain import rpc
from sapo_verifier.chain.contracts import Call
from sapo_verifier.chain.errors import ChainError, ChainUnavailable, explain
from sapo_verifier.chain.reader import ChainReader

if TYPE_CHECKING:
    from eth_account.signers.local import LocalAccount


@dataclass(frozen=True)
class Receipt:
    """A transaction that was mined and succeeded."""

    hash: bytes
    block: int
    gas: int  # used


def estimate(reader: ChainReader, call: Call, sender: str | None) -> int:
    """Gas that a call needs now. Raises ChainError with the contract's reason, ChainUnavailable without an answer."""
    with rpc.transport(reader.rpc_url):
        try:
            return int(reader.w3.eth.estimate_gas(_request(reader, call, sender)))
        except (ContractLogicError, Web3RPCError) as error:
            raise ChainError(f"{call.function}: {explain(error)}") from error


def send(reader: ChainReader, account: "LocalAccount", call: Call, *, seconds: float = 300.0) -> Receipt:
    """Sends a call and waits until it is mined.

    The key must have no other sender at work. Raises ChainError where the contract or the chain's nodes refuse it, or
    where it is not mined in time: then its hash is named, and it may still be mined.
    """
    gas = estimate(reader, call, account.address) * 5 // 4
    sender = rpc.connect_for_sending(reader.rpc_url, timeout=reader.timeout)
    try:
        with rpc.transport(reader.rpc_url):
            return _send(sender, account, _request(reader, call, account.address) | {"gas": gas}, call, reader, seconds)
    finally:
        rpc.close(sender)


def _send(w3: Any, account: "LocalAccount", request: Any, call: Call, reader: ChainReader, seconds: float) -> Receipt:
    tip = w3.eth.max_priority_fee
    base = w3.eth.get_block("latest").get("baseFeePerGas")
    if base is None:
        raise ChainError("this chain has no base fee (EIP-1559), which sending needs; use another chain")
    signed = account.sign_transaction(
        request
        | {
            "type": 2,
            "chainId": reader.deployment.chain_id,
            "nonce": w3.eth.get_transaction_count(account.address, "pending"),
            "maxFeePerGas": 2 * base + tip,
            "maxPriorityFeePerGas": tip,
        }
    )
    hash_ = "0x" + bytes(signed.hash).hex()
    try:
        w3.eth.send_raw_transaction(signed.raw_transaction)
        receipt = w3.eth.wait_for_transaction_receipt(signed.hash, timeout=seconds, poll_latency=0.2)
    except TimeExhausted:
        raise ChainUnavailable(
            f"{call.function}: the transaction {hash_} was not mined in {seconds:.0f} s; look it up, it may still be"
        ) from None
    except (ContractLogicError, Web3RPCError) as error:
        raise ChainError(f"{call.function}: {explain(error)}") from error
    if receipt["status"] != 1:
        raise ChainError(
            f"{call.function}: the transaction {hash_} was mined and refused: something else came before it; run the "
            "command again to see what"
        )
    return Receipt(bytes(signed.hash), receipt["blockNumber"], receipt["gasUsed"])


def _request(reader: ChainReader, call: Call, sender: str | None) -> Any:
    request = {
        "to": to_checksum_address(reader.address_of(call.contract)),
        "data": "0x" + call.encode().hex(),
        "value": 0,
    }
    return request | ({"from": to_checksum_address(sender)} if sender else {})
