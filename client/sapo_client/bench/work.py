"""What `sapo bench` measures: a node's own generation, records and training, without chain and IPFS.

Streams, engine, records pass and GRPO step are a node's. Only the rewards are made up, half of each group right, so
that every group has an advantage and is trained on, whatever the policy can do.
"""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Literal

import torch

from sapo_client.batches.publish import NO_CHAIN
from sapo_client.bench.meter import Meter, Taken
from sapo_client.generation.engine import Engine
from sapo_client.generation.factory import make_engine
from sapo_client.generation.groups import NOBODY
from sapo_client.generation.records import RecordStats, make_records
from sapo_client.generation.torch_engine import TorchEngine
from sapo_client.policy.policy import Policy
from sapo_client.state.settings import GenerationSettings
from sapo_client.training.groups import Group, sample_of
from sapo_client.training.sapo import StepStats, TrainConfig, make_optimizer, train_step
from sapo_verifier import protocol
from sapo_verifier.facts import BatchFacts
from sapo_verifier.objects import Record
from sapo_verifier.spec import Spec

WARM_UP_TOKENS = 4

What = Literal["generate", "train", "step"]
Prompts = Sequence[Sequence[int]]


@dataclass(frozen=True)
class Result:
    """One measured piece of work. tokens: completion tokens generated (`train`: trained on), so tokens_per_second is
    tokens / seconds. What a command does not do is 0, its rates None.

    mismatch_kl: KL(records ‖ trainer), nats per token; repair_rate: of positions, those where the engine's token was
    not the one that the records pass allows; widened_rate: where the interval was widened to hold its u.
    """

    tokens: int
    prompt_tokens: int  # of all completions' prompts
    trained_tokens: int
    seconds: float
    tokens_per_second: float
    engine_seconds: float
    records_seconds: float
    train_seconds: float
    cpu_seconds: float
    peak_bytes: int
    cuda_peak_bytes: int | None
    repaired: int
    repair_rate: float | None
    widened_rate: float | None
    mismatch_kl: float | None


class TimedEngine:
    """An engine whose own share of a generation's time is known."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.seconds = 0.0

    def generate(self, prompts: Prompts, prefixes: Prompts, keys: Sequence[bytes]) -> list[list[int]]:
        """See Engine."""
        started = time.perf_counter()
        completions = self._engine.generate(prompts, prefixes, keys)
        self.seconds += time.perf_counter() - started
        return completions

    def sleep(self) -> None:
        """See Engine."""
        self._engine.sleep()


@dataclass
class Bench:
    """A policy and its engine, ready to work on `prompts`, one per group."""

    policy: Policy
    engine: Engine
    spec: Spec
    prompts: Prompts
    config: TrainConfig

    def __post_init__(self) -> None:
        self.optimizer = make_optimizer(self.policy, self.config)

    def run(self, what: What, *, seed: int = 0) -> Result:
        """Raises SapoError where the policy or the engine fails."""
        if what == "step":
            return self.parts(seed=seed)[2]
        records, stats, generated, engine_seconds = self._generate(seed)
        if what == "generate":
            return self._result(records, stats, generated, engine_seconds, None, None)
        step, trained = self._train(records)
        return self._result(records, None, None, 0.0, step, trained)

    def parts(self, *, seed: int = 0) -> tuple[Taken, Taken, Result]:
        """A step: what generation with its records took, what training took, and both together."""
        records, stats, generated, engine_seconds = self._generate(seed)
        step, trained = self._train(records)
        return generated, trained, self._result(records, stats, generated, engine_seconds, step, trained)

    def warm_up(self) -> None:
        """Do a little of everything: first calls load code, and take memory that later ones keep, as the optimizer's.

        The weights stay as they are.
        """
        short = self.spec.model_copy(update={"max_new_tokens": min(WARM_UP_TOKENS, self.spec.max_new_tokens)})
        little = replace(
            self, engine=TorchEngine(self.policy, short.max_new_tokens), spec=short, prompts=self.prompts[:1]
        )
        little.optimizer = self.optimizer
        rates = [group["lr"] for group in self.optimizer.param_groups]
        for group in self.optimizer.param_groups:
            group["lr"] = 0.0
        little.run("step")
        for group, rate in zip(self.optimizer.param_groups, rates, strict=True):
            group["lr"] = rate
        self.engine.generate([self.prompts[0]], [[]], [protocol.H("silo", 0, 1)])

    def _generate(self, seed: int) -> tuple[list[list[Record]], RecordStats, Taken, float]:
        size, beacon = self.spec.group_size, protocol.H("silo", seed, 0)
        dealt = BatchFacts.dealt(NO_CHAIN, NOBODY, 0, NOBODY, beacon, policy=bytes(32), slots=len(self.prompts))
        engine = TimedEngine(self.engine)
        with Meter() as meter:
            records, stats = make_records(
                engine,
                self.policy.model,
                [prompt for prompt in self.prompts for _ in range(size)],
                dealt.stream_keys(size),
                vocab=self.policy.base.vocab,
                max_new_tokens=self.spec.max_new_tokens,
            )
            engine.sleep()
        return records, stats, meter.taken, engine.seconds

    def _train(self, records: Sequence[Sequence[Record]]) -> tuple[StepStats, Taken]:
        groups = self._groups(records)
        with Meter() as meter:
            stats = train_step(self.policy, self.optimizer, groups, self.config)
        return stats, meter.taken

    def _groups(self, records: Sequence[Sequence[Record]]) -> list[Group]:
        size, groups = self.spec.group_size, []
        for slot, prompt in enumerate(self.prompts):
            mine = records[slot * size : (slot + 1) * size]
            samples = [sample_of(list(prompt), completion, float(k % 2)) for k, completion in enumerate(mine)]
            groups.append(Group(samples, 0, None, slot, NOBODY, external=False))
        return groups

    def _result(
        self,
        records: Sequence[Sequence[Record]],
        stats: RecordStats | None,
        generated: Taken | None,
        engine_seconds: float,
        step: StepStats | None,
        trained: Taken | None,
    ) -> Result:
        parts = [part for part in (generated, trained) if part is not None]
        taken = parts[0] if len(parts) == 1 else parts[0] + parts[1]
        tokens = sum(map(len, records))
        return Result(
            tokens=tokens,
            prompt_tokens=sum(map(len, self.prompts)) * self.spec.group_size,
            trained_tokens=step.tokens if step else 0,
            seconds=taken.seconds,
            tokens_per_second=tokens / taken.seconds,
            engine_seconds=engine_seconds,
            records_seconds=generated.seconds - engine_seconds if generated else 0.0,
            train_seconds=trained.seconds if trained else 0.0,
            cpu_seconds=taken.cpu_seconds,
            peak_bytes=taken.peak_bytes,
            cuda_peak_bytes=taken.cuda_peak_bytes,
            repaired=stats.repaired if stats else 0,
            repair_rate=stats.repaired / stats.positions if stats else None,
            widened_rate=stats.widened / stats.positions if stats else None,
            mismatch_kl=step.mismatch_kl if step else None,
        )


@contextmanager
def bench(
    policy: Policy, spec: Spec, prompts: Prompts, settings: GenerationSettings, config: TrainConfig, *, threads: int
) -> Iterator[Bench]:
    """A bench whose engine runs until the block ends. threads: of torch, and of vLLM on a CPU."""
    torch.set_num_threads(threads)
    with make_engine(policy, spec, settings, threads=threads) as engine:
        yield Bench(policy, engine, spec, prompts, config)
