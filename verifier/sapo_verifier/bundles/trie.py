"""Merkle-Patricia proofs: what a trie of Ethereum's holds at a key, shown by its nodes.

Every node is looked up by its keccak256, so that there is nothing to trust in how they came; a walk takes a digit of
the key at every node, or ends.
"""

from collections.abc import Iterable

from eth_hash.auto import keccak

from sapo_verifier.bundles import rlp
from sapo_verifier.bundles.errors import BundleError

MAX_NODES = 1024
MAX_NODE_BYTES = 1024  # a branch of 16 hashes has 532
EMPTY_ROOT = keccak(b"\x80")


class Nodes:
    """Nodes of any tries, by their hash."""

    def __init__(self, nodes: Iterable[bytes]) -> None:
        self._nodes = {keccak(node): node for node in nodes}

    def at(self, root: bytes, key: bytes) -> bytes | None:
        """What the trie with this root holds at keccak256 of `key`; None where the nodes show that it holds nothing.

        Raises BundleError where a node that tells is not here, or is none.
        """
        if root == EMPTY_ROOT:
            return None
        path = _digits(keccak(key))
        node: rlp.Item = root
        while True:
            items = self._items(node)
            if len(items) == 17:
                if not path:
                    raise BundleError("a trie's branch lies at the end of a key")
                node, path = items[path[0]], path[1:]
                if node == b"":
                    return None
                continue
            ends, part = _prefix(items[0])
            if ends:
                return _value(items[1]) if path == part else None
            if path[: len(part)] != part:
                return None
            node, path = items[1], path[len(part) :]

    def _items(self, node: rlp.Item) -> list[rlp.Item]:
        """A node's fields: two or 17. node: its hash, or itself where it is short enough to lie in its parent."""
        if isinstance(node, bytes):
            if node not in self._nodes:
                raise BundleError(f"the trie's node 0x{node[:32].hex()} is missing")
            node = rlp.decode_list(self._nodes[node], "a trie's node")
        if len(node) not in (2, 17):
            raise BundleError(f"a trie's node has {len(node)} fields, not 2 or 17")
        return node


def _prefix(item: rlp.Item) -> tuple[bool, bytes]:
    """The digits that a short node stands for, and whether it is a leaf."""
    if not isinstance(item, bytes) or not item or item[0] >= 0x40:
        raise BundleError("a trie's node has no valid path")
    digits = _digits(item)
    ends, odd = item[0] & 0x20 != 0, item[0] & 0x10 != 0
    part = digits[1 if odd else 2 :]
    if (not odd and digits[1]) or not (ends or part):
        raise BundleError("a trie's node has no valid path")
    return ends, part


def _value(item: rlp.Item) -> bytes:
    if not isinstance(item, bytes) or not item:
        raise BundleError("a trie's leaf holds no value")
    return item


def _digits(data: bytes) -> bytes:
    """The hexadecimal digits, one a byte."""
    return bytes(digit for byte in data for digit in (byte >> 4, byte & 15))
