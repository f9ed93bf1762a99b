"""One transaction of somebody who runs no node: signed here, sent once, waited for. A node has its outbox instead."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from eth_typing import HexStr
from web3.exceptions import ContractLogicError, TimeExhausted, Web3RPCError

from sapo_verifier.chain import rpc
from sapo_verifier.chain.contracts import Call
from sapo_verifier.chain.errors import ChainError, ChainUnavailable, explain
from sapo_verifier.chain.reader import ChainReader
from sapo_verifier.chain.signing import Fees, needed_gas, request_of, sign, with_spare

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
            return needed_gas(reader.w3, request_of(reader, call, sender))
        except (ContractLogicError, Web3RPCError) as error:
            raise ChainError(f"{call.function}: {explain(error)}") from error


def send(reader: ChainReader, account: "LocalAccount", call: Call, *, seconds: float = 300.0) -> Receipt:
    """Sends a call and waits until it is mined.

    The key must have no other sender at work. Raises ChainError where the contract or the chain's nodes refuse it, or
    where it is not mined in time: then its hash is named, and it may still be mined.
    """
    gas = with_spare(estimate(reader, call, account.address))
    with rpc.transport(reader.rpc_url):
        return _send(account, call, gas, reader, seconds)


def _send(account: "LocalAccount", call: Call, gas: int, reader: ChainReader, seconds: float) -> Receipt:
    w3 = reader.w3
    signed, raw = sign(
        account,
        request_of(reader, call, account.address),
        chain_id=reader.deployment.chain_id,
        nonce=w3.eth.get_transaction_count(account.address, "pending"),
        gas=gas,
        fees=Fees.of_market(w3),
    )
    hash_ = HexStr("0x" + signed.hex())
    try:
        w3.eth.send_raw_transaction(raw)
        receipt = w3.eth.wait_for_transaction_receipt(hash_, timeout=seconds, poll_latency=0.2)
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
    return Receipt(signed, receipt["blockNumber"], receipt["gasUsed"])
