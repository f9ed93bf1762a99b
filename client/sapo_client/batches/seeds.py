"""The secret that salts a node's stage-1 verdicts on a round, and that its policy of the round vouches for.

A policy manifest has `audit`, the hash of a seed (docs/protocol.md, Objects), which is committed before anybody knows
what there will be to judge; the node's verdicts on the round then have no other salt. Seeds follow from the operator's
key, so that a crash loses none; from nothing else, so that nobody else can know one before it is revealed.
"""

import hashlib
import hmac
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Self

from eth_hash.auto import keccak

from sapo_verifier.chain.reader import ChainReader
from sapo_verifier.cid import BLOCK_LIMIT
from sapo_verifier.ipfs import BlockStore, StoreFailed
from sapo_verifier.objects import PolicyManifest
from sapo_verifier.protocol import TAG_PREFIX, Word, word

if TYPE_CHECKING:
    from eth_account.signers.local import LocalAccount

OWN_SECONDS = 5.0  # for a block of the own daemon


@dataclass(frozen=True)
class Seeds:
    """Of one node, as one operator key gives them. store: the node's daemon, where its policies' manifests are."""

    node: str  # the owner's address
    reader: ChainReader
    store: BlockStore
    secret: bytes = field(repr=False)  # of the key; the key does not follow from it

    @classmethod
    def of(cls, account: "LocalAccount", node: str, reader: ChainReader, store: BlockStore) -> Self:
        secret = hmac.digest(bytes(account.key), f"{TAG_PREFIX}seeds".encode(), hashlib.sha256)
        return cls(node, reader, store, secret)

    def seed(self, round_: int) -> bytes:
        """32 secret bytes, the same at every call."""
        deployment = self.reader.deployment
        about: tuple[Word, ...] = (deployment.chain_id, deployment.contracts.rounds, self.node, round_)
        return hmac.digest(self.secret, b"".join(map(word, about)), hashlib.sha256)

    def audit(self, round_: int) -> bytes:
        """What the manifest of a policy says that is committed for the round."""
        return keccak(self.seed(round_))

    def audits(self, round_: int, digest: bytes) -> list[bytes]:
        """What a policy may say that was committed for the round as `digest`: this key's audit, and the manifest's own
        where it is at hand, as another key may have made it. Raises StoreFailed."""
        manifest = self._manifest(digest)
        return list(dict.fromkeys([self.audit(round_), *([] if manifest is None else [manifest.audit])]))

    def why_none(self, round_: int) -> str:
        """Why this node is to commit no stage-1 verdicts on a round: it does not hold the seed of its own policy there.
        Nothing where it does, or has no policy there. Raises StoreFailed."""
        committed = self.reader.policy_of(self.node, round_)
        if committed is None:
            return ""
        manifest = self._manifest(committed.digest)
        if manifest is None:
            return (
                f"the manifest of its policy 0x{committed.digest.hex()} is not in its IPFS daemon any more, so it "
                "cannot tell which salt they have to have"
            )
        if manifest.audit != self.audit(round_):
            return "its policy of that round was made with another operator key, whose secret their salt has to be"
        return ""

    def _manifest(self, digest: bytes) -> PolicyManifest | None:
        """One of the node's own. Raises StoreFailed where the daemon cannot tell."""
        found = self.store.get_many([(digest, BLOCK_LIMIT)], [], deadline=OWN_SECONDS)[digest]
        if isinstance(found, StoreFailed):
            raise found
        return PolicyManifest.parse(found) if isinstance(found, bytes) else None
