"""A node of whose parts an attack exchanges some: its batches, its service, its policy or its votes."""

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import ClassVar

from sapo_client.batches.kept import KeptBlocks
from sapo_client.batches.own_batch import OwnBatches
from sapo_client.batches.pool import Pool
from sapo_client.batches.publish import Batch, make_batch
from sapo_client.batches.submitting import OwnRound
from sapo_client.duties.duties import Duties
from sapo_client.duties.verdicts import Verdicts
from sapo_client.node.compose import Makers
from sapo_client.node.learner import Learner
from sapo_client.policy.policy import Policy
from sapo_client.policy.published import Published
from sapo_verifier.facts import BatchFacts

PATIENCE_SECONDS = 20.0  # for what another node has to do first


@dataclass(frozen=True)
class HostileBatches(OwnBatches):
    """Submits what `make` gives and serves what `served` says; its own checks are not asked, and nothing is learned."""

    make: Callable[["HostileBatches", BatchFacts], Batch | None]
    served: Callable[[Batch], Iterable[bytes]]

    def publish(self, round_: int, beacon: bytes, latest: Published) -> OwnRound:
        facts = self.dealt(round_, beacon)
        if facts is None or self.outbox.call_of(self.key(round_, beacon)) is not None:
            return OwnRound([], skipped="nothing is committed, or it is submitted already")
        batch = self.make(self, facts)
        if batch is None:
            return OwnRound([], skipped="by intent")
        self.blocks.keep(self.served(batch), round_)
        self.submit(batch.facts)
        return OwnRound([], completions=facts.slots * self.spec.group_size, reward=batch.facts.claim.bit_count())

    def honest(self, facts: BatchFacts) -> Batch:
        return make_batch(self.spec, facts, self.policy, self.worker)

    def wait_for(self, found: Callable[[], Batch | None]) -> Batch | None:
        """What another node's transaction makes possible; None if it takes too long."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while (batch := found()) is None and time.monotonic() < deadline:
            self.outbox.pump()
            time.sleep(0.2)
        return batch


class HostileLearner(Learner):
    """Commits to what `committed` makes of its policy. It never learns, as its batches give it nothing."""

    def __init__(self, *args: object, committed: Callable[[Policy, Published], Published]) -> None:
        super().__init__(*args)  # type: ignore[arg-type]
        self._committed = committed

    def resume(self) -> None:
        super().resume()
        self.published = self._committed(self.policy, self.published)


class Accomplice(Duties):
    """Votes as it found, but denounces nobody: a bounty would hide what the attack itself costs."""

    def denounce(self, current: int) -> None:
        pass


class Adversary:
    """One attack. Subclasses override a step, or name another part."""

    blocks: ClassVar[type[KeptBlocks]] = KeptBlocks
    pool: ClassVar[type[Pool]] = Pool
    verdicts: ClassVar[type[Verdicts]] = Verdicts
    duties: ClassVar[type[Duties]] = Accomplice

    def prepare(self, home: Path) -> None:
        """Before anything is started."""

    def make(self, own: HostileBatches, facts: BatchFacts) -> Batch | None:
        """The batch to submit; None for none."""
        return own.honest(facts)

    def served(self, batch: Batch) -> Iterable[bytes]:
        """Which of its blocks others can fetch."""
        return batch.blocks.values()

    def committed(self, policy: Policy, honest: Published) -> Published:
        """The policy to commit."""
        return honest

    def makers(self) -> Makers:
        """What the node is composed with."""
        return Makers(
            blocks=self.blocks,
            pool=self.pool,
            own=partial(HostileBatches, make=self.make, served=self.served),
            learner=partial(HostileLearner, committed=self.committed),
            verdicts=self.verdicts,
            duties=self.duties,
        )
