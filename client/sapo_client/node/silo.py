"""Silo mode: generation, groups, training and checkpoints as a node's, without chain, IPFS or peers (J = 0)."""

import logging
from pathlib import Path

import torch

from sapo_client.batches.own_batch import own_round
from sapo_client.batches.publish import NO_CHAIN, make_batch, own_audit
from sapo_client.batches.submitting import OwnRound
from sapo_client.generation.engine import Engine
from sapo_client.generation.groups import NOBODY
from sapo_client.node.learner import Learner
from sapo_client.node.reporting import Stages, report_of
from sapo_client.policy.policy import Policy
from sapo_client.state import home as layout
from sapo_client.state.report import RoundReport, read_rounds
from sapo_client.training.sapo import TrainConfig
from sapo_verifier import protocol
from sapo_verifier.facts import BatchFacts
from sapo_verifier.spec import Spec
from sapo_verifier.tasks import TaskWorker, check_versions

log = logging.getLogger(__name__)


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
    """Play rounds alone until there are `rounds` of them in `home`; goes on where an earlier run stopped.

    engine: what generates, for this policy; None: torch.
    """
    home.mkdir(parents=True, exist_ok=True)
    with layout.only_one(home), TaskWorker() as worker:
        check_versions(spec, worker)
        torch.manual_seed(seed)
        learner = Learner(policy, config, home / layout.CHECKPOINTS, str(seed))
        learner.resume()
        _report_again(home, learner)
        for round_ in range(learner.trained + 1, rounds):
            own, seconds = play(round_, spec, policy, learner, worker, seed, engine)
            report = report_of(round_, own, learned=learner.learned, seconds=seconds)
            report.append_to(home)
            words = "round=%d reward=%d/%d with_advantage=%d/%d repaired=%d/%d"
            counts = (report.reward, report.completions, report.own_with_advantage, report.own_groups)
            log.info(words, round_, *counts, report.repaired, report.positions)


def _report_again(home: Path, learner: Learner) -> None:
    """The report of the last checkpoint's round, if an earlier run was stopped between the two."""
    reports = read_rounds(home)
    if learner.trained >= 0 and (not reports or reports[-1]["round"] < learner.trained):
        RoundReport(round=learner.trained, **learner.notes, **learner.learned).append_to(home)


def play(
    round_: int,
    spec: Spec,
    policy: Policy,
    learner: Learner,
    worker: TaskWorker,
    seed: int,
    engine: Engine | None = None,
) -> tuple[OwnRound, dict[str, float]]:
    """One round: own groups, one step. A hash of seed and round stands in for the beacon. Also its stages' seconds."""
    stages = Stages()
    with stages.timed("generating"):
        beacon, slots = protocol.H("silo", seed, round_), learner.config.own_groups
        facts = BatchFacts.dealt(NO_CHAIN, NOBODY, round_, NOBODY, beacon, learner.published.digest, slots)
        batch = make_batch(spec, facts, policy, worker, engine)
        own = own_round(own_audit(spec, batch, learner.published.manifest, policy, worker), policy, batch.stats)
    with stages.timed("training"):
        # A crash before the report is written must not lose what is in it.
        learner.train(round_, own.groups, [], notes=own.counts())
    return own, stages.seconds
