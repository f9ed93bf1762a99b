"""What proves the chain's facts about a batch: a block's header, and of the trie below its state root what is asked of
`Rounds` (docs/protocol.md, section 17). Whoever trusts the header's hash has to trust nothing else.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

from eth_hash.auto import keccak
from pydantic import BeforeValidator, Field, PlainSerializer

from sapo_verifier import protocol
from sapo_verifier.bundles import rlp
from sapo_verifier.bundles.errors import BundleError
from sapo_verifier.bundles.layout import Layout, rounds_layout
from sapo_verifier.bundles.trie import MAX_NODE_BYTES, MAX_NODES, Nodes
from sapo_verifier.errors import ObjectError
from sapo_verifier.facts import BatchFacts
from sapo_verifier.objects import Address, Count, Digest, Document, Positive, hex_digest

MAX_HEADER_BYTES = 4096
MAX_CODE_BYTES = 24_576  # of a contract (EIP-170)
STATE_ROOT, NUMBER, TIME = 3, 8, 11  # fields of a header
STORAGE_ROOT, CODE_HASH = 2, 3  # fields of an account


def _parse_bytes(value: object) -> bytes:
    if isinstance(value, bytes):
        return value
    digits = value[2:] if isinstance(value, str) and value[:2] == "0x" else "x"
    if len(digits) % 2 or set(digits) - set("0123456789abcdef"):
        raise ValueError("bytes are 0x and two lower-case hex digits each")
    return bytes.fromhex(digits)


Bytes = Annotated[bytes, BeforeValidator(_parse_bytes), PlainSerializer(hex_digest)]


class Evidence(Document):
    """A bundle's root block. It states what cannot be looked up without it; what is looked up is in the nodes."""

    chain: Positive  # the chain id; shown by the beacon, which is a hash over it
    rounds: Address
    index: Count  # of the batch
    entropy: Digest  # of its round
    header: Annotated[Bytes, Field(max_length=MAX_HEADER_BYTES)]  # RLP
    code: Annotated[Bytes, Field(max_length=MAX_CODE_BYTES)]  # of `Rounds`
    nodes: Annotated[list[Annotated[Bytes, Field(max_length=MAX_NODE_BYTES)]], Field(max_length=MAX_NODES)]


@dataclass(frozen=True)
class Proven:
    """What the evidence shows of a chain with this block. first, count, acc: the round's head, at that block."""

    block_hash: bytes
    block: int
    time: int  # of the block, in seconds since 1970
    facts: BatchFacts
    first: int
    count: int
    acc: bytes
    immutables: Mapping[str, int]  # of `Rounds`, by name

    @property
    def spec_digest(self) -> bytes:
        return self.immutables["SPEC"].to_bytes(32, "big")


def read_evidence(data: bytes) -> Evidence:
    """The bundle's root block. Raises BundleError where it is none."""
    try:
        return Evidence.parse(data)
    except ObjectError as error:
        raise BundleError(f"the bundle's root block is no evidence: {error}") from error


def prove(evidence: Evidence) -> Proven:
    """What it shows. Raises BundleError where it shows nothing, or something else than it says."""
    header = _fields(evidence.header, "the block's header", 15, 64)
    nodes, layout = Nodes(evidence.nodes), rounds_layout()
    found = nodes.at(_bytes(header[STATE_ROOT], "the state root"), bytes.fromhex(evidence.rounds[2:]))
    if found is None:
        raise BundleError(
            f"the block's state has no account {evidence.rounds}: the header is of another chain, or too old"
        )
    account = _fields(found, "the account", 4, 4)
    if keccak(evidence.code) != account[CODE_HASH]:
        raise BundleError(f"the code in the bundle is not that of the account {evidence.rounds}")
    immutables = layout.held(evidence.code)
    storage = _Storage(nodes, _bytes(account[STORAGE_ROOT], "the account's storage root"), layout)
    stored = storage.struct("Stored", "_batches", evidence.index)
    node, round_ = f"0x{stored['node']:040x}", stored["round"]
    if stored["node"] == 0:
        raise BundleError(f"the contract has no batch {evidence.index} at that block")
    head = storage.struct("Head", "_heads", round_)
    if not head["first"] <= evidence.index < head["first"] + head["count"]:
        raise BundleError(f"batch {evidence.index} is not among those of its round {round_}")
    beacon = protocol.beacon(evidence.chain, evidence.rounds, round_, evidence.entropy)
    if beacon != storage.word(layout.at("_beacons", round_)).to_bytes(32, "big"):
        raise BundleError(f"round {round_} has not the beacon of this chain, contract and entropy")
    facts = BatchFacts(
        evidence.index,
        node,
        round_,
        stored["slots"],
        storage.word(layout.at("_policies", node, round_)).to_bytes(32, "big"),
        stored["manifest"].to_bytes(32, "big"),
        stored["root"].to_bytes(32, "big"),
        stored["claim"],
        chain_id=evidence.chain,
        rounds=evidence.rounds,
        beacon=beacon,
    )
    number, time = (int.from_bytes(_bytes(header[i], "a number in the header", 8), "big") for i in (NUMBER, TIME))
    acc = head["acc"].to_bytes(32, "big")
    return Proven(keccak(evidence.header), number, time, facts, head["first"], head["count"], acc, immutables)


def slots_of(index: int, node: str, round_: int) -> list[int]:
    """The storage slots of `Rounds` that `prove` looks at, for a batch of this node and round."""
    layout = rounds_layout()
    structs = (("Stored", layout.at("_batches", index)), ("Head", layout.at("_heads", round_)))
    found = [first + i for struct, first in structs for i in sorted({f.slot for f in layout.structs[struct].values()})]
    return [*found, layout.at("_beacons", round_), layout.at("_policies", node, round_)]


class _Storage:
    """An account's storage, as far as the nodes show it."""

    def __init__(self, nodes: Nodes, root: bytes, layout: Layout) -> None:
        self._nodes, self._root, self._layout = nodes, root, layout

    def word(self, slot: int) -> int:
        """The word at the slot; 0 where nothing is stored."""
        found = self._nodes.at(self._root, protocol.word(slot))
        if found is None:
            return 0
        value = _bytes(rlp.decode(found), "a word of storage", 32)
        return int.from_bytes(value, "big")

    def struct(self, struct: str, mapping: str, key: int) -> dict[str, int]:
        """The fields of a struct in a mapping."""
        first, fields = self._layout.at(mapping, key), self._layout.structs[struct]
        words = {slot: self.word(first + slot) for slot in {field.slot for field in fields.values()}}
        return {name: field.of(words[field.slot]) for name, field in fields.items()}


def _fields(data: bytes, what: str, least: int, most: int) -> list[rlp.Item]:
    items = rlp.decode_list(data, what)
    if not least <= len(items) <= most:
        raise BundleError(f"{what} has {len(items)} fields")
    return items


def _bytes(item: rlp.Item, what: str, most: int | None = None) -> bytes:
    """most: of how many bytes at most; None: exactly 32."""
    if not isinstance(item, bytes) or (len(item) != 32 if most is None else len(item) > most):
        raise BundleError(f"{what} is not what it should be")
    return item
