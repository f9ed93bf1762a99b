"""SAPO (arXiv 2509.08721), from top to bottom: what a node trains on, and one update of its policy.

    own groups ──────────────┐
                             ├─ build_training_set ── train_step ── the next checkpoint
    other nodes' groups ─────┘   I own, J external     GRPO

Own and external groups go through the same code. What differs: an external token was sampled by another policy, so by
some rules (TrainConfig.external) its gradient is weighted by min(1, p_mine / p_theirs), with p_theirs from the
published interval, if this node recomputed that. The step is GRPO's (arXiv 2402.03300, section 4.1, outcome
supervision) without its KL term, with two clip bounds, and with every token of the step counting the same.
"""

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch

from sapo_client.policy.heap import give_back
from sapo_client.policy.policy import Policy
from sapo_client.training.groups import Group, Sample, has_advantage
from sapo_client.training.loss import LossInputs, LossOutputs, grpo_loss
from sapo_client.training.rules import DEFAULT_EXTERNAL, External
from sapo_verifier.errors import SapoError
from sapo_verifier.model.forward import Passage


class GradientError(SapoError):
    """An update that would destroy the policy; the weights are as they were."""


@dataclass(frozen=True)
class TrainConfig:
    """How a node learns. own_groups and external_groups are I and J of SAPO's algorithm 1.

    external: `truncated` weights external tokens by min(1, p_mine / p_theirs); `drop-negatives` drops all external
    completions with a negative advantage; `truncated-drop-negatives` does both; `clipped` is PPO's ratio and clip
    against p_theirs; `as-own` treats external completions as own ones (the paper; it drifts). Where p_theirs is unknown
    (another tokenizer, or a completion that this node did not recompute), one's own probability stands in, so that the
    weight is 1; `truncated` and `clipped` then drop completions with a negative advantage.
    """

    own_groups: int = 4  # I
    external_groups: int = 4  # J
    external: External = DEFAULT_EXTERNAL
    staleness: int = 4  # rounds; older external groups are not used
    learning_rate: float = 1e-4  # for the pocket policy; a larger one moves it further in a round than samples can tell
    clip_low: float = 0.2  # the ratio's bounds are 1 − clip_low and 1 + clip_high
    clip_high: float = 0.28
    max_grad_norm: float = 1.0  # L2, over all parameters
    epochs: int = 1  # optimizer steps over the same training set
    micro_batch_tokens: int | None = None  # padded tokens in one forward pass: what bounds memory; None: by the model


@dataclass(frozen=True)
class Counts:
    """What became of the groups on offer; all are numbers of groups."""

    own_used: int
    own_without_advantage: int
    own_missing: int  # I − own_used
    external_used: int
    external_without_advantage: int
    external_stale: int
    external_missing: int  # J − external_used


@dataclass(frozen=True)
class StepStats:
    """One update, in numbers. Averages over no tokens are 0."""

    groups: int  # given
    samples: int  # trained on
    samples_dropped: int  # external ones with a negative advantage
    samples_too_long: int  # another tokenizer's text that does not fit the base's context
    tokens: int  # of completions trained on
    loss: float  # summed over the epochs, each a mean over tokens
    grad_norm: float  # of the last epoch, before clipping
    clip_fraction: float  # of tokens, over all epochs
    external_tokens: int  # whose sampling_logprobs are known, over all epochs
    unknown_tokens: int  # external ones whose are not: this node did not recompute them, or reads other tokens
    mean_weight: float  # of the known ones
    drift: float  # own − behaviour log-probability on those, nats per token
    mismatch_kl: float  # records against trainer on own tokens (see loss.LIKELY), nats per token; should be below 1e-4


def advantages(rewards: Sequence[float]) -> list[float] | None:
    """A group's rewards less their mean, over their standard deviation (GRPO, section 4.1.2), in their order.

    None if all are equal, as nothing can be learned then. Without unit: rewards of any scale give the same ones.
    """
    mean = sum(rewards) / len(rewards)
    deviation = math.sqrt(sum((reward - mean) ** 2 for reward in rewards) / len(rewards))
    if max(rewards) == min(rewards):
        return None
    return [(reward - mean) / deviation for reward in rewards]


