"""A policy as others get it. Without torch."""

from dataclasses import dataclass

from sapo_verifier.cid import block_digest
from sapo_verifier.objects import PolicyManifest


@dataclass(frozen=True)
class Published:
    """A checkpoint as its manifest and raw blocks; `digest` is what goes on chain."""

    manifest: bytes
    blocks: list[bytes]
    digest: bytes

    @classmethod
    def of(cls, manifest: bytes, blocks: list[bytes]) -> "Published":
        return cls(manifest, blocks, block_digest(manifest))

    def under(self, audit: bytes) -> "Published":
        """The same weights as they are committed for a round: with that round's `audit`, and so another digest."""
        return Published.of(PolicyManifest.parse(self.manifest).under(audit).encode(), self.blocks)
