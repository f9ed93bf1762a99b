"""SAPO: what a node trains on, and what an update does to its policy."""

import math
import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from sapo_client.pocket import EOS_ID, VOCAB
from sapo_client.policy.log_probs import token_log_probs
from sapo_client.policy.policy import Policy
from sapo_client.training.groups import Group, Sample
from sapo_client.training.sapo import (
    GradientError,
    StepStats,
    TrainConfig,
    advantages,
    build_training_set,
    make_optimizer,
    select_samples,
    train_step,
)
from sapo_devnet.testkit.tiny_policy import tiny_policy
from sapo_verifier.model.forward import Passage

CONFIG = TrainConfig(learning_rate=3e-3, external="truncated")
PROMPT = [5, 6, 7]
COMPLETIONS = [[10, EOS_ID], [11, 12, 13, EOS_ID], [14, 15, 16], [10, 17, EOS_ID]]


@pytest.fixture
def policy(tmp_path: Path) -> Policy:
    return tiny_policy(tmp_path)


def log_probs(policy: Policy, ids: Sequence[int]) -> list[float]:
    with torch.no_grad():
        return token_log_probs(policy.model, [Passage(PROMPT, ids)], VOCAB).tolist()


def group(
    rewards: Sequence[float],
    *,
    policy: Policy | None = None,
    external: bool = False,
    round_: int = 5,
    slot: int = 0,
    shift: float = 0.0,
) -> Group:
    """COMPLETIONS with these rewards. With a policy, its log-probabilities plus `shift` are the behaviour."""
    samples = [
        Sample(
            PROMPT,
            ids,
            [value + shift for value in log_probs(policy, ids)] if policy else None,
            reward,
        )
        for ids, reward in zip(COMPLETIONS, rewards, strict=False)
    ]
    return Group(samples, round_, None, slot, "0x" + "11" * 20, external)


def step(policy: Policy, groups: Sequence[Group], config: TrainConfig = CONFIG) -> StepStats:
    return train_step(policy, make_optimizer(policy, config), groups, config)


def step_and_gradient(
    policy: Policy, groups: Sequence[Group], config: TrainConfig = CONFIG
) -> tuple[StepStats, torch.Tensor]:
    """The gradient is the one that the optimizer steps along, all of it in one row."""
    optimizer, seen = make_optimizer(policy, config), []

    def look(*_: object) -> None:
        parts = [torch.zeros_like(p) if p.grad is None else p.grad.clone() for p in policy.parameters()]
        seen.append(torch.cat([part.flatten() for part in parts]))

    optimizer.register_step_pre_hook(look)
    stats = train_step(policy, optimizer, groups, config)
    return stats, seen[-1]


# --- advantages ------------------------------------------------------------------------------------------------------


def test_advantages_have_mean_zero_and_deviation_one() -> None:
    values = advantages([1, 0, 0, 0])
    assert values == pytest.approx([math.sqrt(3), *[-1 / math.sqrt(3)] * 3])


@pytest.mark.parametrize("rewards", [[0.0] * 4, [1.0] * 4, [0.1] * 3, [1.0]])
def test_equal_rewards_give_no_advantage(rewards: list[float]) -> None:
    """0.1 three times has a deviation of 1e-17 in floating point: noise must not become an advantage of 1."""
    assert advantages(rewards) is None


# --- the training set ------------------------------------------------------------------------------------------------


def training_set(own: Sequence[Group], pool: Sequence[Group], seed: int = 0) -> tuple[list[Group], dict[str, int]]:
    groups, counts = build_training_set(own, pool, CONFIG, round_=6, rng=random.Random(seed))
    return groups, vars(counts)


def test_groups_without_advantage_are_skipped_and_counted() -> None:
    own = [group([1, 0], slot=0), group([0, 0], slot=1), group([1, 1], slot=2), group([0, 1], slot=3)]
    pool = [group([i % 2, 0], external=True, slot=i) for i in range(20)]
    groups, counts = training_set(own, pool)
    assert [g.slot for g in groups[:2]] == [0, 3]
    assert all(g.external and g.slot % 2 for g in groups[2:])
    assert counts == {
        "own_used": 2,
        "own_without_advantage": 2,
        "own_missing": 2,
        "external_used": 4,
        "external_without_advantage": 10,
        "external_stale": 0,
        "external_missing": 0,
    }


def test_a_dry_pool_is_used_up_and_the_rest_counted_as_missing() -> None:
    groups, counts = training_set([], [group([1, 0], external=True, slot=s) for s in range(3)])
    assert len(groups) == counts["external_used"] == 3
    assert counts["external_missing"] == 1
    assert counts["own_missing"] == 4


