"""Silo mode: generation, groups, training and checkpoints as a node's, without chain, IPFS or peers (J = 0)."""

import dataclasses
import logging
import random
import time
from pathlib import Path

import torch

from sapo_client import home as layout
from sapo_client.checkpoint import latest_checkpoint, save_checkpoint
from sapo_client.ingest import training_groups
from sapo_client.policy import Policy
from sapo_client.publish import Batch, Dealt, make_batch
from sapo_client.report import RoundReport
from sapo_client.sapo import Group, TrainConfig, build_training_set, has_advantage, make_optimizer, train_step
from sapo_verifier import protocol
from sapo_verifier.bases import find_base
from sapo_verifier.errors import SapoError
from sapo_verifier.evidence import Audit
from sapo_verifier.networks import pocket_spec, read_spec
from sapo_verifier.spec import Spec
from sapo_verifier.tasks import TaskWorker

log = logging.getLogger(__name__)

NOBODY = "0x" + "00" * 20
NO_CHAIN = 1  # a batch names some chain; with the zero address as its contract no network can take it for its own


def train_command(
    home: Path,
    folder: Path,
    spec_file: Path | None,
    base_id: str,
    *,
    rounds: int,
    own_groups: int,
    seed: int,
    threads: int,
) -> None:
    """`sapo train --silo`. Raises SapoError where the spec does not have the base, or the folder is another one."""
    if threads:
        torch.set_num_threads(threads)
    spec = pocket_spec(folder) if spec_file is None else read_spec(spec_file)
    base = spec.base(base_id)
    if base is None:
        raise SapoError(f"the spec has no base {base_id!r}; choose one of: {', '.join(b.id for b in spec.bases)}")
    policy = Policy.load(find_base(base, [folder]), base)
    config = TrainConfig(own_groups=own_groups, external_groups=0)
    train(home, spec, policy, config, rounds=rounds, seed=seed)


def train(home: Path, spec: Spec, policy: Policy, config: TrainConfig, *, rounds: int, seed: int) -> None:
    """Play silo rounds until there are `rounds` of them in `home`; goes on where an earlier run stopped."""
    home.mkdir(parents=True, exist_ok=True)
    with layout.only_one(home), TaskWorker() as worker:
        worker.check_versions(spec)
        optimizer = make_optimizer(policy, config)
        checkpoint = latest_checkpoint(home / layout.CHECKPOINTS, log.warning)
        if checkpoint is None:
            torch.manual_seed(seed)
        else:
            checkpoint.restore(policy, optimizer)
        for round_ in range(checkpoint.round + 1 if checkpoint else 0, rounds):
            report = play(round_, spec, policy, optimizer, config, worker, seed)
            save_checkpoint(home / layout.CHECKPOINTS, policy, optimizer, round_=round_, state={"used": []})
            report.append_to(home)
            words = "round=%d reward=%d/%d with_advantage=%d/%d"
            counts = (report.reward, report.completions, report.own_with_advantage, report.own_groups)
            log.info(words, round_, *counts)


def play(
    round_: int,
    spec: Spec,
    policy: Policy,
    optimizer: torch.optim.Optimizer,
    config: TrainConfig,
    worker: TaskWorker,
    seed: int,
) -> RoundReport:
    """One round: own groups, one step. A hash of seed and round stands in for the beacon."""
    report = RoundReport(round=round_)
    started = time.monotonic()
    dealt = Dealt(
        chain_id=NO_CHAIN,
        rounds=NOBODY,
        round=round_,
        node=NOBODY,
        beacon=protocol.H("silo", seed, round_),
        policy=policy.publish().digest,
        slots=config.own_groups,
    )
    batch = make_batch(spec, dealt, policy, worker)
    own = groups_of(spec, dealt, batch, policy, worker)
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


def groups_of(spec: Spec, dealt: Dealt, batch: Batch, policy: Policy, worker: TaskWorker) -> list[Group]:
    """A batch's groups, by the path that other nodes' groups take."""
    facts = dealt.facts(batch.manifest, batch.root, batch.claim)
    blocks = {**batch.blocks, dealt.policy: policy.publish().manifest}
    return training_groups(Audit(facts, spec, blocks, worker, lambda _: policy.tokenizer), policy, external=False)
