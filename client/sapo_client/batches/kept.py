"""The blocks that a node keeps: put to its daemon and noted, until the rounds that need them are final."""

from collections.abc import Iterable
from dataclasses import dataclass

from sapo_client.batches.pins import PinBook
from sapo_client.batches.spares import Spares
from sapo_verifier.cid import block_digest
from sapo_verifier.ipfs import BlockStore, StoreFailed
from sapo_verifier.schedule import KEEP_AFTER

SERVED = "GatewayBytesServed"  # in the embedded daemon's repo/stat; Kubo does not tell
_TRIES = 2  # to have a daemon keep what it took


@dataclass
class KeptBlocks:
    """The node's daemon, the book of what it is to keep, and copies of what the node owes itself."""

    store: BlockStore
    pins: PinBook
    spares: Spares

    def keep(self, blocks: Iterable[bytes], round_: int) -> None:
        """Put blocks to IPFS, to be served until the round is final plus a margin; the first one names the others.

        Whatever promises them on chain comes after this. Raises StoreFailed where the daemon does not have them then.
        """
        kept = {block_digest(block): block for block in blocks}
        if not kept:
            return
        # Noted first: a block that nobody noted would stay for ever.
        self.pins.keep(kept, round_ + KEEP_AFTER)
        missing = list(kept)
        for _ in range(_TRIES):
            for digest in missing:
                self.store.put(kept[digest])
            missing = [digest for digest in missing if not self.store.has(digest)]
            if not missing:
                break
        else:
            raise StoreFailed(
                f"the IPFS daemon took {len(kept)} blocks and does not have {len(missing)} of them, asked at once: see "
                "to its disk, and to what unpins and collects there"
            )
        self.spares.add(kept)

    def look_after(self, round_: int) -> str:
        """Put again what the daemon has lost of what this node owes; what happened, in words, or nothing.

        Asked is for the root of each lot: a store that was wiped, or collected, shows there. Raises StoreFailed.
        """
        again, lost = 0, 0
        for root in self.spares.roots():
            if not self.pins.holds(root):  # a lot that a crash left
                self.spares.drop(root)
            elif not self.store.has(root):
                for digest, block in self.spares.blocks(root):
                    if self.store.has(digest):
                        continue
                    again, lost = again + (block is not None), lost + (block is None)
                    if block is not None:
                        self.store.put(block)
        if not again and not lost:
            return ""
        words = f"in round {round_} the IPFS daemon had lost {again + lost} blocks that this node owes: {again} are put"
        words += " again from the copies here; see to what unpins and collects there"
        if lost:
            words += (
                f". The copies of {lost} are broken, too: peers cannot fetch them, and may find their batches void, "
                "which are not paid then"
            )
        return words

    def drop_old(self, round_: int) -> None:
        """Let go of what no round from `round_` on needs."""
        expired = self.pins.expired(round_)
        for digest in expired:
            self.store.unpin(digest)
            self.spares.drop(digest)
            self.pins.forget(digest)
        if expired and SERVED in self.store.stat():
            self.store.collect()  # a Kubo daemon may be shared, and collects by its own rules

    def traffic(self) -> tuple[int, int]:
        """Bytes so far: those that peers fetched from the embedded daemon, and those that were fetched from peers."""
        return int(self.store.stat().get(SERVED, 0)), self.store.bytes_down