def test_stale_groups_are_left_out() -> None:
    pool = [group([1, 0], external=True, round_=r) for r in (0, 1, 2, 5)]
    groups, counts = training_set([], pool)
    assert [g.round for g in groups] in ([2, 5], [5, 2])
    assert counts["external_stale"] == 2


def test_the_draw_is_uniform_without_replacement_and_follows_its_seed() -> None:
    pool = [group([1, 0], external=True, slot=s) for s in range(10)]
    assert training_set([], pool, seed=1) == training_set([], pool, seed=1)
    counts = [0] * 10
    for seed in range(1000):
        slots = [g.slot for g in training_set([], pool, seed=seed)[0]]
        assert len(set(slots)) == 4
        for slot in slots:
            counts[slot] += 1
    assert all(300 < count < 500 for count in counts)  # 400 expected; deviation 15


def test_own_groups_are_never_more_than_asked_for() -> None:
    groups, counts = training_set([group([1, 0], slot=s) for s in range(7)], [])
    assert len(groups) == counts["own_used"] == 4


# --- which samples ---------------------------------------------------------------------------------------------------


def test_external_negatives_are_dropped_where_nothing_can_weigh_them(policy: Policy) -> None:
    """`truncated` weighs what has a behaviour, `drop-negatives` drops all, `as-own` (the paper) none; own ones stay."""
    weighed = group([1, 0, 0, 0], policy=policy, external=True)
    unknown = group([1, 0, 0, 0], external=True)
    own = group([1, 0, 0, 0])

    def dropped(g: Group, external: str) -> int:
        selection = select_samples([g], external, 128)  # type: ignore[arg-type]
        assert selection.dropped + len(selection.trained) == 4
        return selection.dropped

    assert [dropped(g, "truncated") for g in (weighed, unknown, own)] == [0, 3, 0]
    assert [dropped(g, "drop-negatives") for g in (weighed, unknown, own)] == [3, 3, 0]
    assert [dropped(g, "as-own") for g in (weighed, unknown, own)] == [0, 0, 0]


def test_a_sample_that_does_not_fit_the_context_is_left_out(policy: Policy) -> None:
    """A peer's text in my tokens can be far longer than anything I generate."""
    long = Sample(PROMPT, [10] * (policy.base.context - 2), None, 1.0)
    plain = group([0, 0])
    stats = step(policy, [replace(plain, samples=[long, *plain.samples])])
    assert stats.samples_too_long == 1
    assert stats.samples == 2


# --- the update ------------------------------------------------------------------------------------------------------


def test_without_advantage_nothing_changes(policy: Policy) -> None:
    before = policy.weight_bytes()
    stats = step(policy, [group([1, 1, 1, 1]), group([0, 0, 0, 0], external=True)])
    assert policy.weight_bytes() == before
    assert policy.untouched
    assert (stats.samples, stats.tokens, stats.grad_norm) == (0, 0, 0.0)


def test_a_group_without_advantage_adds_no_gradient(policy: Policy, tmp_path: Path) -> None:
    other = tiny_policy(tmp_path / "other")
    step(policy, [group([1, 0, 0, 0])])
    step(other, [group([1, 0, 0, 0]), group([1, 1, 1, 1]), group([0, 0, 0, 0], external=True)])
    assert policy.weight_bytes() == other.weight_bytes()


def test_training_on_a_group_makes_its_good_completion_likelier(policy: Policy) -> None:
    rewards = [0.0, 1.0, 0.0, 0.0]
    before = [sum(log_probs(policy, ids)) for ids in COMPLETIONS]
    optimizer = make_optimizer(policy, CONFIG)
    for _ in range(20):
        train_step(policy, optimizer, [group(rewards)], CONFIG)
    after = [sum(log_probs(policy, ids)) for ids in COMPLETIONS]
    assert after[1] > before[1] + 1
    assert all(after[i] < before[i] for i in (0, 2, 3))
    assert not policy.untouched


def test_the_end_of_sequence_is_trained(policy: Policy) -> None:
    """Two completions that differ only in ending: what the reward says about the end is learned."""
    ended, going_on = Sample(PROMPT, [10, EOS_ID], None, 1.0), Sample(PROMPT, [10, 20], None, 0.0)
    before = log_probs(policy, [10, EOS_ID])[1]
    optimizer = make_optimizer(policy, CONFIG)
    for _ in range(10):
        train_step(policy, optimizer, [replace(group([1, 0]), samples=[ended, going_on])], CONFIG)
    assert log_probs(policy, [10, EOS_ID])[1] > before + 0.5


