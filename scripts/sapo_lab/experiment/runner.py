"""From a setting to a result: a swarm, its rounds, and what is measured."""

import math
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch

from sapo_client.generation.factory import make_engine
from sapo_client.policy.policy import Policy
from sapo_client.state.settings import GenerationSettings, PolicySettings
from sapo_lab.experiment.heldout import HeldOut
from sapo_lab.experiment.poison import arm
from sapo_lab.experiment.setting import HELD_OUT, Setting
from sapo_lab.experiment.swarm import Played, Swarm, make_members
from sapo_verifier.bases import Bases
from sapo_verifier.model import policy_model
from sapo_verifier.networks import base_rule, chat_template, mixed_spec, pocket_spec
from sapo_verifier.spec import Spec
from sapo_verifier.tasks import TaskWorker, check_versions
from sapo_verifier.templates import EXAMPLES

MEASURE_EVERY = 40  # rounds between held-out measurements
MOST_WEIGHTS, MOST_RANK = 1 << 32, 64  # bytes of a real model's checkpoint; of its adapters
MOST_SLOTS = 32  # with groups of eight, what a claim word holds


@dataclass(frozen=True)
class Place:
    """Where policies live and what generates. lora_rank: of adapters; 0: all weights are trained."""

    engine: Literal["torch", "vllm"] = "torch"
    device: str = "cpu"
    lora_rank: int = 0
    dtype: Literal["float32", "bfloat16"] = "float32"  # of the trainer's passes


@dataclass(frozen=True)
class Ground:
    """What all runs of an experiment stand on: the rules, the bases, a worker, the held-out tasks."""

    spec: Spec
    folders: Sequence[Path]  # of the spec's bases, in order
    worker: TaskWorker
    held_out: HeldOut
    place: Place

    @classmethod
    def lay(
        cls,
        spec: Spec,
        folders: Sequence[Path],
        worker: TaskWorker,
        place: Place = Place(),
        *,
        held_out: int = HELD_OUT,
    ) -> "Ground":
        """Raises SapoError where this machine makes other tasks than the spec's."""
        check_versions(spec, worker)
        return cls(spec, folders, worker, HeldOut.make(spec, held_out, worker), place)

    def policy(self, number: int, seed: int) -> Policy:
        folder, place = self.folders[number], self.place
        settings = PolicySettings(folder=folder, lora_rank=place.lora_rank, dtype=place.dtype)
        return Policy.load(folder, self.spec.bases[number], device=place.device, options=settings.options(seed))


def pocket_rules(folders: Sequence[Path]) -> Spec:
    """The devnet's rules, with room for a node that generates a whole claim word."""
    spec = pocket_spec(folders[0])
    others = [
        pocket_spec(folder).bases[0].model_copy(update={"id": f"pocket{i}"}) for i, folder in enumerate(folders[1:], 1)
    ]
    changes = {"max_slots": MOST_SLOTS, "bases": [*spec.bases, *others]}
    return Spec.model_validate(spec.model_copy(update=changes).to_json())


def real_rules(folder: Path) -> Spec:
    """The same tasks for a model that reads instructions: it is shown examples."""
    template = chat_template("brackets", EXAMPLES)
    return mixed_spec([base_rule(folder, "model", template, max_adapter_bytes=MOST_WEIGHTS, max_rank=MOST_RANK)])


def run(
    setting: Setting, ground: Ground, *, log: Callable[[str], None] = lambda _: None, seconds: float = math.inf
) -> dict[str, Any]:
    """Play it, and return the result as JSON values: the setting, a row of sums per round, held-out shares.

    seconds: no round starts later; then there are fewer rounds than the setting says.
    """
    started = time.monotonic()
    torch.manual_seed(setting.seed)
    with ExitStack() as stack:
        generation = GenerationSettings(engine=ground.place.engine)
        members = make_members(
            setting,
            ground.spec,
            lambda number: ground.policy(number, setting.seed),
            lambda policy: stack.enter_context(make_engine(policy, ground.spec, generation)),
        )
        arm(setting, members, ground.worker)
        model = policy_model(Bases(ground.folders), device=ground.place.device) if setting.checks == "model" else None
        stacked = ground.place.engine == "torch"
        swarm = Swarm(setting, members, ground.worker, model, stack=stacked)
        rounds: list[dict[str, Any]] = []
        held_out: dict[str, list[dict[str, float]]] = {}
        for round_ in range(setting.rounds):
            began = time.monotonic()
            last = round_ + 1 == setting.rounds
            rounds.append({**sums(swarm.play(round_)), "seconds": round(time.monotonic() - began, 3)})
            last |= time.monotonic() - started > seconds
            if (round_ + 1) % MEASURE_EVERY == 0 or last:
                left = [member for member in members if member.spoil is None and not member.gone]
                found = ground.held_out.pass_at_1([m.policy for m in left], [m.engine for m in left], stack=stacked)
                held_out[str(round_ + 1)] = found
                mean = sum(sum(of.values()) / len(of) for of in found) / len(left)
                reward, wall = sum(each["reward"] for each in rounds), time.monotonic() - started
                log(f"round {round_ + 1}: cumulative reward {reward:.1f}, held-out {mean:.3f}, {wall:.0f} s")
            if last:
                break
    return {"setting": setting.to_json(), "rounds": rounds, "held_out": held_out, "rejected": swarm.rejected}


def sums(played: Sequence[Played]) -> dict[str, Any]:
    """One round over all learning nodes. reward: Σ over nodes of the mean reward of their own fresh completions."""
    stats = [each.stats for each in played]
    trained = [each.training_reward for each in played if each.training_reward is not None]
    return {
        "nodes": len(played),
        "reward": sum(each.right / each.completions for each in played),
        "completions": sum(each.completions for each in played),
        "tokens": sum(each.tokens for each in played),  # generated
        "own_with_advantage": sum(each.with_advantage for each in played),
        "own_used": sum(each.counts.own_used for each in played),
        "external_used": sum(each.counts.external_used for each in played),
        "external_missing": sum(each.counts.external_missing for each in played),
        "trained_tokens": sum(each.tokens for each in stats),
        "external_tokens": sum(each.external_tokens for each in stats),
        "unknown_tokens": sum(each.unknown_tokens for each in stats),  # external, of unknown p_theirs
        "drift": sum(each.drift * each.external_tokens for each in stats),  # nats, of known p_theirs
        "weight": sum(each.mean_weight * each.external_tokens for each in stats),
        "dropped": sum(each.samples_dropped for each in stats),
        "clip_fraction": sum(each.clip_fraction for each in stats) / len(stats),
        "mismatch_kl": max(each.mismatch_kl for each in stats),
        "training_reward": sum(trained),  # Σ over nodes of the mean reward of their training set: biased
    }
