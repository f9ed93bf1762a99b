"""How the vectors write numbers and bytes, and the fixed words that they are made of."""

import hashlib
from typing import Any

Case = dict[str, Any]

NOTATION = {
    "bytes": "0x and two hex digits for each byte",
    "integers": "a JSON number where it is small, else 0x and hex digits (64-bit: 16 of them, 256-bit: 64)",
    "logits": "float32 in decimal; -inf is minus infinity",
    "canonical": "bytes of a document in hex, and of what is refused also why",
}

CHAIN = 31337
ROUNDS = "0x5fbdb2315678afecb367f032d93f642f64180aa3"
NODES = ["0x" + f"{i:040x}" for i in (0, 1)] + ["0xf39fd6e51aad88f6f4ce6ab8827279cfffb92266", "0x" + "ff" * 20]


def digest(name: str) -> bytes:
    """A fixed word that looks like any hash."""
    return hashlib.sha256(f"vectors/{name}".encode()).digest()


def hexed(value: bytes) -> str:
    return "0x" + value.hex()


def u64(value: int) -> str:
    return f"0x{value:016x}"


def u256(value: int) -> str:
    return f"0x{value:064x}"


def records(n: int, name: str) -> bytes:
    """n packed records, with the extremes of every field among them."""
    from sapo_verifier.objects import Record

    made = [Record(0, 0, 0), Record(2**32 - 1, 2**64 - 1, 2**64 - 1), Record(7, 0, 2**64 - 1)]
    while len(made) < n:
        word = digest(f"{name}/{len(made)}")
        lo, last = sorted((int.from_bytes(word[4:12], "big"), int.from_bytes(word[12:20], "big")))
        made.append(Record(int.from_bytes(word[:4], "big") % 50_000, lo, last))
    return b"".join(record.encode() for record in made[:n])
