"""RLP, as Ethereum's headers, accounts and trie nodes are written. Only what is written as it must be is read."""

from typing import TypeAlias

from sapo_verifier.bundles.errors import BundleError

Item: TypeAlias = "bytes | list[Item]"
MAX_DEPTH = 8  # an embedded node is three levels below its branch


def encode(item: Item) -> bytes:
    """Bytes, or a list of items."""
    if isinstance(item, bytes):
        return item if len(item) == 1 and item[0] < 0x80 else _head(0x80, len(item)) + item
    body = b"".join(map(encode, item))
    return _head(0xC0, len(body)) + body


def number(value: int) -> bytes:
    """How a number is written: big-endian, without leading zeros; 0 is no bytes."""
    return value.to_bytes((value.bit_length() + 7) // 8, "big")


def decode(data: bytes) -> Item:
    """The one item that the bytes are. Raises BundleError for anything else, also for another way to write it."""
    item, end = _item(data, 0, len(data), 0)
    if end != len(data):
        raise BundleError("RLP with bytes left over")
    return item


def decode_list(data: bytes, what: str) -> list[Item]:
    """The same of a list. what: names it in the error."""
    item = decode(data)
    if not isinstance(item, list):
        raise BundleError(f"{what} is no RLP list")
    return item


def _head(kind: int, length: int) -> bytes:
    if length < 56:
        return bytes([kind + length])
    size = number(length)
    return bytes([kind + 55 + len(size)]) + size


def _item(data: bytes, at: int, end: int, depth: int) -> tuple[Item, int]:
    """The item that begins at `at`, and where it ends; none of it lies at or behind `end`."""
    if at >= end:
        raise BundleError("RLP that is cut off")
    first = data[at]
    if first < 0x80:
        return data[at : at + 1], at + 1
    is_list, short = first >= 0xC0, first - (0xC0 if first >= 0xC0 else 0x80)
    at += 1
    length = short
    if short > 55:
        size = data[at : min(at + short - 55, end)]
        at += short - 55
        length = int.from_bytes(size, "big")
        if len(size) != short - 55 or size[0] == 0 or length < 56:
            raise BundleError("RLP with a length that is not written as it must be")
    if at + length > end:
        raise BundleError("RLP that is cut off")
    if not is_list:
        text = data[at : at + length]
        if length == 1 and text[0] < 0x80:
            raise BundleError("RLP with a byte that is not written as it must be")
        return text, at + length
    if depth == MAX_DEPTH:
        raise BundleError(f"RLP that is nested more than {MAX_DEPTH} levels deep")
    items: list[Item] = []
    inner = at
    while inner < at + length:
        item, inner = _item(data, inner, at + length, depth + 1)
        items.append(item)
    return items, inner
