"""A chain as it was after one block: what one report says was all read there, whatever is mined meanwhile."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from eth_utils.address import to_checksum_address

from sapo_verifier.chain import rpc
from sapo_verifier.chain.contracts import Call
from sapo_verifier.chain.errors import ChainUnavailable
from sapo_verifier.chain.reader import ChainReader
from sapo_verifier.errors import UnableError
from sapo_verifier.objects import hex_digest
from sapo_verifier.version import __version__


@dataclass(frozen=True)
class Block:
    """number: of the chain; hash: 0x and 64 hex digits; time: in seconds since 1970, as the chain has it."""

    number: int
    hash: str
    time: int


@dataclass(frozen=True)
class Source:
    """What a report stands on: this program's version, the network's spec, its chain and contract, and one block."""

    version: str
    spec: str  # digest
    chain: int
    rounds: str  # address of the Rounds contract
    block: Block


class PinnedReader(ChainReader):
    """Reads as the reader that it was made from, over the same connection, but the state after one block.

    Whoever asks long may ask an RPC that has dropped that state: then ChainUnavailable says so.
    """

    def __init__(self, reader: ChainReader) -> None:
        """Pins the latest block."""
        self.deployment, self._anchor, self.w3 = reader.deployment, reader._anchor, reader.w3
        self.block = self._block("latest")

    @property
    def source(self) -> Source:
        """For a report."""
        deployment = self.deployment
        digest = hex_digest(deployment.spec_digest)
        return Source(__version__, digest, deployment.chain_id, deployment.contracts.rounds, self.block)

    def block_number(self) -> int:
        return self.block.number

    def block_time(self) -> int:
        return self.block.time

    def balance(self, address: str) -> int:
        with rpc.transport(self.rpc_url):
            return int(self.w3.eth.get_balance(to_checksum_address(address), self.block.number))

    def call(self, call: Call, *, sender: str | None = None, block: int | None = None) -> Any:
        return super().call(call, sender=sender, block=self.block.number if block is None else block)

    def call_many(self, calls: Sequence[Call], *, block: int | None = None) -> list[Any]:
        return super().call_many(calls, block=self.block.number if block is None else block)

    def refuse_later(self, round_: int) -> None:
        """Raises UnableError for a round that has not begun."""
        if round_ > (current := self.current_round()):
            raise UnableError(f"round {round_} has not begun: the chain is in round {current}; ask for an earlier one")

    def check_same(self) -> None:
        """That the block is in the chain still. Raises ChainUnavailable where a reorganization replaced it, so that
        what was read may be of two chains."""
        if (now := self._block(hex(self.block.number))) != self.block:
            raise ChainUnavailable(
                f"the chain was reorganized while the report was made: block {self.block.number} was {self.block.hash} "
                f"and is {now.hash}; ask again"
            )

    def _block(self, which: str) -> Block:
        with rpc.transport(self.rpc_url):
            found = rpc.single(self.w3, "eth_getBlockByNumber", [which, False])
        if found is None:
            raise ChainUnavailable(f"the chain's RPC at {self.where} does not know block {which}; ask again")
        return Block(int(found["number"], 16), str(found["hash"]), int(found.get("timestamp", "0x0"), 16))
