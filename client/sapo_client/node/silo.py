"""Silo mode: generation, groups, training and checkpoints as a node's, without chain, IPFS or peers (J = 0)."""

import dataclasses
import logging
import random
import time
from pathlib import Path
from typing import Any

import torch

from sapo_client.batches.ingest import training_groups
from sapo_client.batches.publish import NO_CHAIN, NOBODY, Batch, Dealt, make_batch
from sapo_client.generation.engine import Engine
from sapo_client.policy.checkpoint import latest_checkpoint, save_checkpoint
from sapo_client.policy.policy import Policy
from sapo_client.state import home as layout
from sapo_client.state.report import RoundReport, read_rounds
from sapo_client.training.sapo import Group, TrainConfig, build_training_set, has_advantage, make_optimizer, train_step
from sapo_verifier import protocol
from sapo_verifier.audit import Audit
from sapo_verifier.spec import Spec
from sapo_verifier.tasks import TaskWorker

log = logging.getLogger(__name__)

REPORT = "report"  # in a checkpoint's state


def train(
    home: Path,
    spec: Spec,
    policy: Policy,
    config: TrainConfig,
    *,
    rounds: int,
    seed: int,
    engine: Engine | None = None,
) -> None:
    """Play silo rounds until there are `rounds` of them in `home`; goes on where an earlier run stopped.

    engine: what generates, for this policy; None: the policy's own.
    """
    home.mkdir(parents=True, exist_ok=True)
    with layout.only_one(home), TaskWorker() as worker:
        worker.check_versions(spec)
        optimizer = make_optimizer(policy, config)
        checkpoint = latest_checkpoint(home / layout.CHECKPOINTS, log.warning)
        if checkpoint is None:
            torch.manual_seed(seed)
        else:
            checkpoint.restore(policy, optimizer)
            _report_again(home, checkpoint.state.get(REPORT))
        for round_ in range(checkpoint.round + 1 if checkpoint else 0, rounds):
            report = play(round_, spec, policy, optimizer, config, worker, seed, engine)
            state = {REPORT: dataclasses.asdict(report)}  # or a crash before the next line would lose it
            save_checkpoint(home / layout.CHECKPOINTS, policy, optimizer, round_=round_, state=state)
            report.append_to(home)
            words = "round=%d reward=%d/%d with_advantage=%d/%d repaired=%d/%d"
            counts = (report.reward, report.completions, report.own_with_advantage, report.own_groups)
            log.info(words, round_, *counts, report.repaired, report.positions)


def _report_again(home: Path, saved: dict[str, Any] | None) -> None:
    """The report of the last checkpoint's round, if an earlier run was stopped between the two."""
    reports = read_rounds(home)
    if saved is not None and (not reports or reports[-1]["round"] < saved["round"]):
        RoundReport(**saved).append_to(home)


def play(
    round_: int,
    spec: Spec,
    policy: Policy,
    optimizer: torch.optim.Optimizer,
    config: TrainConfig,
    worker: TaskWorker,
    seed: int,
    engine: Engine | None = None,
) -> RoundReport:
    """One round: own groups, one step. A hash of seed and round stands in for the beacon."""
    report = RoundReport(round=round_)
    started = time.monotonic()
    published = policy.publish()
    dealt = Dealt(
        chain_id=NO_CHAIN,
        rounds=NOBODY,
        round=round_,
        node=NOBODY,
        beacon=protocol.H("silo", seed, round_),
        policy=published.digest,
        slots=config.own_groups,
    )
    batch = make_batch(spec, dealt, policy, worker, engine)
    own = groups_of(spec, dealt, batch, published.manifest, policy, worker)
    report.seconds_generating = time.monotonic() - started
    report.positions, report.widened = batch.stats.positions, batch.stats.widened
    report.repaired = batch.stats.repaired
    report.own_groups, report.completions = len(own), len(own) * spec.group_size
    report.reward = batch.claim.bit_count()
    report.own_with_advantage = sum(map(has_advantage, own))
    started = time.monotonic()
    groups, _ = build_training_set(own, [], config, round_=round_, rng=random.Random(seed))
    report.training = dataclasses.asdict(train_step(policy, optimizer, groups, config))
    report.seconds_training = time.monotonic() - started
    return report


def groups_of(
    spec: Spec, dealt: Dealt, batch: Batch, policy_manifest: bytes, policy: Policy, worker: TaskWorker
) -> list[Group]:
    """A batch's groups, by the path that other nodes' groups take."""
    facts = dealt.facts(batch.manifest, batch.root, batch.claim)
    blocks = {**batch.blocks, dealt.policy: policy_manifest}
    return training_groups(Audit(facts, spec, blocks, worker, lambda _: policy.tokenizer), policy, external=False)
