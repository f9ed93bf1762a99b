"""Silo mode: generation, groups, training and checkpoints as a node's, without chain, IPFS or peers (J = 0)."""

import logging
from pathlib import Path

import torch

from sapo_client.batches.own_batch import OwnRound, own_round
from sapo_client.batches.publish import NO_CHAIN, make_batch, own_audit
from sapo_client.generation.engine import Engine
from sapo_client.generation.factory import check_engine, make_engine
from sapo_client.generation.groups import NOBODY
from sapo_client.node.learner import Learner
from sapo_client.node.reporting import Stages, report_of
from sapo_client.policy.policy import Policy
from sapo_client.state import home as layout
from sapo_client.state.report import RoundReport, read_rounds
from sapo_client.state.settings import GenerationSettings, PolicySettings
from sapo_client.training.sapo import TrainConfig
from sapo_verifier import protocol
from sapo_verifier.bases import find_base
from sapo_verifier.errors import SapoError
from sapo_verifier.facts import BatchFacts
from sapo_verifier.networks import chat_base, models_spec, pocket_spec, read_spec
from sapo_verifier.spec import Spec
from sapo_verifier.tasks import TaskWorker

log = logging.getLogger(__name__)


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
    lora_rank: int = 0,
    device: str = "cpu",
    generation: GenerationSettings = GenerationSettings(),  # noqa: B008 - frozen
) -> None:
    """`sapo train --silo`. Raises SapoError where the spec does not have the base, or the folder is another one."""
    check_engine(generation)
    if threads:
        torch.set_num_threads(threads)
    spec = _default_spec(folder, base_id) if spec_file is None else read_spec(spec_file)
    base = spec.base(base_id)
    if base is None:
        raise SapoError(f"the spec has no base {base_id!r}; choose one of: {', '.join(b.id for b in spec.bases)}")
    settings = PolicySettings(folder=folder, base=base_id, lora_rank=lora_rank)
    policy = Policy.load(find_base(base, [folder]), base, device=device, options=settings.options(seed))
    config = TrainConfig(own_groups=own_groups, external_groups=0)
    with make_engine(policy, spec, generation, threads=threads, scratch=home / layout.ENGINE) as engine:
        train(home, spec, policy, config, rounds=rounds, seed=seed, engine=engine)


def _default_spec(folder: Path, base_id: str) -> Spec:
    """The pocket policy's rules for it, and those of larger models for any other base."""
    if base_id == "pocket":
        return pocket_spec(folder)
    return models_spec([chat_base(folder, base_id)])


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
        worker.check_versions(spec)
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
