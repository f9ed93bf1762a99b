"""Everything that the contracts announced, in order, with a cursor that survives restarts and reorganizations.

Read with eth_getLogs; node-side filters are unreliable. Providers cap the range or the number of logs, each in its own
words, so a chunk is halved whenever one is refused.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

from eth_abi.exceptions import DecodingError

from sapo_verifier.chain import rpc
from sapo_verifier.chain.contracts import SOLIDITY_NAMES, abi, decode_values, signature_hash
from sapo_verifier.chain.errors import ChainUnavailable, HttpRefused, Refused
from sapo_verifier.chain.reader import ChainReader

CHUNK = 10_000  # blocks
UNWATCHED = {"token"}  # its transfers are everybody's; what is paid for work, Rewards tells
UNSTEADY_TRIES = 5


@dataclass(frozen=True)
class ChainEvent:
    """One event, decoded: bytes32 as bytes, addresses lower case."""

    name: str  # as in Solidity, e.g. BatchSubmitted
    contract: str  # nodes, beacon or rounds
    args: dict[str, Any]
    block: int
    block_hash: bytes
    log_index: int  # position in the block
    transaction: bytes = b""  # the hash of the one that announced it


@dataclass(frozen=True)
class Cursor:
    """How far was read: the last block and its hash, after some earlier points, ever farther apart."""

    trail: tuple[tuple[int, bytes], ...]  # (block number, block hash), ascending; never empty

    @property
    def block(self) -> int:
        return self.trail[-1][0]

    @property
    def hash(self) -> bytes:
        return self.trail[-1][1]

    def advanced(self, block: int, block_hash: bytes) -> "Cursor":
        """With one more point. Of the older ones the oldest of each age (1, 2 … 3, 4 … 7, … blocks) is kept."""
        by_age: dict[int, tuple[int, bytes]] = {}
        for point in self.trail:
            by_age.setdefault((block - point[0]).bit_length(), point)
        return Cursor((*by_age.values(), (block, block_hash)))


@dataclass(frozen=True)
class Page:
    """The events of some blocks. Store them together with the cursor, in one transaction."""

    events: list[ChainEvent]
    cursor: Cursor
    forget_after: int | None = None  # a reorganization: first drop everything stored of blocks above this one


def pages(reader: ChainReader, cursor: Cursor | None, *, chunk: int = CHUNK) -> Iterator[Page]:
    """All events after the cursor (None: from the deployment on), up to the block that is the latest now.

    Where the chain no longer has the cursor's block, reading goes back to the newest point it still has, and the first
    page says from where on to forget. Raises ChainUnavailable where the RPC fails even for a single block.
    """
    head = reader.block_number()
    start = reader.deployment.block
    forget_after: int | None = None
    if cursor is not None:
        standing = _standing(reader, cursor)
        if standing is None or standing.block != cursor.block:
            forget_after = start - 1 if standing is None else standing.block
        cursor = standing
        start = start if standing is None else standing.block + 1
    if start > head and forget_after is not None and cursor is not None:
        # The chain is shorter than what was read before, and nothing came instead (yet).
        yield Page([], cursor, forget_after)
    while start <= head:
        end = min(start + chunk - 1, head)
        read = _read(reader, start, end)
        if read is None:
            if start == end:
                raise _no_logs_of(reader, start)
            chunk = (end - start + 1) // 2
            continue
        events, end_hash = read
        cursor = Cursor(((end, end_hash),)) if cursor is None else cursor.advanced(end, end_hash)
        yield Page(events, cursor, forget_after)
        forget_after = None
        start = end + 1


def events_of(reader: ChainReader, transaction: bytes) -> list[ChainEvent]:
    """What the contracts announced in one mined transaction; [] if the chain does not know it (any more)."""
    with rpc.transport(reader.rpc_url):
        receipt = rpc.batch(reader.w3, [("eth_getTransactionReceipt", ["0x" + transaction.hex()])])[0]
    ours = {reader.address_of(contract) for contract in SOLIDITY_NAMES if contract not in UNWATCHED}
    logs = [log for log in (receipt or {}).get("logs", []) if log["address"].lower() in ours]
    return [event for event in (_decode(reader, log) for log in logs) if event is not None]


def between(reader: ChainReader, start: int, end: int) -> list[ChainEvent]:
    """The events of the blocks start … end, in order; for few blocks, since all are kept in memory.

    Raises ChainUnavailable where the RPC fails, also for a single block.
    """
    events: list[ChainEvent] = []
    chunk = end - start + 1
    while start <= end:
        read = _read(reader, start, min(start + chunk - 1, end))
        if read is not None:
            events += read[0]
            start += chunk
        elif chunk == 1:
            raise _no_logs_of(reader, start)
        else:
            chunk //= 2
    return events


def _no_logs_of(reader: ChainReader, block: int) -> ChainUnavailable:
    return ChainUnavailable(
        f"the chain's RPC at {reader.where} does not give the logs even of the single block {block}; use another RPC"
    )


def _standing(reader: ChainReader, cursor: Cursor) -> Cursor | None:
    """The cursor up to its newest point that is still in the chain; None if no point is."""
    requests = [("eth_getBlockByNumber", [hex(block), False]) for block, _ in cursor.trail]
    with rpc.transport(reader.rpc_url):
        blocks = rpc.batch(reader.w3, requests)
    for length in range(len(blocks), 0, -1):
        found = blocks[length - 1]
        if found is not None and bytes.fromhex(found["hash"][2:]) == cursor.trail[length - 1][1]:
            return Cursor(cursor.trail[:length])
    return None


def _read(reader: ChainReader, start: int, end: int) -> tuple[list[ChainEvent], bytes] | None:
    """Events of the blocks start … end, and the hash of the last one; None if the range was refused.

    Read again where the chain was reorganized meanwhile, so that hash and events belong together.
    """
    for _ in range(UNSTEADY_TRIES):
        before = _hash_of(reader, end)
        logs = _logs(reader, start, end)
        if logs is None:
            return None
        after = _hash_of(reader, end)
        events = [event for event in (_decode(reader, log) for log in logs) if event is not None]
        mixed = any(event.block == end and event.block_hash != after for event in events)
        if before is not None and before == after and not mixed:
            return sorted(events, key=lambda event: (event.block, event.log_index)), before
    raise ChainUnavailable(
        f"the chain at {reader.where} changes while block {end} is read, {UNSTEADY_TRIES} times in a row; try again"
    )


def _hash_of(reader: ChainReader, block: int) -> bytes | None:
    with rpc.transport(reader.rpc_url):
        found = rpc.batch(reader.w3, [("eth_getBlockByNumber", [hex(block), False])])[0]
    return bytes.fromhex(found["hash"][2:]) if found else None


def _logs(reader: ChainReader, start: int, end: int) -> list[Any] | None:
    """Raw logs; None where the RPC answers, but not with them: the range or the result is too large for it."""
    request = {
        "fromBlock": hex(start),
        "toBlock": hex(end),
        "address": [reader.address_of(contract) for contract in SOLIDITY_NAMES if contract not in UNWATCHED],
    }
    try:
        with rpc.transport(reader.rpc_url):
            found: list[Any] = rpc.single(reader.w3, "eth_getLogs", [request])
    except Refused:
        return None
    except HttpRefused as error:
        # Some answer a range that is too large with 400, 413 or their gateway's time-out.
        if error.status in (401, 403, 429):
            raise
        return None
    return found


@cache
def _events(contract: str) -> dict[bytes, dict[str, Any]]:
    """The ABI entries of a contract's events by their first topic."""
    entries = (entry for entry in abi(SOLIDITY_NAMES[contract]) if entry["type"] == "event")
    return {signature_hash(entry): entry for entry in entries}


