"""A node's own batch of a round: generated once for each beacon, submitted, and made again where its blocks were lost.

The beacon forces the batch, so making it again gives the same one, or else the round is given up in words.
"""

import dataclasses
from dataclasses import dataclass
from pathlib import Path

from sapo_client.batches.committed import committed_weights
from sapo_client.batches.ingest import training_groups
from sapo_client.batches.publish import check_own, make_batch
from sapo_client.batches.seeds import Seeds
from sapo_client.batches.submitting import OwnRound, Submissions
from sapo_client.generation.engine import Engine
from sapo_client.generation.records import RecordStats
from sapo_client.policy.policy import Policy
from sapo_client.policy.published import Published
from sapo_client.training.groups import Group
from sapo_verifier.audit import Audit, fetch_batch
from sapo_verifier.facts import BatchFacts
from sapo_verifier.ipfs import StoreFailed


@dataclass(frozen=True)
class OwnBatches(Submissions):
    """Makes, serves and submits one batch a round."""

    policy: Policy
    engine: Engine
    checkpoints: Path
    seeds: Seeds

    def publish(self, round_: int, beacon: bytes, latest: Published) -> OwnRound:
        """Generate, put the blocks to IPFS and submit, once.

        latest: the policy as it is now, before any round's `audit`. Raises UnfitBatchError for a batch that our own
        checks refuse.
        """
        facts = self.dealt(round_, beacon)
        if facts is None:
            return OwnRound([], skipped=self.why_none())
        submitted = self.submitted(facts)
        if submitted is not None and (audit := self._fetched(submitted)) is not None:
            return own_round(audit, self.policy)
        audits = self.seeds.audits(round_, facts.policy)
        with committed_weights(self.policy, latest, facts.policy, audits, self.checkpoints) as published:
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
        if submitted is not None:
            self.blocks.keep([published.manifest, *published.blocks], round_)
        self.blocks.keep([batch.blocks[batch.facts.manifest], *batch.blocks.values()], round_)
        if submitted is None:
            self.submit(batch.facts)
        return own_round(audit, self.policy, batch.stats)

    def _fetched(self, facts: BatchFacts) -> Audit | None:
        """The batch of an earlier run, by the path that other nodes' batches take; None if a block of it is lost.

        Raises StoreFailed where the daemon cannot tell.
        """
        blocks = fetch_batch(self.blocks.store, self.spec, facts, [])
        for found in blocks.values():
            if isinstance(found, StoreFailed):
                raise found
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
        datasets=_by_dataset(audit, groups),
        **made,
    )


def _by_dataset(audit: Audit, groups: list[Group]) -> dict[str, tuple[int, int]]:
    counts: dict[str, tuple[int, int]] = {}
    for group in groups:
        name = audit.tasks[group.slot].dataset
        right, all_ = counts.get(name, (0, 0))
        counts[name] = right + sum(int(sample.reward) for sample in group.samples), all_ + len(group.samples)
    return counts
