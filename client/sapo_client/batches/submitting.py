"""A node's own batch, however it is made: what the chain deals for it, how it is submitted, what came of it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sapo_client.batches.kept import KeptBlocks
from sapo_client.training.groups import Group, commonest_share, entropy_per_token, has_advantage
from sapo_client.transactions.outbox import Outbox
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
    datasets: Mapping[str, tuple[int, int]] = field(default_factory=dict)  # of each: right completions, and all
    positions: int = 0
    widened: int = 0
    repaired: int = 0
    skipped: str = ""

    def counts(self) -> dict[str, Any]:
        """By the names that a round's report has for them."""
        return {
            "completions": self.completions,
            "reward": self.reward,
            "datasets": {name: list(counts) for name, counts in self.datasets.items()},
            "entropy": entropy_per_token(self.groups),
            "commonest": commonest_share(self.groups),
            "own_groups": len(self.groups),
            "own_with_advantage": sum(map(has_advantage, self.groups)),
            "positions": self.positions,
            "widened": self.widened,
            "repaired": self.repaired,
        }


@dataclass(frozen=True)
class Submissions:
    """Of one node: one batch a round."""

    reader: ChainReader
    outbox: Outbox
    blocks: KeptBlocks
    worker: TaskWorker
    spec: Spec
    node: str

    def key(self, round_: int, beacon: bytes) -> str:
        """The submission's name in the outbox. After a reorganization a round can have another beacon, and a batch that
        was made for the first one is no longer the round's."""
        first = f"submit/{round_}"
        stored = self.outbox.call_of(first)
        return first if stored is None or stored.args[2] == beacon else f"{first}/{beacon.hex()}"

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

    def why_none(self) -> str:
        """Why there is nothing to publish in a round that no policy was committed for."""
        _, last, _ = self.reader.call(Call("rounds", "missedOf", (self.node,)))
        if last == 0:
            return "the node is new: it commits its first policy in this round, for the next one"
        return "no policy was committed for this round in time"

    def submit(self, facts: BatchFacts) -> None:
        """Into the outbox, and on its way."""
        args = (facts.node, facts.round, facts.beacon, facts.manifest, facts.root, facts.claim)
        key, beacon = self.key(facts.round, facts.beacon), (facts.round, facts.beacon)
        self.outbox.put(key, Call("rounds", "submit", args), deadline_round=facts.round, beacon=beacon)
        self.outbox.pump()

    def submitted(self, facts: BatchFacts) -> BatchFacts | None:
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
