"""The GRPO loss over a flat list of tokens.

Tokens of all completions of a step lie one after the other: no padding, so no mask that could be wrong. The loss is a
sum over tokens divided by the number of tokens of the whole step, so how it is cut into micro-batches changes nothing.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

# Log-probability from which on records and trainer are compared. An interval may have been widened by 1e-5: for a token
# that is rarer than this one, its width would say more of that than of the policy.
LIKELY = math.log(1e-3)


@dataclass(frozen=True)
class LossInputs:
    """All (N,): one entry per completion token, the end-of-sequence token included.

    log_probs: under the weights being trained, with gradient. old_log_probs: under the weights at the start of the
    update. sampling_logprobs: under the weights that sampled, or NaN where nobody knows. advantages: the completion's.
    external: whether the token is another node's.
    """

    log_probs: Tensor
    old_log_probs: Tensor
    sampling_logprobs: Tensor
    advantages: Tensor
    external: Tensor


@dataclass(frozen=True)
class LossOutputs:
    """loss: to be minimised, a sum over tokens / step_tokens. The rest are sums over tokens, not averages."""

    loss: Tensor
    clipped: float  # tokens whose gradient the clip takes away
    importance_weights: float  # of weighted tokens
    weighted: int  # external tokens with a known behaviour
    own_mismatch: float  # an estimate of KL(behaviour ‖ trainer) over own tokens whose behaviour is LIKELY, nats
    own_known: int  # those tokens


def grpo_loss(
    inputs: LossInputs, *, clip_low: float, clip_high: float, truncate: bool, step_tokens: int
) -> LossOutputs:
    """−min(r·A, clip(r, 1 − clip_low, 1 + clip_high)·A) · w, token by token, with r = exp(log_prob − old).

    w = min(1, exp(old − behaviour)), without gradient, for external tokens of known behaviour if `truncate`; else 1.
    """
    ratio = torch.exp(inputs.log_probs - inputs.old_log_probs.detach())
    plain = ratio * inputs.advantages
    bounded = ratio.clamp(1 - clip_low, 1 + clip_high) * inputs.advantages
    difference = (inputs.old_log_probs - inputs.sampling_logprobs).detach()
    known = ~torch.isnan(inputs.sampling_logprobs)
    weighted = known & inputs.external
    own = ~inputs.external & (inputs.sampling_logprobs >= LIKELY)  # never true for NaN
    weights = torch.where(weighted & truncate, difference.exp().clamp(max=1), 1.0)
    # k3 of Schulman's "Approximating KL divergence": never negative, small variance.
    own_difference = difference[own].double()
    mismatch = torch.expm1(own_difference) - own_difference
    return LossOutputs(
        loss=-(torch.minimum(plain, bounded) * weights).sum() / step_tokens,
        clipped=float((bounded < plain).sum()),
        importance_weights=float(weights[weighted].sum()),
        weighted=int(weighted.sum()),
        own_mismatch=float(mismatch.sum()),
        own_known=int(own.sum()),
    )
