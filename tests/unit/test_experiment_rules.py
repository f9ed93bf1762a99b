"""What an external token counts: weights, clips and drops of every rule, and how external groups are drawn."""

import math
import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import get_args

import pytest
import torch

from sapo_client.cli import PROGRAM
from sapo_client.pocket import EOS_ID
from sapo_client.policy.policy import Policy
from sapo_client.state.settings import SapoSettings
from sapo_client.training.groups import Group, Sample
from sapo_client.training.sapo import (
    External,
    StepStats,
    TrainConfig,
    build_training_set,
    draw,
    make_optimizer,
    select_samples,
    train_step,
)
from sapo_devnet.testkit.tiny_policy import tiny_policy
from sapo_lab.experiment.commands import _parser as swarm_parser

CONFIG = TrainConfig(learning_rate=1e-3, max_grad_norm=1e9)
RULES: tuple[External, ...] = get_args(External)
PROMPT = [5, 6, 7]
IDS = [[10, EOS_ID], [11, 12, 13, EOS_ID], [14, 15, 16]]


def log_probs(policy: Policy, ids: Sequence[int]) -> list[float]:
    from sapo_verifier.model.forward import Passage

    with torch.no_grad():
        return policy.log_probs([Passage(PROMPT, ids)]).tolist()


def group(policy: Policy, rewards: Sequence[float], *, shift: float, external: bool, slot: int = 0) -> Group:
    """Sampled by somebody who finds every token `shift` nats likelier than the policy does."""
    samples = [
        Sample(PROMPT, ids, [value + shift for value in log_probs(policy, ids)], reward)
        for ids, reward in zip(IDS, rewards, strict=True)
    ]
    return Group(samples, 1, None, slot, "0x" + "11" * 20, external)


def after(
    folder: Path, rule: External, rewards: Sequence[float], *, shift: float, external: bool
) -> tuple[bytes, StepStats]:
    """The weights after one step of a fresh policy, and what the step says."""
    policy = tiny_policy(folder)
    config = replace(CONFIG, external=rule)
    stats = train_step(
        policy, make_optimizer(policy, config), [group(policy, rewards, shift=shift, external=external)], config
    )
    return policy.weight_bytes(), stats


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("shift", [-0.7, 0.7])
def test_own_groups_weigh_exactly_one_under_every_rule(tmp_path: Path, rule: External, shift: float):
    """Whatever their records say: own tokens are on policy, and an inexact record must not scale them."""
    plain, _ = after(tmp_path / "a", "as-own", [1, 0, 0], shift=0, external=False)
    same, stats = after(tmp_path / "b", rule, [1, 0, 0], shift=shift, external=False)
    assert same == plain
    assert (stats.external_tokens, stats.unknown_tokens, stats.mean_weight, stats.samples_dropped) == (0, 0, 0, 0)


@pytest.mark.parametrize("shift", [-1.0, 0.0, 0.3, 1.5])
def test_truncated_weights_of_others_are_the_ratio_up_to_the_cap(tmp_path: Path, shift: float):
    _, stats = after(tmp_path, "truncated", [1, 0, 0], shift=shift, external=True)
    assert stats.mean_weight == pytest.approx(min(1, math.exp(-shift)), abs=1e-5)
    assert stats.mean_weight <= 1
    assert stats.external_tokens == sum(map(len, IDS))
    assert stats.drift == pytest.approx(-shift, abs=1e-5)


@pytest.mark.parametrize("rule", RULES)
def test_drift_is_told_under_every_rule(tmp_path: Path, rule: External):
    _, stats = after(tmp_path, rule, [1, 0, 0], shift=0.5, external=True)
    assert stats.drift == pytest.approx(-0.5, abs=1e-5)


@pytest.mark.parametrize(("rule", "dropped"), [
    ("as-own", 0), ("truncated", 0), ("clipped", 0), ("drop-negatives", 2), ("truncated-drop-negatives", 2),
])  # fmt: skip
def test_which_rules_drop_external_negatives(tmp_path: Path, rule: External, dropped: int):
    policy = tiny_policy(tmp_path)
    assert select_samples([group(policy, [1, 0, 0], shift=0.5, external=True)], rule, 128).dropped == dropped
    assert select_samples([group(policy, [1, 0, 0], shift=0.5, external=False)], rule, 128).dropped == 0


def test_what_no_record_bounds_is_not_pushed_down_but_in_the_papers_way(tmp_path: Path):
    """Text of another tokenizer has no behaviour here: every rule but `as-own` drops its negatives."""
    made = group(tiny_policy(tmp_path), [1, 0, 0], shift=0, external=True)
    unknown = replace(made, samples=[replace(sample, sampling_logprobs=None) for sample in made.samples])
    dropped = {rule: select_samples([unknown], rule, 128).dropped for rule in RULES}
    assert dropped == {rule: 0 if rule == "as-own" else 2 for rule in RULES}