def build_training_set(
    own: Sequence[Group],
    pool: Sequence[Group],
    config: TrainConfig,
    *,
    round_: int,
    rng: random.Random,
    weigh: Callable[[Group], float] | None = None,
) -> tuple[list[Group], Counts]:
    """I own groups, the first ones, and J of the pool's, all with an advantage.

    round_: the one that is played, by which the pool's groups are stale or not; rng: what is drawn with. The paper's
    sampler (SAPO, section 3.2, algorithm 1): external groups without advantage are dropped first, then J are drawn
    without replacement, uniformly unless `weigh` gives them positive weights. Where groups are missing, the set is
    smaller; the counts say by how much.
    """
    own_useful = [group for group in own if has_advantage(group)]
    own_used = own_useful[: config.own_groups]
    fresh = [group for group in pool if group.round >= round_ - config.staleness]
    useful = [group for group in fresh if has_advantage(group)]
    external_used = draw(useful, config.external_groups, rng, weigh)
    return [*own_used, *external_used], Counts(
        own_used=len(own_used),
        own_without_advantage=len(own) - len(own_useful),
        own_missing=config.own_groups - len(own_used),
        external_used=len(external_used),
        external_without_advantage=len(fresh) - len(useful),
        external_stale=len(pool) - len(fresh),
        external_missing=config.external_groups - len(external_used),
    )


def draw(
    groups: Sequence[Group], count: int, rng: random.Random, weigh: Callable[[Group], float] | None = None
) -> list[Group]:
    """At most `count` groups without replacement, uniformly or by weight (Efraimidis and Spirakis 2006)."""
    if weigh is None:
        return rng.sample(groups, min(count, len(groups)))
    keys = [(rng.random() ** (1 / weigh(group)), i) for i, group in enumerate(groups)]
    return [groups[i] for _, i in sorted(keys, reverse=True)[:count]]


@dataclass(frozen=True)
class Trained:
    """A sample with what its group gives it."""

    sample: Sample
    advantage: float
    external: bool

    @property
    def passage(self) -> Passage:
        return Passage(self.sample.prompt_ids, self.sample.ids)

    @property
    def is_known(self) -> bool:
        """Whether it is an own one, or tells how likely its sampler found it."""
        return not self.external or self.sample.sampling_logprobs is not None

    @property
    def sampling_logprobs(self) -> Sequence[float]:
        return self.sample.sampling_logprobs or [math.nan] * len(self.sample.ids)


@dataclass(frozen=True)
class Selection:
    """The samples that are trained on, and how many of the others there were."""

    trained: list[Trained]
    dropped: int
    too_long: int


def select_samples(groups: Sequence[Group], external: External, context: int) -> Selection:
    """Samples of groups with an advantage that fit the context, less external ones that must not push down."""
    selected: list[Trained] = []
    dropped = too_long = 0
    for group in groups:
        values = advantages([sample.reward for sample in group.samples])
        if values is None:
            continue
        for sample, advantage in zip(group.samples, values, strict=True):
            if group.external and advantage < 0 and drops_negatives(external, sample):
                dropped += 1
            elif len(sample.prompt_ids) + len(sample.ids) > context:
                too_long += 1
            elif sample.ids:
                selected.append(Trained(sample, advantage, group.external))
    return Selection(selected, dropped, too_long)


def drops_negatives(external: External, sample: Sample) -> bool:
    """Whether the rule leaves out this external completion where its advantage is negative."""
    if external in ("truncated", "clipped"):
        return sample.sampling_logprobs is None  # nothing can bound how far it is pushed down
    return external in ("drop-negatives", "truncated-drop-negatives")


def make_optimizer(policy: Policy, config: TrainConfig) -> torch.optim.Optimizer:
    """Adam without weight decay: decay would pull a policy away from its base where no reward asks for it."""
    return torch.optim.Adam(policy.parameters(), lr=config.learning_rate)


