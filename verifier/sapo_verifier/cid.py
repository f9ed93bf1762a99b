"""Content addresses: a block's sha2-256 digest (what the chain holds) and its text form `bafkrei…` (what IPFS shows).

A CID here is always CIDv1, codec raw (0x55), sha2-256, base32 lower case without padding
(multiformats: CID specification; docs/protocol.md, section 1). Standard library only.
"""

import base64
import hashlib

from sapo_verifier.errors import ObjectError

BLOCK_LIMIT = 1 << 20
"""Largest block, in bytes (docs/protocol.md). Changing this breaks agreement on which blocks exist."""

# version 1, codec raw, multihash sha2-256, 32 bytes follow
_PREFIX = bytes([0x01, 0x55, 0x12, 0x20])
_TEXT_LENGTH = 59


def block_digest(data: bytes) -> bytes:
    """The sha2-256 digest (32 bytes) of a block's bytes."""
    return hashlib.sha256(data).digest()


def cid(digest: bytes) -> str:
    """The text form (59 characters, `bafkrei…`) of a 32-byte sha2-256 digest.

    Raises ObjectError if the digest does not have 32 bytes.
    """
    if len(digest) != 32:
        raise ObjectError(f"a block digest has 32 bytes, this one has {len(digest)}: {digest[:40].hex()}")
    return "b" + base64.b32encode(_PREFIX + digest).decode("ascii").rstrip("=").lower()


def digest_of(text: str) -> bytes:
    """The 32-byte digest in a CID's text form; the inverse of `cid`.

    Raises ObjectError for everything that `cid` does not write: other versions, codecs, hashes, bases, upper case,
    padding, and spare bits that are not zero. So one block has one name.
    """
    problem = f"not the CID of a raw sha2-256 block (bafkrei…, {_TEXT_LENGTH} characters): {text[:80]!r}"
    if len(text) != _TEXT_LENGTH or not text.isascii() or not text.startswith("b"):
        raise ObjectError(problem)
    try:
        binary = base64.b32decode(text[1:].upper() + "=" * (-len(text[1:]) % 8))
    except ValueError as error:
        raise ObjectError(problem) from error
    if binary[:4] != _PREFIX or cid(binary[4:]) != text:
        raise ObjectError(problem)
    return binary[4:]
