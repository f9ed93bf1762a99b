"""The contracts' ABIs and code, and how calls, answers and logs turn into Python and back.

Decoding never fails on what a peer wrote: a string that is no UTF-8 is read with U+FFFD (web3 raises there, so one
node's endpoint would stop every reader).
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any, Self, TypeAlias

from eth_abi.abi import decode, encode
from eth_abi.exceptions import DecodingError, EncodingError
from eth_utils.crypto import keccak

# A contract's name in the deployment file, and its name in Solidity.
SOLIDITY_NAMES = {
    "nodes": "Nodes",
    "beacon": "BlockhashBeacon",
    "rounds": "Rounds",
    "audits": "Audits",
    "disputes": "Disputes",
    "proofs": "Proofs",
    "rewards": "Rewards",
    "token": "SapoToken",
}
# What a call may name: these, and the beacon as one that waits for drand, where it is one.
_INTERFACES = SOLIDITY_NAMES | {"drand": "DrandBeacon"}


@cache
def abi(solidity_name: str) -> list[dict[str, Any]]:
    """The exported ABI (`scripts/export-abi` writes it)."""
    file = resources.files("sapo_verifier.chain") / "abi" / f"{solidity_name}.json"
    loaded: list[dict[str, Any]] = json.loads(file.read_text())
    return loaded


def creation_code(solidity_name: str) -> bytes:
    """What deploys the contract, without its constructor's arguments (`scripts/export-abi` writes it).

    Beside it lies the compiler's metadata, whose hash is in the code: with it anybody verifies the source.
    """
    file = resources.files("sapo_verifier.chain") / "code" / f"{solidity_name}.hex"
    return bytes.fromhex(file.read_text())


@cache
def abi_names() -> tuple[str, ...]:
    """The Solidity names of all exported ABIs, sorted."""
    folder = resources.files("sapo_verifier.chain") / "abi"
    return tuple(sorted(f.name.removesuffix(".json") for f in folder.iterdir() if f.name.endswith(".json")))


@cache
def function(contract: str, name: str) -> dict[str, Any]:
    """The ABI entry of a function. `contract` as in the deployment file. Raises ValueError for unknown names."""
    if contract not in _INTERFACES:
        raise ValueError(f"no contract {contract!r}: the contracts are {', '.join(SOLIDITY_NAMES)}")
    for entry in abi(_INTERFACES[contract]):
        if entry["type"] == "function" and entry["name"] == name:
            return entry
    raise ValueError(f"the contract {_INTERFACES[contract]} has no function {name!r}")


def abi_type(entry: dict[str, Any]) -> str:
    """The type as it stands in signatures: tuples spelt out."""
    kind: str = entry["type"]
    if not kind.startswith("tuple"):
        return kind
    return f"({','.join(map(abi_type, entry['components']))}){kind.removeprefix('tuple')}"


def signature_hash(entry: dict[str, Any]) -> bytes:
    """keccak256 of a function's, event's or error's signature: its first four bytes are the selector."""
    return keccak(text=f"{entry['name']}({','.join(map(abi_type, entry['inputs']))})")


Argument: TypeAlias = "int | bytes | str | tuple[Argument, ...]"


@dataclass(frozen=True)
class Call:
    """A contract call, to be encoded later: `Call("rounds", "submit", (node, 17, beacon, …))`.

    args: ints, bytes, 0x addresses, and tuples of them for structs and arrays, in the function's order.
    """

    contract: str  # as in the deployment file
    function: str
    args: tuple[Argument, ...] = ()

    def encode(self) -> bytes:
        """Selector and arguments. Raises ValueError where they do not fit the ABI."""
        entry = function(self.contract, self.function)
        if len(entry["inputs"]) != len(self.args):
            names = ", ".join(given["name"] for given in entry["inputs"])
            raise ValueError(f"{self.function} takes ({names}), not {len(self.args)} arguments")
        try:
            return signature_hash(entry)[:4] + encode([abi_type(given) for given in entry["inputs"]], self.args)
        except (EncodingError, TypeError, ValueError) as error:
            raise ValueError(f"{self.function}: an argument does not fit the contract: {error}") from error

    def decode(self, answer: bytes) -> Any:
        """What the call returned: one value, or a tuple. Raises DecodingError where the answer is too short."""
        values = decode_values(function(self.contract, self.function)["outputs"], answer)
        return values[0] if len(values) == 1 else values

    def to_json(self) -> str:
        args = [_to_json(value) for value in self.args]
        return json.dumps({"contract": self.contract, "function": self.function, "args": args})

    @classmethod
    def from_json(cls, text: str) -> Self:
        stored = json.loads(text)
        return cls(stored["contract"], stored["function"], tuple(_from_json(value) for value in stored["args"]))


def _to_json(value: Argument) -> Any:
    if isinstance(value, tuple):
        return [_to_json(item) for item in value]
    return {"bytes": "0x" + value.hex()} if isinstance(value, bytes) else value


def _from_json(value: Any) -> Argument:
    if isinstance(value, list):
        return tuple(_from_json(item) for item in value)
    return bytes.fromhex(value["bytes"][2:]) if isinstance(value, dict) else value


def decode_values(entries: Sequence[dict[str, Any]], data: bytes) -> tuple[Any, ...]:
    """ABI-encoded values in this project's forms: bytes32 as bytes, addresses lower case, structs as tuples.

    Raises DecodingError where the data is not an encoding of them.
    """
    # bytes and string are encoded alike; decoding as bytes leaves what to do with bad UTF-8 to _plain.
    kinds = [abi_type(entry).replace("string", "bytes") for entry in entries]
    try:
        values = decode(kinds, data)
    except OverflowError as error:  # a length or an offset beyond what Python can read or seek
        raise DecodingError(str(error)) from error
    return tuple(_plain(entry, value) for entry, value in zip(entries, values, strict=True))


def _plain(entry: dict[str, Any], value: Any) -> Any:
    if entry["type"] == "tuple":
        return tuple(_plain(part, item) for part, item in zip(entry["components"], value, strict=True))
    if entry["type"] == "address":
        return str(value).lower()
    if entry["type"] == "string":
        return value.decode("utf-8", "replace")
    return value


__all__ = [
    "SOLIDITY_NAMES",
    "Call",
    "DecodingError",
    "abi",
    "abi_names",
    "abi_type",
    "creation_code",
    "decode_values",
    "signature_hash",
]