def train_step(
    policy: Policy, optimizer: torch.optim.Optimizer, groups: Sequence[Group], config: TrainConfig
) -> StepStats:
    """One GRPO update over the training set; without any advantage in it, the policy stays as it is.

    groups: what `build_training_set` gave; optimizer: over `policy.parameters()`. Every token of every selected
    completion counts the same, whichever micro-batch it falls into. Raises GradientError instead of a step that would
    destroy the policy.
    """
    selection = select_samples(groups, config.external, policy.base.context)
    trained = selection.trained
    batches = policy.batches([t.passage for t in trained], config.micro_batch_tokens)
    step_tokens = sum(len(t.sample.ids) for t in trained)
    old: list[torch.Tensor] = []
    outputs: list[LossOutputs] = []
    grad_norm = drift = 0.0
    for _ in range(config.epochs if trained else 0):
        optimizer.zero_grad(set_to_none=True)
        for i, batch in enumerate(batches):
            part = [trained[position] for position in batch]
            log_probs = policy.log_probs([t.passage for t in part])
            if len(old) == i:  # the first epoch: its weights are those at the start of the update
                old.append(log_probs.detach())
            inputs = loss_inputs(part, log_probs, old[i])
            output = grpo_loss(
                against_behaviour(inputs) if config.external == "clipped" else inputs,
                clip_low=config.clip_low,
                clip_high=config.clip_high,
                truncate=config.external in ("truncated", "truncated-drop-negatives"),
                step_tokens=step_tokens,
            )
            output.loss.backward()  # type: ignore[no-untyped-call]
            outputs.append(output)
            drift += total_drift(inputs)
        grad_norm = float(torch.nn.utils.clip_grad_norm_(policy.parameters(), config.max_grad_norm))
        if not math.isfinite(grad_norm):
            raise GradientError("the gradient is not finite; lower learning_rate and resume from a checkpoint")
        optimizer.step()
        policy.untouched = False
    optimizer.zero_grad(set_to_none=True)  # as large as the weights, and of no use until the next step
    give_back()
    weighted = sum(output.weighted for output in outputs)
    return StepStats(
        groups=len(groups),
        samples=len(trained),
        samples_dropped=selection.dropped,
        samples_too_long=selection.too_long,
        tokens=step_tokens,
        loss=sum(output.loss.item() for output in outputs),
        grad_norm=grad_norm,
        clip_fraction=ratio(sum(output.clipped for output in outputs), step_tokens * config.epochs),
        external_tokens=weighted,
        unknown_tokens=config.epochs * sum(len(t.sample.ids) for t in trained if not t.is_known),
        mean_weight=ratio(sum(output.importance_weights for output in outputs), weighted),
        drift=ratio(drift, weighted),
        mismatch_kl=ratio(sum(output.own_mismatch for output in outputs), sum(o.own_known for o in outputs)),
    )


def loss_inputs(part: Sequence[Trained], log_probs: torch.Tensor, old: torch.Tensor) -> LossInputs:
    """Flat tensors for a micro-batch, in the order of `token_log_probs`: (Σ completion lengths,) each.

    log_probs: under the weights being trained, nats, with gradient; old: at the start of the update, without.
    """

    def flat(values: list[float]) -> torch.Tensor:
        return torch.tensor(values, dtype=torch.float32, device=log_probs.device)

    lengths = [len(t.sample.ids) for t in part]
    return LossInputs(
        log_probs=log_probs,
        old_log_probs=old,
        sampling_logprobs=flat([value for t in part for value in t.sampling_logprobs]),
        advantages=flat([t.advantage for t, n in zip(part, lengths, strict=True) for _ in range(n)]),
        external=flat([float(t.external) for t, n in zip(part, lengths, strict=True) for _ in range(n)]).bool(),
    )


def against_behaviour(inputs: LossInputs) -> LossInputs:
    """External tokens of known behaviour measured, and clipped, against the policy that sampled them."""
    known = inputs.external & ~torch.isnan(inputs.sampling_logprobs)
    return replace(inputs, old_log_probs=torch.where(known, inputs.sampling_logprobs, inputs.old_log_probs))


def total_drift(inputs: LossInputs) -> float:
    """Σ old − behaviour over external tokens of known behaviour, nats."""
    known = inputs.external & ~torch.isnan(inputs.sampling_logprobs)
    return float((inputs.old_log_probs - inputs.sampling_logprobs)[known].sum())


def ratio(part: float, whole: float) -> float:
    return part / whole if whole else 0.0
