"""The blocks that a node keeps: put to its daemon and noted, until the rounds that need them are final."""

from collections.abc import Iterable
from dataclasses import dataclass

from sapo_client.batches.pins import PinBook
from sapo_verifier.cid import block_digest
from sapo_verifier.ipfs import BlockStore
from sapo_verifier.schedule import KEEP_AFTER

SERVED = "GatewayBytesServed"  # in the embedded daemon's repo/stat; Kubo does not tell


@dataclass
class KeptBlocks:
    """The node's daemon, and the book of what it is to keep."""

    store: BlockStore
    pins: PinBook

    def keep(self, blocks: Iterable[bytes], round_: int) -> None:
        """Put blocks to IPFS, to be served until the round is final plus a margin."""
        kept = list(blocks)
        # Noted first: a block that nobody noted would stay for ever.
        self.pins.keep(map(block_digest, kept), round_ + KEEP_AFTER)
        for block in kept:
            self.store.put(block)

    def drop_old(self, round_: int) -> None:
        """Let go of what no round from `round_` on needs."""
        expired = self.pins.expired(round_)
        for digest in expired:
            self.store.unpin(digest)
            self.pins.forget(digest)
        if expired and SERVED in self.store.stat():
            self.store.collect()  # a Kubo daemon may be shared, and collects by its own rules

    def traffic(self) -> tuple[int, int]:
        """Bytes so far: those that peers fetched from the embedded daemon, and those that were fetched from peers."""
        return int(self.store.stat().get(SERVED, 0)), self.store.bytes_down
