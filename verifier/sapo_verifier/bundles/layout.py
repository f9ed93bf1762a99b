"""Where `Rounds` keeps what the evidence proves: storage slots, and immutables in its code (`scripts/export-abi`)."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources

from eth_hash.auto import keccak

from sapo_verifier.bundles.errors import BundleError
from sapo_verifier.protocol import Word, word

WORD = 32


@dataclass(frozen=True)
class Field:
    """A field of a struct in storage. slot: counted from the struct's first; offset: bytes from the word's low end."""

    slot: int
    offset: int
    size: int

    def of(self, value: int) -> int:
        """The field in its word."""
        return value >> 8 * self.offset & (1 << 8 * self.size) - 1


@dataclass(frozen=True)
class Layout:
    """The compiler's, of one contract. code: keccak256 of its code with zeros for every immutable."""

    code: bytes
    immutables: Mapping[str, tuple[int, ...]]
    slots: Mapping[str, int]
    structs: Mapping[str, Mapping[str, Field]]

    def held(self, code: bytes) -> dict[str, int]:
        """The immutables in a contract's code. Raises BundleError where it is another contract's, or they differ."""
        bare, found = bytearray(code), {}
        for name, offsets in self.immutables.items():
            values = {code[at : at + WORD] for at in offsets}
            if len(values) != 1 or len(value := values.pop()) != WORD:
                raise BundleError(f"the contract's code does not hold {name}: it is no `Rounds` of this version")
            found[name] = int.from_bytes(value, "big")
            for at in offsets:
                bare[at : at + WORD] = bytes(WORD)
        if keccak(bytes(bare)) != self.code:
            raise BundleError(
                "the contract's code is not that of this version's `Rounds`; take the auditor's version that fits"
            )
        return found

    def at(self, name: str, *keys: Word) -> int:
        """The slot of an entry of a mapping, or of a mapping in one: keccak256(key ‖ slot), key by key."""
        slot = self.slots[name]
        for key in keys:
            slot = int.from_bytes(keccak(word(key) + word(slot)), "big")
        return slot


@cache
def rounds_layout() -> Layout:
    """That of `Rounds`, as this package brings it."""
    text = (resources.files("sapo_verifier.chain") / "code" / "Rounds.layout.json").read_text()
    found = json.loads(text)
    return Layout(
        bytes.fromhex(found["code"].removeprefix("0x")),
        {name: tuple(offsets) for name, offsets in found["immutables"].items()},
        found["storage"],
        {name: {key: Field(**field) for key, field in fields.items()} for name, fields in found["structs"].items()},
    )
