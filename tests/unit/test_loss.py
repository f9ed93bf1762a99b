"""The GRPO loss against numbers computed by hand, and the gradients that its parts let through."""

import math
from pathlib import Path

import pytest
import torch
from torch import Tensor

from sapo_client.pocket import EOS_ID, VOCAB
from sapo_client.policy.log_probs import token_log_probs
from sapo_client.training.loss import LossInputs, LossOutputs, grpo_loss
from sapo_devnet.testkit.tiny_policy import tiny_policy
from sapo_verifier.model import forward
from sapo_verifier.model.forward import Passage

NAN = math.nan


def inputs(
    log_probs: list[float], old: list[float], advantages: list[float], behaviour: list[float], external: list[int]
) -> LossInputs:
    return LossInputs(
        torch.tensor(log_probs, requires_grad=True),
        torch.tensor(old),
        torch.tensor(behaviour),
        torch.tensor(advantages),
        torch.tensor(external).bool(),
    )


def loss_of(values: LossInputs, *, truncate: bool = True, step_tokens: int = 1) -> LossOutputs:
    return grpo_loss(values, clip_low=0.2, clip_high=0.28, truncate=truncate, step_tokens=step_tokens)


def gradient(values: LossInputs, *, truncate: bool = True) -> list[float]:
    loss_of(values, truncate=truncate).loss.backward()
    assert values.log_probs.grad is not None
    return [round(value, 5) for value in values.log_probs.grad.tolist()]


def test_the_loss_is_the_one_computed_by_hand() -> None:
    """Four tokens: on policy, ratio 1.5 clipped at 1.28, ratio 0.5 clipped at 0.8, external with weight 0.25."""
    values = inputs(
        [-1.0, math.log(0.3), math.log(0.1), -2.0],
        [-1.0, math.log(0.2), math.log(0.2), -2.0],
        [2.0, 1.0, -1.0, -3.0],
        [-1.0, NAN, NAN, -2.0 + math.log(4)],
        [0, 0, 0, 1],
    )
    # −(1·2 + 1.28·1 + 0.8·(−1) + 0.25·1·(−3)) / 10
    output = loss_of(values, step_tokens=10)
    assert output.loss.item() == pytest.approx(-(2 + 1.28 - 0.8 - 0.75) / 10, abs=1e-6)
    assert output.clipped == 2
    assert (output.weighted, output.importance_weights) == (1, pytest.approx(0.25))
    assert (output.own_known, output.own_mismatch) == (1, pytest.approx(0, abs=1e-7))


def test_a_widened_interval_of_a_rare_token_is_no_mismatch() -> None:
    """Its width says by how much it was widened, not how likely the token was; a likely token's says both."""
    rare, widened, likely = math.log(1e-7), math.log(1e-5), math.log(0.01)
    values = inputs([rare, likely], [rare, likely], [1.0, 1.0], [widened, likely + 0.1], [0, 0])
    output = loss_of(values)
    assert (output.own_known, output.own_mismatch) == (1, pytest.approx(math.expm1(-0.1) + 0.1, rel=1e-4))


def test_a_clipped_ratio_has_no_gradient_and_the_pessimistic_side_keeps_it() -> None:
    """With A > 0 only a ratio above 1.28 is clipped, with A < 0 only one below 0.8."""
    ratios = [1.5, 0.5, 1.5, 0.5]
    values = inputs([math.log(r) for r in ratios], [0.0] * 4, [1.0, 1.0, -1.0, -1.0], [NAN] * 4, [0] * 4)
    assert gradient(values) == [0.0, -0.5, 1.5, 0.0]


def test_external_tokens_are_weighted_by_at_most_one() -> None:
    """Behaviour more likely than I find it: weight p_mine / p_theirs. Less likely: 1, never more. Own: always 1."""
    behaviour = [math.log(0.8), math.log(0.1), math.log(0.8)]
    old = [math.log(0.2)] * 3
    assert gradient(inputs(list(old), old, [1.0] * 3, behaviour, [1, 1, 0])) == [-0.25, -1.0, -1.0]
    assert gradient(inputs(list(old), old, [1.0] * 3, behaviour, [1, 1, 0]), truncate=False) == [-1.0, -1.0, -1.0]


def test_unknown_sampling_logprobs_mean_weight_one_and_no_statistics() -> None:
    values = inputs([-1.0], [-1.0], [1.0], [NAN], [1])
    output = loss_of(values)
    assert (output.weighted, output.own_known) == (0, 0)
    assert gradient(values) == [-1.0]


def test_mismatch_is_the_divergence_of_records_and_trainer() -> None:
    """k3 at a difference of 0.1 nats, per token."""
    output = loss_of(inputs([-1.0, -1.0], [-1.0, -1.0], [1.0, 1.0], [-1.1, -1.1], [0, 0]))
    assert output.own_mismatch / output.own_known == pytest.approx(math.exp(0.1) - 1.1, abs=1e-6)


def test_log_probabilities_are_those_of_a_plain_forward_pass(tmp_path: Path) -> None:
    policy = tiny_policy(tmp_path)
    passages = [Passage([5, 6], [7, 8, EOS_ID]), Passage([9], [10])]
    found = token_log_probs(policy.model, passages, VOCAB).tolist()
    plain = []
    for prompt, completion in passages:
        logits = policy.model(torch.tensor([[*prompt, *completion]])).logits[0].detach()
        log_probs = torch.log_softmax(logits, dim=-1)
        plain += [float(log_probs[len(prompt) - 1 + t, token]) for t, token in enumerate(completion)]
    assert found == pytest.approx(plain, abs=1e-5)


def test_chunks_of_logits_change_neither_values_nor_gradients(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    policy = tiny_policy(tmp_path)
    passages = [Passage([5, 6], [7, 8, EOS_ID]), Passage([9], [10, 11])]

    def values_and_gradients() -> tuple[Tensor, list[Tensor]]:
        policy.model.zero_grad()
        log_probs = token_log_probs(policy.model, passages, VOCAB)
        log_probs.sum().backward()
        return log_probs.detach(), [p.grad.clone() for p in policy.parameters() if p.grad is not None]

    whole, whole_gradients = values_and_gradients()
    monkeypatch.setattr(forward, "LOGIT_VALUES", 2 * VOCAB)
    assert len(list(forward.row_chunks(5, VOCAB))) == 3
    cut, cut_gradients = values_and_gradients()
    assert torch.allclose(whole, cut, atol=1e-6)
    assert len(whole_gradients) == len(cut_gradients) > 0
    assert all(torch.allclose(a, b, atol=1e-5) for a, b in zip(whole_gradients, cut_gradients, strict=True))
