"""Forced sampling on whole batches: logits to scaled cumulative distributions, to tokens, to the integers they own.

The same rule as `intervals.py` (docs/protocol.md, Sampling), with torch. A scaled cumulative value
x = c · 2**64 is a float64, and scaling by a power of two is exact, so e = floor(x) is too. Tokens are compared with u
without leaving float64: for integers, u < floor(x) ⇔ x ≥ u + 1 ⇔ x ≥ T(u), the smallest float64 that is at least u + 1.
"""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from sapo_verifier.errors import SapoError
from sapo_verifier.intervals import FULL


class NotFiniteError(SapoError):
    """A model gave NaN or infinity where a logit was expected."""


def scaled_cumulative(logits: Tensor, vocab: int) -> Tensor:
    """x = c · 2**64 by token id, at most 2**64, never falling, and 2**64 from the last id with p > 0 on.

    logits: (N, V) float32, V ≥ vocab; ids from `vocab` on are masked. Returns (N, vocab) float64.
    Raises NotFiniteError if a logit below `vocab` is NaN or infinite.
    """
    legal = logits[:, :vocab].float()
    if not bool(torch.isfinite(torch.stack(torch.aminmax(legal))).all()):  # NaN is every row's extreme
        raise NotFiniteError("the model's logits are not finite; its weights are broken or training diverged")
    probabilities = torch.softmax(legal, dim=-1, dtype=torch.float64)
    # Ids after the last p > 0 own nothing; nearly always there are none.
    last = vocab - 1 if bool((probabilities[:, -1] > 0).all()) else _last_possible(probabilities)
    x = torch.cumsum(probabilities, dim=-1, out=probabilities)
    if x.device.type != "cpu":  # a parallel scan need not be monotonic in floating point; intervals must never overlap
        x = x.cummax(dim=-1).values
    x.mul_(float(FULL)).clamp_(max=float(FULL))
    if isinstance(last, int):
        x[:, last] = float(FULL)
        return x
    return x.masked_fill_(torch.arange(vocab, device=x.device) >= last, float(FULL))


def _last_possible(probabilities: Tensor) -> Tensor:
    """(N, 1): the last id of each row with p > 0."""
    ids = torch.arange(probabilities.shape[-1], device=probabilities.device)
    return torch.where(probabilities > 0, ids, 0).amax(dim=-1, keepdim=True)


def threshold(u: int) -> float:
    """T(u): the smallest float64 that is at least u + 1, for 0 ≤ u < 2**64."""
    nearest = float(u + 1)
    return nearest if int(nearest) >= u + 1 else math.nextafter(nearest, math.inf)


def choose(x: Tensor, us: Sequence[int]) -> Tensor:
    """The token that owns us[i] in row i. x: (N, vocab) from `scaled_cumulative`. Returns (N,) int64."""
    thresholds = torch.tensor([[threshold(u)] for u in us], dtype=torch.float64, device=x.device)
    return torch.searchsorted(x.contiguous(), thresholds).squeeze(-1)


def owned(x: Tensor, tokens: Tensor) -> list[tuple[int, int]]:
    """(lo, last), both inclusive, of tokens[i] in row i; lo = last + 1 for a token that owns nothing.

    x: (N, vocab) from `scaled_cumulative`; tokens: (N,) int64 below vocab. Unbounded integers: 2**64 does not wrap.
    """
    rows = tokens.unsqueeze(-1)
    below = torch.where(rows > 0, x.gather(-1, (rows - 1).clamp(min=0)), 0.0)
    edges = torch.cat([below, x.gather(-1, rows)], dim=-1)
    return [(int(low), int(high) - 1) for low, high in edges.tolist()]
