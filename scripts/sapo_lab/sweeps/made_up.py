"""Bundles of batches that no chain holds: a state, its tries and a header are made up around what the batch says."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache

from eth_hash.auto import keccak

from sapo_devnet.checkout import ROOT
from sapo_devnet.testkit.formula import ENTROPY, Sealed
from sapo_verifier.bundles import rlp
from sapo_verifier.bundles.car import car_header, car_section
from sapo_verifier.bundles.evidence import Evidence
from sapo_verifier.bundles.layout import WORD, rounds_layout
from sapo_verifier.cid import block_digest
from sapo_verifier.facts import BatchFacts
from sapo_verifier.protocol import word

TIME = 1_760_000_000
OTHERS = 20  # accounts, and words of storage, beside those that are asked for


@dataclass
class Trie:
    """A Merkle-Patricia trie of Ethereum's over keccak256 of its keys. nodes: all of them that have a hash."""

    items: Mapping[bytes, bytes]
    nodes: list[bytes] = field(default_factory=list)

    def root(self) -> bytes:
        """Its hash; fills `nodes`."""
        made = rlp.encode(self._node({keccak(key).hex(): value for key, value in self.items.items()}))
        self.nodes.append(made)
        return keccak(made)

    def _node(self, items: Mapping[str, bytes]) -> rlp.Item:
        (first, value), last = next(iter(items.items())), max(items)
        if len(items) == 1:
            return [_path(first, leaf=True), value]
        shared = next(i for i, (a, b) in enumerate(zip(min(items), last, strict=True)) if a != b)
        if shared:
            return [_path(first[:shared], leaf=False), self._child({key[shared:]: v for key, v in items.items()})]
        below = [{key[1:]: v for key, v in items.items() if key[0] == digit} for digit in "0123456789abcdef"]
        return [*(self._child(part) if part else b"" for part in below), b""]

    def _child(self, items: Mapping[str, bytes]) -> rlp.Item:
        made = self._node(items)
        if len(encoded := rlp.encode(made)) < 32:
            return made
        self.nodes.append(encoded)
        return keccak(encoded)


def _path(digits: str, *, leaf: bool) -> bytes:
    flag = 2 if leaf else 0
    return bytes.fromhex(f"{flag + 1:x}{digits}" if len(digits) % 2 else f"{flag:x}0{digits}")


@cache
def bare_code() -> bytes:
    """The code of `Rounds`, with zeros for its immutables."""
    artifact = json.loads((ROOT / "out" / "Rounds.sol" / "Rounds.json").read_text(encoding="utf-8"))
    return bytes.fromhex(artifact["deployedBytecode"]["object"].removeprefix("0x"))


def code_of(**immutables: int) -> bytes:
    """The code of a `Rounds` that holds these, and 0 for others."""
    code = bytearray(bare_code())
    for name, offsets in rounds_layout().immutables.items():
        for at in offsets:
            code[at : at + WORD] = word(immutables.get(name, 0))
    return bytes(code)


def storage_of(facts: BatchFacts) -> dict[int, int]:
    """What `Rounds` stores of the batch; it is its round's only one. Words that are 0 are not stored."""
    layout = rounds_layout()
    numbers = {
        "Stored": {"node": int(facts.node, 16), "round": facts.round, "slots": facts.slots, "claim": facts.claim}
        | {name: int.from_bytes(getattr(facts, name), "big") for name in ("manifest", "root")},
        "Head": {"first": facts.index, "count": 1, "acc": 1},
    }
    places = {"Stored": layout.at("_batches", facts.index), "Head": layout.at("_heads", facts.round)}
    made = {
        layout.at("_beacons", facts.round): int.from_bytes(facts.beacon, "big"),
        layout.at("_policies", facts.node, facts.round): int.from_bytes(facts.policy, "big"),
    }
    for struct, at in places.items():
        for name, where in layout.structs[struct].items():
            slot = at + where.slot
            made[slot] = made.get(slot, 0) | numbers[struct][name] << 8 * where.offset
    return {slot: value for slot, value in made.items() if value}


def evidence_of(
    facts: BatchFacts, *, entropy: bytes = ENTROPY, storage: Mapping[int, int] | None = None, **immutables: int
) -> Evidence:
    """What would prove the facts, had a chain such a block. storage: instead of what the facts say."""
    code = code_of(**immutables)
    stored = {word(10**6 + i): rlp.encode(rlp.number(1 + i)) for i in range(OTHERS)}
    held = storage_of(facts) if storage is None else storage
    stored |= {word(slot): rlp.encode(rlp.number(value)) for slot, value in held.items()}
    inner = Trie(stored)
    accounts = {
        bytes(19) + bytes([i]): rlp.encode([b"", rlp.number(i), keccak(b"\x80"), keccak(b"")]) for i in range(OTHERS)
    }
    accounts[bytes.fromhex(facts.rounds[2:])] = rlp.encode([b"\1", b"", inner.root(), keccak(code)])
    outer = Trie(accounts)
    header: list[rlp.Item] = [bytes(32)] * 15
    header[3], header[8], header[11] = outer.root(), rlp.number(1000), rlp.number(TIME)
    return Evidence(
        chain=facts.chain_id,
        rounds=facts.rounds,
        index=facts.index,
        entropy=entropy,
        header=rlp.encode(header),
        code=code,
        nodes=[*outer.nodes, *inner.nodes],
    )


def sections_of(sealed: Sealed) -> dict[bytes, bytes]:
    """The blocks of a bundle of the batch, by the digests that name them; evidence first, then the spec."""
    spec = sealed.spec.encode()
    facts = evidence_of(sealed.facts, SPEC=int.from_bytes(block_digest(spec), "big")).encode()
    own = {block_digest(facts): facts, block_digest(spec): spec}
    return own | {name: found for name, found in sealed.blocks.items() if isinstance(found, bytes)}


def car_of(sections: Mapping[bytes, bytes]) -> bytes:
    """A file whose root is the first of the blocks, each under the digest that it is given."""
    root = next(iter(sections))
    return car_header(root) + b"".join(car_section(digest, data) for digest, data in sections.items())
