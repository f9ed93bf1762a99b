"""Whether what was published is still to be had: blocks are owed until a round is final (docs/protocol.md, 11).

Asked is the producer's own endpoint, for one random block of a batch; where it does not give it, some that accepted the
batch, whose copies are as good for whoever judges it. The own disk proves nothing to others, and is not asked.
"""

import logging
import secrets
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace

from sapo_client.batches.auditing import Auditor
from sapo_client.batches.pool import NOBODY, Holders
from sapo_verifier.audit import records_limit
from sapo_verifier.cid import BLOCK_LIMIT
from sapo_verifier.errors import ObjectError
from sapo_verifier.facts import BatchInfo
from sapo_verifier.ipfs import BlockError, EndpointError, GatewayReader, parse_endpoint
from sapo_verifier.objects import BatchManifest, GroupBlock, PolicyManifest

log = logging.getLogger(__name__)

LOOKS = 3  # at a batch, as far apart as the round allows
STANDSTILL = 20  # polls without a block after which the next look is due all the same: a devnet's chain waits for us
AT_A_TIME = 8
OWN_SECONDS = 5.0  # for a block of the own daemon

Wanted = tuple[bytes, int]  # a digest, and the bytes that the block may have


@dataclass(frozen=True)
class Wish:
    """Blocks of a batch that its producer is to give, or one of `holders`: other nodes that have fetched it."""

    batch: BatchInfo
    blocks: list[Wanted]
    holders: tuple[str, ...] = ()


@dataclass(frozen=True)
class Presence:
    """Looks at nodes' endpoints. peers: reads gateways and nothing else."""

    auditor: Auditor
    peers: GatewayReader

    def drawn(self, batches: Sequence[BatchInfo], *, every_kind: bool, holders: Holders = NOBODY) -> list[Wish]:
        """What to ask of each batch: a random block of one kind, or of every kind."""
        wishes = []
        for batch in batches:
            blocks = [secrets.choice(kind) for kind in self._kinds(batch)]
            kept = tuple(holders.get(batch.index, ()))
            wishes.append(Wish(batch, blocks if every_kind else [secrets.choice(blocks)], kept))
        return wishes

    def unserved(self, wishes: Sequence[Wish]) -> list[Wish]:
        """What neither the producers give nor any holder, of those wishes of which something is missing."""
        endpoints = self.auditor.endpoints([wish.batch for wish in wishes])
        left = self._missing(wishes, [endpoints[wish.batch.node] for wish in wishes])
        holders = sorted({node for wish in left for node in wish.holders})
        infos = self.auditor.reader.nodes_of(holders) if holders else []
        where = {info.node: info.endpoint for info in infos}
        for place in range(max((len(wish.holders) for wish in left), default=0)):
            asked = [wish for wish in left if place < len(wish.holders)]
            done = [wish for wish in left if place >= len(wish.holders)]
            left = done + self._missing(asked, [where[wish.holders[place]] for wish in asked])
        return left

    def _missing(self, wishes: Sequence[Wish], endpoints: Sequence[str]) -> list[Wish]:
        """What is not given, each wish's blocks by one endpoint."""
        asked = [(number, wanted) for number, wish in enumerate(wishes) for wanted in wish.blocks]
        with ThreadPoolExecutor(AT_A_TIME) as pool:
            served = list(pool.map(lambda a: self._serves(endpoints[a[0]], a[1]), asked))
        missing: dict[int, list[Wanted]] = {}
        for (number, wanted), is_served in zip(asked, served, strict=True):
            if not is_served:
                missing.setdefault(number, []).append(wanted)
        return [replace(wishes[number], blocks=blocks) for number, blocks in missing.items()]

    def _kinds(self, batch: BatchInfo) -> list[list[Wanted]]:
        """The batch's blocks by kind, so that none hides behind the others: one group of all, and its records.

        Names come from the own daemon's copies; without them only the two manifests are known.
        """
        kinds: list[list[Wanted]] = [[(batch.manifest, BLOCK_LIMIT)], [(batch.policy, BLOCK_LIMIT)]]
        with suppress(ObjectError):  # a copy that is lost here
            group = secrets.choice(BatchManifest.parse(self._own(batch.manifest)).groups)
            records = GroupBlock.parse(self._own(group)).records
            kinds += [[(group, BLOCK_LIMIT)], [(records, records_limit(self.auditor.spec))]]
        with suppress(ObjectError):
            weights = PolicyManifest.parse(self._own(batch.policy)).blocks
            kinds += [[(digest, BLOCK_LIMIT) for digest in weights]] if weights else []
        return kinds

    def _own(self, digest: bytes) -> bytes:
        """A block of the own daemon. Raises ObjectError if it has none."""
        found = self.auditor.store.get_many([(digest, BLOCK_LIMIT)], [], deadline=OWN_SECONDS)[digest]
        if not isinstance(found, bytes):
            raise ObjectError(f"block 0x{digest.hex()} is not at hand: {found}")
        return found

    def _serves(self, endpoint: str, wanted: Wanted) -> bool:
        try:
            if parse_endpoint(endpoint, allow_private=True).scheme == "libp2p":
                return True  # a daemon's network hides who gave a block
            self.peers.get(wanted[0], limit=wanted[1], peers=[endpoint])
        except (BlockError, EndpointError) as error:
            log.debug("not served: %s", error)
            return False
        return True


@dataclass
class Watch:
    """What is asked for until it comes, LOOKS times at most, spread over what is left of a round.

    What was not served is asked for again, that very block: who restarts, or is not to be reached for a while, is not
    gone; who serves some blocks and others not, is. controls: other producers' blocks, of which one has to come if none
    of `wishes` does: else the trouble is here.
    """

    presence: Presence
    wishes: Sequence[Wish]
    controls: Sequence[Wish]
    end: int  # the block of the chain by which the looks are to be over
    unserved: list[Wish] = field(init=False)  # what no look has got so far
    looks: int = 0
    _looked: int = -1  # the chain's block of the last look
    _seen: tuple[int, int] = (-1, 0)  # the latest one, and the polls since it came

    def __post_init__(self) -> None:
        self.unserved = list(self.wishes)

    @property
    def finished(self) -> bool:
        return not self.unserved or self.looks >= LOOKS

    def step(self, block: int) -> None:
        """One poll; block: the latest one. Looks if it is time to."""
        polls = self._seen[1] + 1 if block == self._seen[0] else 0
        self._seen = (block, polls)
        if not self.finished and self._is_due(block, polls):
            self.unserved = self.presence.unserved(self.unserved)
            self.looks += 1
            self._looked, self._seen = block, (block, 0)

    def _is_due(self, block: int, polls: int) -> bool:
        if self.looks == 0 or polls >= STANDSTILL or block < self._looked:
            return True
        return block >= self._looked + max(1, (self.end - self._looked) // (LOOKS - self.looks))

    def is_online(self) -> bool:
        """Whether anybody was found: where nobody is, this machine's own connection is the trouble."""
        found = len(self.unserved) < len(self.wishes)
        return found or len(self.presence.unserved(self.controls)) < len(self.controls)
