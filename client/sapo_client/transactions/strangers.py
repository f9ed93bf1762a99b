"""What was sent with an account's key without its outbox: nonces that other transactions took.

Every transaction of an outbox is on disk before it is sent, so what is not there was sent by another program, by hand,
or by an outbox that is lost. Which of these it was is not to be seen here.
"""

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from eth_utils.address import to_checksum_address
from web3.exceptions import Web3RPCError
from web3.types import BlockIdentifier

from sapo_client.transactions.questions import Taker, succeeded, taker_of_nonce
from sapo_verifier.chain import rpc
from sapo_verifier.chain.errors import ChainUnavailable, Refused
from sapo_verifier.chain.reader import ChainReader


class Sender(Protocol):
    """An account, and what is known to have been signed for it: an outbox, or what is read in the file of one."""

    @property
    def address(self) -> str: ...

    def signed(self, low: int) -> list[tuple[int, bytes, int]]:
        """See Outbox.signed."""


@dataclass(frozen=True)
class Signed:
    """An outbox's file, read without its key. One that is not there knows nothing."""

    address: str
    path: Path

    def signed(self, low: int) -> list[tuple[int, bytes, int]]:
        if not self.path.exists():
            return []
        with closing(sqlite3.connect(f"{self.path.resolve().as_uri()}?mode=rw", uri=True)) as db:
            return db.execute("SELECT nonce, hash, block FROM attempt WHERE nonce >= ?", (low,)).fetchall()


@dataclass(frozen=True)
class Stranger:
    """A nonce that no transaction of the outbox took, as far as is known."""

    nonce: int
    signed_too: bool  # by the outbox: of the two transactions only one could be mined
    taker: Taker | None  # who took it; None where that was not looked for, or is not to be had

    def __str__(self) -> str:
        words = f"nonce {self.nonce}"
        return words if self.taker is None else f"0x{self.taker.hash.hex()} ({words}, block {self.taker.block})"


def listed(found: Sequence[Stranger]) -> str:
    """At least one of them, in words: the last one, who was looked up, and how many more there are."""
    return str(found[-1]) + (f", and {len(found) - 1} before it" if len(found) > 1 else "")


def nonces_used(reader: ChainReader, address: str, block: BlockIdentifier) -> int | None:
    """How many nonces an account had used after that block; None where the RPC has no state of it (any more, or yet).

    Raises ChainUnavailable.
    """
    with rpc.transport(reader.rpc_url):
        try:
            return int(reader.w3.eth.get_transaction_count(to_checksum_address(address), block))
        except (Web3RPCError, rpc.NotNow):
            return None


def strangers(reader: ChainReader, outbox: Sender, low: int, high: int, blocks: tuple[int, int]) -> list[Stranger]:
    """Those among the used nonces low … high − 1, lowest first.

    blocks: the first and the last one in which they were mined. Who took a nonce is looked up for the last one, and
    where the outbox has signed, too: receipts can lag. Raises ChainUnavailable.
    """
    signed = [(nonce, hash_) for nonce, hash_, _ in outbox.signed(low) if nonce < high]
    mined = receipts_of(reader, [hash_ for _, hash_ in signed])
    own = {nonce for nonce, hash_ in signed if hash_ in mined}
    found = []
    for nonce in range(low, high):
        if nonce in own:
            continue
        hashes = [hash_ for other, hash_ in signed if other == nonce]
        taker = None
        if hashes or nonce == high - 1:
            with rpc.transport(reader.rpc_url):
                taker = taker_of_nonce(reader.w3, outbox.address, nonce, *blocks)
        if taker is None or taker.hash not in hashes:
            found.append(Stranger(nonce, bool(hashes), taker))
    return found


def recent_strangers(reader: ChainReader, outbox: Sender, blocks: int) -> list[Stranger]:
    """Those of the last blocks, as `strangers` gives them.

    Where the RPC has no state that old, the outbox itself tells where to begin: with the first nonce that it signed in
    those blocks, or else after the last that it ever signed. Raises ChainUnavailable.
    """
    used = nonces_used(reader, outbox.address, "latest")
    if not used:
        return []
    head = reader.block_number()
    since = max(reader.deployment.block, head - blocks)  # before the network was deployed nobody acted in it
    low = nonces_used(reader, outbox.address, since)
    if low is None:
        signed = outbox.signed(0)
        of_late = (nonce for nonce, _, block in signed if block >= since)
        low = min(of_late, default=max((nonce + 1 for nonce, _, _ in signed), default=0))
    return strangers(reader, outbox, low, used, (since, head))


def strangers_since(reader: ChainReader, outbox: Sender, nonce: int, block: int) -> list[Stranger]:
    """Those from that nonce on, mined after that block, or on their way as far as the RPC knows. Raises
    ChainUnavailable."""
    head = reader.block_number()
    used = nonces_used(reader, outbox.address, "latest") or nonce
    found = strangers(reader, outbox, nonce, used, (block, head))
    known = {number for number, _, _ in outbox.signed(used)}
    pending = nonces_used(reader, outbox.address, "pending") or used
    return found + [Stranger(number, False, None) for number in range(used, pending) if number not in known]


def receipts_of(reader: ChainReader, hashes: Sequence[bytes]) -> dict[bytes, bool]:
    """Of those that are mined: whether they succeeded. Raises ChainUnavailable."""
    try:
        with rpc.transport(reader.rpc_url):
            found = rpc.batch(reader.w3, [("eth_getTransactionReceipt", ["0x" + hash_.hex()]) for hash_ in hashes])
    except Refused as error:
        # For example "indexing in progress": not knowing is not the same as not there.
        raise ChainUnavailable(str(error)) from None
    return {hash_: succeeded(receipt) for hash_, receipt in zip(hashes, found, strict=True) if receipt is not None}
