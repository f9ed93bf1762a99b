"""From anything that an explorer shows to what it means: a transaction's call and events, and what a CID is."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from eth_abi.exceptions import DecodingError

from sapo_verifier.audit import Documents, fetch_batch
from sapo_verifier.chain import rpc
from sapo_verifier.chain.contracts import SOLIDITY_NAMES, abi, decode_values, signature_hash
from sapo_verifier.chain.errors import ChainError, ChainUnavailable, Refused, coins, explain_rpc_error
from sapo_verifier.chain.event_words import words_of
from sapo_verifier.chain.events import CHUNK, between, events_of
from sapo_verifier.chain.pinned import PinnedReader, Source
from sapo_verifier.checks import plain
from sapo_verifier.cid import cid, digest_of
from sapo_verifier.errors import ObjectError, UnableError, UsageError
from sapo_verifier.facts import BatchFacts, BatchInfo
from sapo_verifier.objects import hex_digest, parse_digest
from sapo_verifier.schedule import KEEP_AFTER
from sapo_verifier.verify import Verifier

MAX_SHOWN = 400  # characters of one argument


@dataclass(frozen=True)
class ToldEvent:
    """An event of the contracts. args: as text."""

    name: str
    contract: str
    args: dict[str, str]
    words: str


@dataclass(frozen=True)
class ToldTransaction:
    """A transaction: whom it called, with what, and what came of it.

    status: done, failed or waiting. contract, function: "" where it calls none of this network's. refused: why it
    failed, as far as that can be told now.
    """

    source: Source
    hash: str
    status: str
    block: int | None
    sender: str
    to: str
    coins: str
    contract: str
    function: str
    args: dict[str, str]
    refused: str
    events: list[ToldEvent]


@dataclass(frozen=True)
class Named:
    """One place that names a block."""

    what: str
    round: int
    node: str
    index: int | None  # of the batch; None: no batch


@dataclass(frozen=True)
class ToldCid:
    """A block's two names, and where this network names it."""

    source: Source
    cid: str
    digest: str
    named: list[Named]


def parse_hash(text: str) -> bytes:
    """Raises UsageError for what is no transaction's hash."""
    try:
        return parse_digest(text.lower())
    except ValueError:
        raise UsageError(f"{text[:80]!r} is no transaction: give its hash, 0x and 64 hex digits") from None


def parse_cid(text: str) -> bytes:
    """The digest of a CID, or of 0x and 64 hex digits as the chain has it. Raises UsageError."""
    try:
        return parse_digest(text.lower()) if text[:2] in ("0x", "0X") else digest_of(text)
    except (ObjectError, ValueError):
        raise UsageError(
            f"{text[:80]!r} names no block: give bafkrei… (59 characters), or 0x and 64 hex digits"
        ) from None


def tell_transaction(reader: PinnedReader, hash_: bytes) -> ToldTransaction:
    """Raises UnableError where the chain does not know the transaction."""
    name = hex_digest(hash_)
    with rpc.transport(reader.rpc_url):
        asked = [("eth_getTransactionByHash", [name]), ("eth_getTransactionReceipt", [name])]
        found, receipt = rpc.batch(reader.w3, asked)
    if found is None:
        raise UnableError(
            f"the chain {reader.deployment.chain_id} at {reader.where} knows no transaction {name}: is it of another "
            "chain, or was it dropped? Look for it in an explorer, and name that chain's --rpc"
        )
    to = (found.get("to") or "").lower()
    contract = next((each for each in SOLIDITY_NAMES if reader.address_of(each) == to), "")
    function, args = _call(reader, contract, bytes.fromhex(found.get("input", "0x")[2:]))
    failed = receipt is not None and int(receipt["status"], 16) != 1
    events = [
        ToldEvent(event.name, event.contract, {key: _text(value) for key, value in event.args.items()}, words_of(event))
        for event in (events_of(reader, hash_) if receipt is not None else [])
    ]
    return ToldTransaction(
        source=reader.source,
        hash=name,
        status="waiting" if receipt is None else "failed" if failed else "done",
        block=None if receipt is None else int(receipt["blockNumber"], 16),
        sender=found["from"].lower(),
        to=to,
        coins=coins(int(found.get("value", "0x0"), 16)),
        contract=contract,
        function=function,
        args=args,
        refused=_refusal(reader, found, receipt) if failed else "",
        events=events,
    )


def transaction_in_words(told: ToldTransaction) -> Iterator[str]:
    """Lines for a terminal."""
    where = f"in block {told.block}" if told.block is not None else "not mined yet"
    yield f"transaction {told.hash}: {told.status}, {where}"
    called = f"{told.contract}.{told.function}" if told.contract else "no contract of this network"
    yield f"  {told.sender} called {called} at {told.to or 'no address'} with {told.coins} coins"
    for name, text in told.args.items():
        yield f"    {name}: {text}"
    if told.refused:
        yield f"  refused: {told.refused}"
    for event in told.events:
        yield f"  {event.name}: {event.words}"
    if not told.events and told.status == "done":
        yield "  no contract of this network announced anything in it"


