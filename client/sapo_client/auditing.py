"""The draw is the training set: fetch the batches that the beacon deals to this node, check them, keep their groups."""

import logging
from dataclasses import dataclass

from sapo_client.ingest import training_groups
from sapo_client.pins import PinBook
from sapo_client.policy import Policy
from sapo_client.report import RoundReport
from sapo_client.sapo import Group, has_advantage
from sapo_verifier import protocol
from sapo_verifier.chain.reader import BatchInfo, ChainReader
from sapo_verifier.checks import check_batch
from sapo_verifier.evidence import Audit, Outcome, Store, TokenizerFinder, facts_of, fetch_batch
from sapo_verifier.spec import Spec
from sapo_verifier.tasks import TaskWorker

log = logging.getLogger(__name__)

KEEP_ROUNDS = 8  # a fetched block stays that long: a round is final after six


@dataclass(frozen=True)
class Auditor:
    """Everything that an audit needs beside the round."""

    reader: ChainReader
    store: Store
    spec: Spec
    worker: TaskWorker
    tokenizer: TokenizerFinder
    pins: PinBook
    voter: str  # this node

    def window(self, round_: int) -> list[BatchInfo]:
        """The batches of `round_` that the next round's beacon deals to this node; [] while there are none."""
        count = self.reader.round_at(round_).count
        dealer = self.reader.beacon(round_ + 1)
        if count == 0 or dealer is None:
            return []
        batches = self.reader.batches_of(round_)
        own = next((position for position, batch in enumerate(batches) if batch.node == self.voter), None)
        start = protocol.draw_start(dealer, self.voter, 1, count)
        return [batches[position] for position in protocol.window(start, count, own, self.spec.chain.draws)]

    def groups(self, batch: BatchInfo, endpoints: list[str], policy: Policy, report: RoundReport) -> list[Group]:
        """Fetch and check one batch; its groups if it may be trained on, [] otherwise. Counts both in the report."""
        beacon = self.reader.beacon(batch.round)
        if beacon is None:
            raise AssertionError("a round with batches has a beacon")
        facts = facts_of(self.reader.deployment, batch, beacon)
        blocks = fetch_batch(self.store, self.spec, facts, endpoints)
        self.pins.keep([d for d, found in blocks.items() if isinstance(found, bytes)], batch.round + KEEP_ROUNDS)
        audit = Audit(facts, self.spec, blocks, self.worker, self.tokenizer)
        outcomes = check_batch(audit)
        report.external_drawn += batch.slots
        if outcomes[0].status == "pass":
            report.external_fetched += batch.slots
        if not usable(outcomes):
            worst = next(outcome for outcome in outcomes if not _passes(outcome))
            sentence = f"batch {batch.index} of {batch.node}: {worst.check} {worst.status}: {worst.reason}"
            report.external_failed += batch.slots
            report.failures.append(sentence)
            log.warning("not trained on: %s", sentence)
            return []
        report.external_checked += batch.slots
        groups = training_groups(audit, policy, external=True)
        report.external_with_advantage += sum(map(has_advantage, groups))
        return groups


def usable(outcomes: list[Outcome]) -> bool:
    """Whether a batch may be trained on: nothing failed, and nothing but the policy check is unknown."""
    return all(map(_passes, outcomes))


def _passes(outcome: Outcome) -> bool:
    return outcome.status == "pass" or (outcome.status == "unknown" and outcome.check == "policy")