def _decode(reader: ChainReader, log: dict[str, Any]) -> ChainEvent | None:
    """None for an event that this version does not know."""
    address = log["address"].lower()
    contract = next((name for name in SOLIDITY_NAMES if reader.address_of(name) == address), None)
    if contract is None:
        raise ChainUnavailable(
            f"the chain's RPC at {reader.where} gives a log of {address}, which was not asked for; use another RPC"
        )
    topics = [bytes.fromhex(topic[2:]) for topic in log["topics"]]
    entry = _events(contract).get(topics[0]) if topics else None
    if entry is None:
        return None
    indexed = [given for given in entry["inputs"] if given["indexed"]]
    others = [given for given in entry["inputs"] if not given["indexed"]]
    try:
        values = decode_values(indexed, b"".join(topics[1:]))
        rest = decode_values(others, bytes.fromhex(log["data"][2:]))
    except DecodingError:
        raise ChainUnavailable(
            f"the chain's RPC at {reader.where} gives a log of {entry['name']} that is cut short; use another RPC"
        ) from None
    by_name = dict(zip((given["name"] for given in (*indexed, *others)), (*values, *rest), strict=True))
    return ChainEvent(
        name=entry["name"],
        contract=contract,
        args={given["name"]: by_name[given["name"]] for given in entry["inputs"]},
        block=int(log["blockNumber"], 16),
        block_hash=bytes.fromhex(log["blockHash"][2:]),
        log_index=int(log["logIndex"], 16),
        transaction=bytes.fromhex(log["transactionHash"][2:]),
    )
