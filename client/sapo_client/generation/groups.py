"""Groups of completions for any prompts and any reward, without chain, spec or published batch.

What is generated is what a node would generate and record: tokens forced by streams that follow from a seed, and
log-probabilities from one float32 pass over the finished completions (records.py).
"""

import math
from collections.abc import Callable, Sequence

from sapo_client.generation.engine import Engine
from sapo_client.generation.records import make_records
from sapo_client.generation.torch_engine import TorchEngine
from sapo_client.policy.policy import Policy
from sapo_client.training.groups import Group, Sample, sample_of
from sapo_verifier import protocol
from sapo_verifier.errors import SapoError
from sapo_verifier.objects import Record

NOBODY = "0x" + "00" * 20  # the node of groups that no node published


class GroupsError(SapoError):
    """Prompts, rewards or an engine that no groups can be made with."""


def generate_groups(
    policy: Policy,
    prompts: Sequence[str | Sequence[int]],
    *,
    group_size: int,
    reward: Callable[[int, str], float],
    max_new_tokens: int = 64,
    seed: int = 0,
    round_: int = 0,
    engine: Engine | None = None,
) -> list[Group]:
    """One group of `group_size` completions per prompt, sampled at temperature 1 and scored; slot: the prompt's place.

    prompts: texts as the model shall read them (special tokens written in them are recognised, nothing is added), or
    token ids. reward: gets the prompt's place and a completion's text without its end token; gives any finite number.
    seed, round_: not negative; equal ones give equal streams of random numbers, others give others, so give every call
    of a run another round. engine: made for this policy and for `max_new_tokens`; None: torch, in this process.

    Raises GroupsError for prompts, numbers, rewards or an engine that do not fit, SapoError for a text that the
    tokenizer cannot spell, NotFiniteError for a policy that diverged, and whatever `reward` raises.
    """
    _check_numbers(group_size, max_new_tokens, seed, round_)
    ids = _prompt_ids(policy, prompts, max_new_tokens)
    beacon = protocol.H("silo", seed, round_)
    rows = [(slot, k) for slot in range(len(ids)) for k in range(group_size)]
    engine = engine or TorchEngine(policy, max_new_tokens)
    records, _ = make_records(
        _Bounded(engine, max_new_tokens),
        policy.model,
        [ids[slot] for slot, _ in rows],
        [protocol.stream_key(beacon, protocol.ZERO, NOBODY, slot, k) for slot, k in rows],
        vocab=policy.base.vocab,
        max_new_tokens=max_new_tokens,
    )
    engine.sleep()
    groups = []
    for slot, prompt in enumerate(ids):
        mine = records[slot * group_size : (slot + 1) * group_size]
        samples = [_sample(policy, prompt, completion, slot, reward) for completion in mine]
        groups.append(Group(samples, round_, None, slot, NOBODY, external=False))
    return groups


class _Bounded:
    """An engine whose completions are as long as was asked for: records of longer ones would be another stream's."""

    def __init__(self, engine: Engine, max_new_tokens: int) -> None:
        self._engine = engine
        self._max_new_tokens = max_new_tokens

    def generate(
        self, prompts: Sequence[Sequence[int]], prefixes: Sequence[Sequence[int]], keys: Sequence[bytes]
    ) -> list[list[int]]:
        """See Engine. Raises GroupsError for a completion that is too long."""
        completions = self._engine.generate(prompts, prefixes, keys)
        if (longest := max(map(len, completions))) > self._max_new_tokens:
            raise GroupsError(
                f"the engine gave {longest} tokens where max_new_tokens is {self._max_new_tokens}; "
                "make it with the same max_new_tokens"
            )
        return completions

    def sleep(self) -> None:
        """See Engine."""
        self._engine.sleep()


def _check_numbers(group_size: int, max_new_tokens: int, seed: int, round_: int) -> None:
    if group_size < 2:
        raise GroupsError(f"group_size is {group_size}; an advantage needs at least 2 completions to compare")
    if max_new_tokens < 1:
        raise GroupsError(f"max_new_tokens is {max_new_tokens}; a completion has at least 1 token")
    for name, value in (("seed", seed), ("round_", round_)):
        if not 0 <= value < 1 << 256:
            raise GroupsError(f"{name} is {value}; give a number from 0 on, below 2**256")


def _prompt_ids(policy: Policy, prompts: Sequence[str | Sequence[int]], max_new_tokens: int) -> list[list[int]]:
    if isinstance(prompts, str) or not prompts:
        raise GroupsError("prompts must be a list of at least one text or list of token ids")
    found = []
    for slot, prompt in enumerate(prompts):
        ids = policy.tokenizer.prompt(prompt) if isinstance(prompt, str) else [int(token) for token in prompt]
        if not ids or not all(0 <= token < policy.base.vocab for token in ids):
            raise GroupsError(f"prompt {slot} needs at least one token id, each from 0 to {policy.base.vocab - 1}")
        if len(ids) + max_new_tokens > policy.base.context:
            raise GroupsError(
                f"prompt {slot} has {len(ids)} tokens; with max_new_tokens = {max_new_tokens} that is more than the "
                f"model's context of {policy.base.context}; shorten it, or lower max_new_tokens"
            )
        found.append(ids)
    return found


def _sample(
    policy: Policy, prompt: list[int], records: Sequence[Record], slot: int, reward: Callable[[int, str], float]
) -> Sample:
    text = policy.text([record.token for record in records])
    return sample_of(prompt, records, _finite(reward(slot, text), slot, text))


def _finite(value: float, slot: int, text: str) -> float:
    try:
        finite = math.isfinite(value)
    except (TypeError, OverflowError):  # no number, or one that no float holds
        finite = False
    if not finite:
        raise GroupsError(
            f"reward({slot}, {text[:80]!r}) gave {value!r}; it must give a finite number for every text, "
            "an empty one too"
        )
    return float(value)
