"""A node's own batch of a round: generated once for each beacon, submitted, and made again where its blocks were lost.

The beacon forces the batch, so making it again gives the same one, or else the round is given up in words.
"""

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sapo_client.batches.committed import committed_weights
from sapo_client.batches.ingest import training_groups
from sapo_client.batches.kept import KeptBlocks
from sapo_client.batches.publish import check_own, make_batch
from sapo_client.generation.engine import Engine
from sapo_client.generation.records import RecordStats
from sapo_client.policy.policy import Policy, Published
from sapo_client.training.sapo import Group, has_advantage
from sapo_client.transactions.outbox import Outbox
from sapo_verifier.audit import Audit, fetch_batch
from sapo_verifier.chain.contracts import Call
from sapo_verifier.chain.reader import ChainReader
from sapo_verifier.facts import BatchFacts
from sapo_verifier.spec import Spec
from sapo_verifier.tasks import TaskWorker


@dataclass(frozen=True)
class OwnRound:
    """What came of a round's own batch. skipped: why there is none, in words; then the rest is empty.

    positions, widened, repaired: of the records, where the batch was made now and not in an earlier run.
    """

    groups: list[Group]
    completions: int = 0
    reward: int = 0  # of them are right
    positions: int = 0
    widened: int = 0
    repaired: int = 0
    skipped: str = ""

    def counts(self) -> dict[str, Any]:
        """By the names that a round's report has for them."""
        return {
            "completions": self.completions,
            "reward": self.reward,
            "own_groups": len(self.groups),
            "own_with_advantage": sum(map(has_advantage, self.groups)),
            "positions": self.positions,
            "widened": self.widened,
            "repaired": self.repaired,
        }


@dataclass(frozen=True)
class OwnBatches:
    """Makes, serves and submits one batch a round."""

    reader: ChainReader
    outbox: Outbox
    blocks: KeptBlocks
    worker: TaskWorker
    policy: Policy
    engine: Engine
    spec: Spec
    node: str
    checkpoints: Path

    def key(self, round_: int, beacon: bytes) -> str:
        """The submission's name in the outbox. After a reorganization a round can have another beacon, and a batch that
        was made for the first one is no longer the round's."""
        first = f"submit/{round_}"
        stored = self.outbox.call_of(first)
        return first if stored is None or stored.args[2] == beacon else f"{first}/{beacon.hex()}"

    def publish(self, round_: int, beacon: bytes, latest: Published) -> OwnRound:
        """Generate, put the blocks to IPFS and submit, once.

        latest: the policy as it is now. Raises UnfitBatchError for a batch that our own checks refuse.
        """
        facts = self.dealt(round_, beacon)
        if facts is None:
            return OwnRound([], skipped="no policy was committed for this round in time")
        submitted = self._submitted(facts)
        if submitted is not None and (audit := self._fetched(submitted)) is not None:
            return own_round(audit, self.policy)
        with committed_weights(self.policy, latest, facts.policy, self.checkpoints) as published:
            if published is None:
                return OwnRound(
                    [],
                    skipped=f"the policy 0x{facts.policy.hex()}, committed for this round, is neither the base nor in "
                    "a checkpoint that is whole; the next rounds use the latest checkpoint",
                )
            batch = make_batch(self.spec, facts, self.policy, self.worker, self.engine)
            audit = check_own(self.spec, batch, published.manifest, self.policy, self.worker)
        if submitted and submitted.manifest != batch.facts.manifest:
            return OwnRound(
                [],
                skipped="blocks of the batch that was submitted are lost, and this machine makes another batch now: "
                "nobody can fetch the one on chain",
            )
        lost = [published.manifest, *published.blocks] if submitted else []
        self.blocks.keep([*batch.blocks.values(), *lost], round_)
        if submitted is None:
            self.submit(batch.facts)
        return own_round(audit, self.policy, batch.stats)

    def dealt(self, round_: int, beacon: bytes) -> BatchFacts | None:
        """What the chain fixes of the round's batch before it is made; None where no policy was committed in time."""
        committed = self.reader.policy_of(self.node, round_)
        if committed is None:
            return None
        deployment = self.reader.deployment
        return BatchFacts.dealt(
            deployment.chain_id,
            deployment.contracts.rounds,
            round_,
            self.node,
            beacon,
            committed.digest,
            committed.slots,
        )

    def submit(self, facts: BatchFacts) -> None:
        """Into the outbox, and on its way."""
        args = (facts.node, facts.round, facts.beacon, facts.manifest, facts.root, facts.claim)
        key, beacon = self.key(facts.round, facts.beacon), (facts.round, facts.beacon)
        self.outbox.put(key, Call("rounds", "submit", args), deadline_round=facts.round, beacon=beacon)
        self.outbox.pump()

    def _submitted(self, facts: BatchFacts) -> BatchFacts | None:
        """What was submitted for this beacon, as the outbox knows it, or the chain where the outbox was lost."""
        stored = self.outbox.call_of(self.key(facts.round, facts.beacon))
        if stored is not None:
            *_, manifest, root, claim = stored.args
            return facts.made(manifest, root, claim)  # type: ignore[arg-type]
        index = self.reader.batch_of(self.node, facts.round)
        if index is None:
            return None
        batch = self.reader.batch_at(index)
        return facts.made(batch.manifest, batch.root, batch.claim)

    def _fetched(self, facts: BatchFacts) -> Audit | None:
        """The batch of an earlier run, by the path that other nodes' batches take; None if a block of it is lost."""
        blocks = fetch_batch(self.blocks.store, self.spec, facts, [])
        if not all(isinstance(found, bytes) for found in blocks.values()):
            return None
        return Audit(facts, self.spec, blocks, self.worker, lambda _: self.policy.tokenizer)


def own_round(audit: Audit, policy: Policy, stats: RecordStats | None = None) -> OwnRound:
    """The groups of an own batch, and its counts. stats: of its records, where it was made now."""
    groups = training_groups(audit, policy, external=False)
    made = {} if stats is None else dataclasses.asdict(stats)
    return OwnRound(
        groups,
        completions=audit.facts.slots * audit.spec.group_size,
        reward=sum(int(sample.reward) for group in groups for sample in group.samples),
        **made,
    )
