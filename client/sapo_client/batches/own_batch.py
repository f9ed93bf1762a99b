"""A node's own batch of a round: generated once for each beacon, submitted, and made again where its blocks were lost.

The beacon forces the batch, so making it again gives the same one, or else the round is given up in words.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from sapo_client.batches.committed import committed_weights
from sapo_client.batches.ingest import training_groups
from sapo_client.batches.publish import Batch, Dealt, check_own, make_batch
from sapo_client.generation.engine import Engine
from sapo_client.policy.policy import Policy, Published
from sapo_client.state.report import RoundReport
from sapo_client.training.sapo import Group, has_advantage
from sapo_client.transactions.outbox import Outbox
from sapo_verifier.audit import Audit, BatchFacts, fetch_batch
from sapo_verifier.chain.contracts import Call
from sapo_verifier.chain.reader import ChainReader
from sapo_verifier.ipfs import BlockStore
from sapo_verifier.spec import Spec
from sapo_verifier.tasks import TaskWorker


@dataclass(frozen=True)
class OwnBatches:
    """keep(blocks, round): put them to IPFS until that round is final."""

    reader: ChainReader
    outbox: Outbox
    store: BlockStore
    worker: TaskWorker
    policy: Policy
    engine: Engine
    spec: Spec
    node: str
    checkpoints: Path
    keep: Callable[[Iterable[bytes], int], None]

    def key(self, round_: int, beacon: bytes) -> str:
        """The submission's name in the outbox. After a reorganization a round can have another beacon, and a batch that
        was made for the first one is no longer the round's."""
        first = f"submit/{round_}"
        stored = self.outbox.call_of(first)
        return first if stored is None or stored.args[2] == beacon else f"{first}/{beacon.hex()}"

    def publish(self, round_: int, beacon: bytes, latest: Published, report: RoundReport) -> list[Group]:
        """Generate, put the blocks to IPFS and submit, once; the round's own groups, counted in the report.

        latest: the policy as it is now. None and the reason in `report.skipped` where there is nothing to publish.
        """
        committed = self.reader.policy_of(self.node, round_)
        if committed is None:
            report.skipped = "no policy was committed for this round in time"
            return []
        dealt = Dealt(
            chain_id=self.reader.deployment.chain_id,
            rounds=self.reader.deployment.contracts.rounds,
            round=round_,
            node=self.node,
            beacon=beacon,
            policy=committed.digest,
            slots=committed.slots,
        )
        facts = self._submitted(dealt)
        audit = self._fetched(facts) if facts else None
        if audit is None:
            with committed_weights(self.policy, latest, committed.digest, self.checkpoints) as published:
                if published is None:
                    report.skipped = (
                        f"the policy 0x{committed.digest.hex()}, committed for this round, is neither the base nor in "
                        "a checkpoint that is whole; the next rounds use the latest checkpoint"
                    )
                    return []
                batch = make_batch(self.spec, dealt, self.policy, self.worker, self.engine)
                check_own(self.spec, dealt, batch, published.manifest, self.policy, self.worker)
            if facts and facts.manifest != batch.manifest:
                report.skipped = (
                    "blocks of the batch that was submitted are lost, and this machine makes another batch now: "
                    "nobody can fetch the one on chain"
                )
                return []
            lost = [published.manifest, *published.blocks] if facts else []
            self.keep([*batch.blocks.values(), *lost], round_)
            audit = self._send(dealt, batch, report, again=facts is not None)
        groups = training_groups(audit, self.policy, external=False)
        report.completions = dealt.slots * self.spec.group_size
        report.reward = sum(int(sample.reward) for group in groups for sample in group.samples)
        report.own_groups = len(groups)
        report.own_with_advantage = sum(map(has_advantage, groups))
        return groups

    def _submitted(self, dealt: Dealt) -> BatchFacts | None:
        """What was submitted for this beacon, as the outbox knows it, or the chain where the outbox was lost."""
        stored = self.outbox.call_of(self.key(dealt.round, dealt.beacon))
        if stored is not None:
            *_, manifest, root, claim = stored.args
            return dealt.facts(manifest, root, claim)  # type: ignore[arg-type]
        index = self.reader.batch_of(self.node, dealt.round)
        if index is None:
            return None
        batch = self.reader.batch_at(index)
        return dealt.facts(batch.manifest, batch.root, batch.claim)

    def _send(self, dealt: Dealt, batch: Batch, report: RoundReport, *, again: bool) -> Audit:
        report.positions, report.widened = batch.stats.positions, batch.stats.widened
        report.repaired = batch.stats.repaired
        if not again:
            args = (dealt.node, dealt.round, dealt.beacon, batch.manifest, batch.root, batch.claim)
            key = self.key(dealt.round, dealt.beacon)
            beacon = (dealt.round, dealt.beacon)
            self.outbox.put(key, Call("rounds", "submit", args), deadline_round=dealt.round, beacon=beacon)
            self.outbox.pump()
        audit = self._fetched(dealt.facts(batch.manifest, batch.root, batch.claim))
        assert audit is not None  # they were put just now
        return audit

    def _fetched(self, facts: BatchFacts) -> Audit | None:
        """The batch by the path that other nodes' batches take; None if a block of it is lost."""
        blocks = fetch_batch(self.store, self.spec, facts, [])
        if not all(isinstance(found, bytes) for found in blocks.values()):
            return None
        return Audit(facts, self.spec, blocks, self.worker, lambda _: self.policy.tokenizer)
