"""A policy as others get it. Without torch."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Published:
    """A checkpoint as its manifest and raw blocks; `digest` is what goes on chain."""

    manifest: bytes
    blocks: list[bytes]
    digest: bytes
