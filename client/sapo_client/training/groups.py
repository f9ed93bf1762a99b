"""What a node learns from: completions with their rewards, by task. Without torch."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from sapo_verifier.intervals import log_probability
from sapo_verifier.objects import Record


@dataclass(frozen=True)
class Sample:
    """One completion to learn from. prompt_ids, ids: token ids of the policy that trains; reward: any finite number.

    ids end with the end-of-sequence token only if the completion did. sampling_logprobs: in nats, under the policy that
    sampled, one per id, from the records' intervals; None if these ids have none (another tokenizer), or nobody here
    ran the policy to see whether they are true.
    """

    prompt_ids: Sequence[int]
    ids: Sequence[int]
    sampling_logprobs: Sequence[float] | None
    reward: float


@dataclass(frozen=True)
class Group:
    """One task with its completions, as this node trains on it: own tokenizer, own recomputed rewards."""

    samples: Sequence[Sample]
    round: int  # in which they were sampled
    index: int | None  # the batch's position on chain; None for what was never published
    slot: int  # the task's place among those of its node and round
    node: str  # the owner's address
    external: bool  # of another policy


def has_advantage(group: Group) -> bool:
    """Whether the group's rewards differ, so that there is something to learn."""
    return len({sample.reward for sample in group.samples}) > 1


def sample_of(prompt: list[int], records: Sequence[Record], reward: float) -> Sample:
    """What is learned from a completion whose records are at hand: its ids, and how likely the sampler found them."""
    logprobs = [log_probability(record.lo, record.last) for record in records]
    return Sample(prompt, [record.token for record in records], logprobs, reward)


def entropy_per_token(groups: Sequence[Group]) -> float | None:
    """How uncertain the policy that sampled these completions was, in nats per token; None where nobody knows. An
    estimate: the mean of −log p over the tokens that were sampled, which needs no other token's probability."""
    known = [log_p for group in groups for sample in group.samples for log_p in sample.sampling_logprobs or ()]
    return -sum(known) / len(known) if known else None


def commonest_share(groups: Sequence[Group]) -> float | None:
    """The part of all completions that are the one that came most often, token by token, whatever their tasks; None
    without completions. Near 1 where a policy answers everything alike."""
    counts = Counter(tuple(sample.ids) for group in groups for sample in group.samples)
    return max(counts.values()) / counts.total() if counts else None
