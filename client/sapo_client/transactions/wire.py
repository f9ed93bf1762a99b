"""An account's transactions on their way to the chain: what they ask for, signatures, and what the chain has."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from eth_utils.address import to_checksum_address
from web3.exceptions import ContractLogicError, Web3RPCError

from sapo_client.transactions.store import Attempt, Entry
from sapo_verifier.chain import rpc
from sapo_verifier.chain.errors import ChainUnavailable, Refused, explain
from sapo_verifier.chain.reader import ChainReader
from sapo_verifier.chain.signing import Fees, request_of, sign

if TYPE_CHECKING:
    from eth_account.signers.local import LocalAccount

KNOWN_ALREADY = ("already imported", "already known", "known transaction")


class Wire:
    """Stores nothing and decides nothing: that is the outbox's."""

    def __init__(self, reader: ChainReader, account: "LocalAccount") -> None:
        self._reader = reader
        self._account = account
        self.sender = reader.w3  # only reads are ever repeated by it

    def request(self, entry: Entry) -> Any:
        """What is to be estimated, called or signed for an entry."""
        if entry.call is None:
            return self.empty_request()
        return request_of(self._reader, entry.call, self._account.address, entry.value)

    def empty_request(self) -> Any:
        """Nothing to nobody else: it only uses up a nonce."""
        address = to_checksum_address(self._account.address)
        return {"from": address, "to": address, "data": "0x", "value": 0}

    def sign(self, request: Any, nonce: int, gas: int, fees: Fees) -> tuple[bytes, bytes]:
        """Hash and bytes of an EIP-1559 transaction."""
        chain_id = self._reader.deployment.chain_id
        return sign(self._account, request, chain_id=chain_id, nonce=nonce, gas=gas, fees=fees)

    def send(self, attempt: Attempt) -> str:
        """One try. Why the chain's nodes refused it, in words; empty if they have it. Raises ChainUnavailable."""
        try:
            sent = self.sender.eth.send_raw_transaction(attempt.raw)
        except (Web3RPCError, ContractLogicError) as error:
            return "" if any(part in str(error).lower() for part in KNOWN_ALREADY) else explain(error)
        if bytes(sent) != attempt.hash:
            return "the chain's RPC took it, but names another hash; use another RPC if it is not mined"
        return ""

    def by_hash(self, method: str, attempts: Sequence[Attempt]) -> dict[bytes, Any]:
        """What the chain has for the attempts' hashes; those that it does not know are missing."""
        try:
            found = rpc.batch(self._reader.w3, [(method, ["0x" + a.hash.hex()]) for a in attempts])
        except Refused as error:
            # For example "indexing in progress": not knowing is not the same as not there.
            raise ChainUnavailable(f"{error}; nothing is sent until it answers") from None
        return {a.hash: answer for a, answer in zip(attempts, found, strict=True) if answer is not None}
