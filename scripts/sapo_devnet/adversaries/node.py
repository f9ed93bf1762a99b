"""A node whose batch, service or votes a subclass falsifies; everything else is the client's own."""

import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import sapo_client.node.loop
from sapo_client.batches.own_batch import OwnBatches
from sapo_client.batches.publish import Batch, Dealt, make_batch
from sapo_client.duties.voting import Voting
from sapo_client.node.loop import Node, Parts
from sapo_client.policy.policy import Published
from sapo_client.state.report import RoundReport
from sapo_client.training.sapo import Group
from sapo_verifier.chain.contracts import Call

PATIENCE_SECONDS = 20.0  # for what another node has to do first


@dataclass(frozen=True)
class HostileBatches(OwnBatches):
    """Submits what `make` gives and serves what `served` says; its own checks are not asked, and nothing is learned."""

    make: Callable[["HostileBatches", Dealt], Batch | None]
    served: Callable[[Batch], Iterable[bytes]]

    def publish(self, round_: int, beacon: bytes, latest: Published, report: RoundReport) -> list[Group]:
        committed = self.reader.policy_of(self.node, round_)
        key = self.key(round_, beacon)
        if committed is None or self.outbox.call_of(key) is not None:
            report.skipped = "nothing is committed, or it is submitted already"
            return []
        deployment = self.reader.deployment
        rounds = deployment.contracts.rounds
        dealt = Dealt(deployment.chain_id, rounds, round_, self.node, beacon, committed.digest, committed.slots)
        batch = self.make(self, dealt)
        if batch is None:
            report.skipped = "by intent"
            return []
        self.keep(self.served(batch), round_)
        args = (self.node, round_, beacon, batch.manifest, batch.root, batch.claim)
        self.outbox.put(key, Call("rounds", "submit", args), deadline_round=round_)
        self.outbox.pump()
        report.completions, report.reward = dealt.slots * self.spec.group_size, batch.claim.bit_count()
        return []

    def honest(self, dealt: Dealt) -> Batch:
        return make_batch(self.spec, dealt, self.policy, self.worker)

    def wait_for(self, found: Callable[[], Batch | None]) -> Batch | None:
        """What another node's transaction makes possible; None if it takes too long."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while (batch := found()) is None and time.monotonic() < deadline:
            self.outbox.pump()
            time.sleep(0.2)
        return batch


class Accomplice(Voting):
    """Votes as it found, but denounces nobody: a bounty would hide what the attack itself costs."""

    def _denounce(self, current: int) -> None:
        pass


class HostileNode(Node):
    """Subclasses override a step. voting: what decides about votes."""

    voting: ClassVar[type[Voting]] = Accomplice

    @classmethod
    def prepare(cls, home: Path) -> None:
        """Before anything is started."""

    def __init__(self, parts: Parts, stop: threading.Event) -> None:
        super().__init__(parts, stop)
        self._own = HostileBatches(**vars(self._own), make=self.make, served=self.served)
        setattr(sapo_client.node.loop, "Voting", self.voting)  # noqa: B010 - the one place that makes one

    def make(self, own: HostileBatches, dealt: Dealt) -> Batch | None:
        """The batch to submit; None for none."""
        return own.honest(dealt)

    def served(self, batch: Batch) -> Iterable[bytes]:
        """Which of its blocks others can fetch."""
        return batch.blocks.values()

    def committed(self, honest: Published) -> Published:
        """The policy to commit."""
        return honest

    def _resume(self) -> None:
        super()._resume()
        self._learner.published = self.committed(self._learner.published)