def test_micro_batches_do_not_change_the_update(policy: Policy, tmp_path: Path) -> None:
    """Completions of different lengths: an average per micro-batch would weigh their tokens differently."""
    other = tiny_policy(tmp_path / "other")
    own = group([1, 0, 0, 1], policy=policy, shift=0.3)
    groups = [own, group([0, 1, 0, 0], policy=policy, external=True, shift=0.3)]
    whole, gradient = step_and_gradient(policy, groups)
    cut, other_gradient = step_and_gradient(other, groups, replace(CONFIG, micro_batch_tokens=1))
    assert torch.allclose(gradient, other_gradient, atol=1e-5)
    assert gradient.abs().max() > 1e-3
    for name, value in vars(whole).items():
        assert vars(cut)[name] == pytest.approx(value, abs=1e-5), name


def test_a_second_epoch_sees_ratios_beside_one_and_clips(policy: Policy, tmp_path: Path) -> None:
    """Old log-probabilities are those of the start of the update, so the clip is alive."""
    assert step(policy, [group([1, 0, 0, 0])]).clip_fraction == 0
    config = replace(CONFIG, epochs=4, learning_rate=0.02)
    assert step(tiny_policy(tmp_path / "other"), [group([1, 0, 0, 0])], config).clip_fraction > 0.1


def test_own_records_and_the_trainer_agree(policy: Policy) -> None:
    stats = step(policy, [group([1, 0, 0, 0], policy=policy)])
    assert stats.mismatch_kl < 1e-8
    assert stats.drift == stats.mean_weight == 0  # nothing external


def test_external_weights_and_drift_are_reported(policy: Policy) -> None:
    """Sampled by a policy that finds everything 0.5 nats likelier than mine: weight e^−0.5."""
    stats = step(policy, [group([1, 0, 0, 0], policy=policy, external=True, shift=0.5)])
    assert stats.drift == pytest.approx(-0.5, abs=1e-4)
    assert stats.mean_weight == pytest.approx(math.exp(-0.5), abs=1e-4)
    assert stats.mismatch_kl == 0


def test_truncated_weights_scale_an_external_gradient(policy: Policy, tmp_path: Path) -> None:
    other = tiny_policy(tmp_path / "other")
    config = replace(CONFIG, max_grad_norm=1e9)
    groups = [group([1, 0, 0, 0], policy=policy, external=True, shift=math.log(4))]
    _, truncated = step_and_gradient(policy, groups, config)
    _, whole = step_and_gradient(other, groups, replace(config, external="as-own"))
    assert torch.allclose(truncated * 4, whole, atol=1e-4)
    assert whole.abs().max() > 1e-3


def test_text_of_another_tokenizer_is_learned_from_but_not_against(policy: Policy) -> None:
    good = group([1, 0, 0, 0], external=True)
    before = [sum(log_probs(policy, ids)) for ids in COMPLETIONS]
    stats = step(policy, [good])
    assert (stats.samples, stats.samples_dropped, stats.tokens) == (1, 3, len(COMPLETIONS[0]))
    assert sum(log_probs(policy, COMPLETIONS[0])) > before[0]


def test_the_gradient_norm_is_bounded(policy: Policy) -> None:
    stats, gradient = step_and_gradient(policy, [group([1, 0, 0, 0])], replace(CONFIG, max_grad_norm=0.01))
    assert stats.grad_norm > 0.01
    assert gradient.norm() == pytest.approx(0.01, rel=1e-3)


def test_no_gradient_is_kept_between_updates(policy: Policy) -> None:
    """It takes as much memory as the weights, and generation comes next."""
    step(policy, [group([1, 0, 0, 0])])
    assert all(parameter.grad is None for parameter in policy.parameters())


def test_a_gradient_that_is_not_finite_stops_the_update(policy: Policy) -> None:
    with torch.no_grad():
        policy.parameters()[-1].fill_(float("nan"))
    with pytest.raises(GradientError, match="learning_rate"):
        step(policy, [group([1, 0, 0, 0])])


def test_a_large_model_is_trained_in_smaller_passes(policy: Policy, monkeypatch: pytest.MonkeyPatch) -> None:
    """If nobody says how many tokens a pass takes; what is said counts."""
    passages = [Passage([5, 6], [10] * 60)] * 300
    whole = len(policy.batches(passages))
    monkeypatch.setattr("sapo_client.policy.memory.LARGE", 1)
    assert len(policy.batches(passages)) > whole
    assert len(policy.batches(passages, 8192)) == whole