def tell_cid(verifier: Verifier, digest: bytes, since: int | None = None) -> ToldCid:
    """Where the network names a block: in what the contracts announced, and else in what batches name.

    since: the first round that is looked at; None: of announcements all, of batches those whose blocks peers have to
    serve. Raises UnableError where nothing names it, or that round has not begun.
    """
    reader = verifier.reader
    assert isinstance(reader, PinnedReader)
    if since:
        reader.refuse_later(since)
    named = list(_announced(reader, digest, since or 0))
    current = reader.current_round()
    first = max(0, current - KEEP_AFTER if since is None else since)
    if not named:
        named = _in_batches(verifier, digest, range(current, first - 1, -1))
    if not named:
        raise UnableError(
            f"nothing names {cid(digest)}: looked at what the contracts announced since round {since or 0}, and into "
            f"the batches since round {first} that are to be had; look further back with --since, or name a --gateway"
        )
    return ToldCid(reader.source, cid(digest), hex_digest(digest), named)


def cid_in_words(told: ToldCid) -> Iterator[str]:
    """Lines for a terminal."""
    yield f"block {told.cid} ({told.digest})"
    for each in told.named:
        batch = f" (batch {each.index})" if each.index is not None else ""
        yield f"  {each.what} of the node {each.node} in round {each.round}{batch}"


def _call(reader: PinnedReader, contract: str, data: bytes) -> tuple[str, dict[str, str]]:
    """Function and arguments; "" where the contract has no such function, or the data is cut short."""
    if not contract:
        return "", {}
    solidity = "DrandBeacon" if contract == "beacon" and reader.deployment.drand else SOLIDITY_NAMES[contract]
    for entry in abi(solidity):
        if entry["type"] == "function" and signature_hash(entry)[:4] == data[:4]:
            try:
                values = decode_values(entry["inputs"], data[4:])
            except DecodingError:
                return str(entry["name"]), {}
            names = [given["name"] for given in entry["inputs"]]
            return str(entry["name"]), dict(zip(names, map(_text, values), strict=True))
    return "", {}


def _text(value: Any) -> str:
    if isinstance(value, bytes):
        text = "0x" + value.hex()
        return text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}… ({len(value)} bytes)"
    if isinstance(value, tuple | list):
        return plain(f"({', '.join(map(_text, value))})")
    return plain(str(value))


def _refusal(reader: PinnedReader, found: dict[str, Any], receipt: dict[str, Any]) -> str:
    """Why it failed, as its call would before its block; what stood before it in the block may have been the reason."""
    request = {"from": found["from"], "to": found.get("to"), "data": found.get("input", "0x")}
    request["value"] = found.get("value", "0x0")
    try:
        with rpc.transport(reader.rpc_url):
            rpc.single(reader.w3, "eth_call", [request, hex(int(receipt["blockNumber"], 16) - 1)])
    except Refused as error:
        return explain_rpc_error(error.error)
    except ChainUnavailable as error:
        return f"not known: {error}"
    except ChainError as error:
        return str(error)
    return "not known: before its block it would have been done; out of gas, or something in its block came before it"


def _announced(reader: PinnedReader, digest: bytes, since: int) -> Iterator[Named]:
    start = reader.first_block_of(since) if since else reader.deployment.block
    for first in range(start, reader.block.number + 1, CHUNK):
        for event in between(reader, first, min(first + CHUNK - 1, reader.block.number)):
            args = event.args
            if event.name == "BatchSubmitted" and args["manifest"] == digest:
                yield Named("the batch manifest", args["round"], args["node"], args["index"])
            elif event.name == "PolicyCommitted" and args["policy"] == digest:
                yield Named("the policy manifest", args["round"], args["node"], None)
            elif event.name == "VerdictsRevealed" and args["report"] == digest:
                what = f"the report on its verdicts of stage {args['stage']}"
                yield Named(what, args["round"], args["voter"], None)


def _in_batches(verifier: Verifier, digest: bytes, rounds: Sequence[int]) -> list[Named]:
    for round_ in rounds:
        for batch in verifier.reader.batches_of(round_):
            if what := _in_batch(verifier, digest, batch):
                return [Named(what, round_, batch.node, batch.index)]
    return []


def _in_batch(verifier: Verifier, digest: bytes, batch: BatchInfo) -> str:
    reader = verifier.reader
    beacon = reader.beacon(batch.round)
    if beacon is None:
        return ""
    facts = BatchFacts.of(reader.deployment, batch, beacon)
    blocks = fetch_batch(verifier.store, reader.deployment.spec, facts, verifier.peers_of(batch))
    documents = Documents(facts, reader.deployment.spec, blocks)
    try:
        if digest in documents.policy.blocks:
            return f"part {documents.policy.blocks.index(digest)} of the policy's weights"
        if digest in documents.manifest.groups:
            return f"the group of slot {documents.manifest.groups.index(digest)}"
        slots = [group.records for group in documents.groups]
        return f"the records of slot {slots.index(digest)}" if digest in slots else ""
    except ObjectError:  # missing or misshapen: what it names cannot be told
        return ""