@pytest.mark.parametrize("rule", RULES)
def test_where_nobody_knows_p_theirs_one_s_own_probability_stands_in(tmp_path: Path, rule: External):
    """The good completion has the weight 1 then, as under `drop-negatives`, and is counted as one of those."""
    known, _ = after(tmp_path / "known", "drop-negatives", [1, 0, 0], shift=1.5, external=True)
    policy, config = tiny_policy(tmp_path / "unknown"), replace(CONFIG, external=rule)
    good, *bad = group(policy, [1, 0, 0], shift=1.5, external=True).samples
    made = group(policy, [1, 0, 0], shift=1.5, external=True)
    mixed = replace(made, samples=[replace(good, sampling_logprobs=None), *bad])
    stats = train_step(policy, make_optimizer(policy, config), [mixed], config)
    others = 0 if "drop-negatives" in rule else sum(map(len, IDS[1:]))
    assert (stats.unknown_tokens, stats.external_tokens) == (len(IDS[0]), others)
    if "drop-negatives" in rule:
        assert policy.weight_bytes() == known


def test_both_together_is_truncated_on_what_is_not_dropped(tmp_path: Path):
    """Positives beyond the cap's reach: as `drop-negatives`. Below it: that, scaled."""
    near, _ = after(tmp_path / "a", "truncated-drop-negatives", [1, 0, 0], shift=-1, external=True)
    dropped, _ = after(tmp_path / "b", "drop-negatives", [1, 0, 0], shift=-1, external=True)
    assert near == dropped
    _, stats = after(tmp_path / "c", "truncated-drop-negatives", [1, 0, 0], shift=1, external=True)
    assert (stats.samples, stats.external_tokens) == (1, len(IDS[0]))
    assert stats.mean_weight == pytest.approx(math.exp(-1), abs=1e-5)


@pytest.mark.parametrize("rewards", [[1, 0, 0], [1, 1, 0]])
def test_clipped_moves_what_is_not_far_from_its_author(tmp_path: Path, rewards: list[float]):
    before = tiny_policy(tmp_path / "before").weight_bytes()
    weights, stats = after(tmp_path / "after", "clipped", rewards, shift=0.1, external=True)
    assert weights != before
    assert stats.clip_fraction == 0


def test_clipped_leaves_alone_what_has_moved_far_enough(tmp_path: Path):
    """One good completion of which I am surer than its author was by more than the clip: nothing to learn from it."""
    policy = tiny_policy(tmp_path)
    config = replace(CONFIG, external="clipped")
    made = group(policy, [1, 0, 0], shift=-1.0, external=True)
    good, *others = made.samples
    bad = [replace(s, sampling_logprobs=[v + 2.0 for v in s.sampling_logprobs or ()]) for s in others]
    before = policy.weight_bytes()
    stats = train_step(policy, make_optimizer(policy, config), [replace(made, samples=[good, *bad])], config)
    assert stats.clip_fraction == 1
    assert policy.weight_bytes() == before


def test_settings_and_commands_know_every_rule():
    for rule in RULES:
        assert SapoSettings(external=rule).external == rule
    assert TrainConfig().external == SapoSettings().external
    for parser, command in ((PROGRAM.parser(), "init"), (swarm_parser(), "run")):
        (commands,) = [action.choices for action in parser._actions if isinstance(action.choices, dict)]
        (option,) = [action for action in commands[command]._actions if action.dest == "external"]
        assert set(option.choices) == set(RULES)
        assert option.default in (None, SapoSettings().external)


def test_a_weighted_draw_follows_its_weights_and_never_repeats(tmp_path: Path):
    policy = tiny_policy(tmp_path)
    pool = [group(policy, [1, 0, 0], shift=0, external=True, slot=slot) for slot in range(4)]
    rng = random.Random(1)
    first = [0] * 4
    for _ in range(2000):
        drawn = draw(pool, 2, rng, lambda g: float(1 + g.slot))
        assert len({g.slot for g in drawn}) == 2
        first[drawn[0].slot] += 1
    assert [count / 2000 for count in first] == pytest.approx([0.1, 0.2, 0.3, 0.4], abs=0.04)
    config = replace(CONFIG, external_groups=9)
    groups, counts = build_training_set([], pool, config, round_=1, rng=rng, weigh=lambda _: 1.0)
    assert (len(groups), counts.external_missing) == (4, 5)
