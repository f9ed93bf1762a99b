"""What a formula node publishes: its dealt batch by the formula, and the formula as the policy that it commits."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sapo_client.batches.encoding import encode_batch
from sapo_client.batches.submitting import OwnRound, Submissions
from sapo_client.policy.published import Published
from sapo_client.training.groups import Group
from sapo_devnet.formula.policy import WEIGHTS, formula_manifest, liked_for, sample, text_of
from sapo_verifier.audit import Dealt
from sapo_verifier.cid import block_digest
from sapo_verifier.facts import BatchFacts
from sapo_verifier.spec import BaseRule, Spec
from sapo_verifier.tasks import TaskWorker


def formula_batch(
    spec: Spec, facts: BatchFacts, base: BaseRule, worker: TaskWorker
) -> tuple[BatchFacts, dict[bytes, bytes]]:
    """What goes on chain, and the blocks by their digests. facts: as dealt. Raises TaskError."""
    dealt = Dealt.to(facts, spec, base, worker)
    keys = iter(facts.stream_keys(spec.group_size))
    records = [
        sample(prompt, liked_for(task), next(keys), spec.max_new_tokens)
        for task, prompt in zip(dealt.tasks, dealt.prompts, strict=True)
        for _ in range(spec.group_size)
    ]
    return encode_batch(spec, facts, dealt, records, text_of, worker)


def published_formula(base: BaseRule) -> Published:
    """The same for every node and round: nothing is learned."""
    manifest = formula_manifest(base)
    return Published(manifest, [WEIGHTS], block_digest(manifest))


@dataclass(frozen=True)
class FormulaBatches(Submissions):
    """Makes, serves and submits one batch a round; nothing is learned from it."""

    base: BaseRule

    def publish(self, round_: int, beacon: bytes, latest: Published) -> OwnRound:
        """Generate, put the blocks to IPFS and submit, once: made again after a restart, the batch is the same."""
        facts = self.dealt(round_, beacon)
        if facts is None:
            return OwnRound([], skipped=self.why_none())
        made, blocks = formula_batch(self.spec, facts, self.base, self.worker)
        self.blocks.keep([blocks[made.manifest], *blocks.values()], round_)
        if self.submitted(facts) is None:
            self.submit(made)
        return OwnRound([], completions=made.slots * self.spec.group_size, reward=made.claim.bit_count())


@dataclass(frozen=True)
class Share:
    """Groups a round. A formula node takes none of others for itself: it looks at them to judge them."""

    own_groups: int
    external_groups: int = 0


class FormulaLearner:
    """Commits the formula for every round, and never learns."""

    def __init__(self, base: BaseRule, slots: int) -> None:
        """slots: groups of a batch."""
        self.published = published_formula(base)
        self.config = Share(slots)
        self.trained = -1
        self.learned: dict[str, Any] = {}

    def resume(self) -> None:
        """Nothing is on disk."""

    def roll_back(self) -> None:
        """Nothing is ever half-done."""

    def train(self, round_: int, own: Sequence[Group], offered: Sequence[Group]) -> None:
        """Never asked for: its batches give no groups."""
