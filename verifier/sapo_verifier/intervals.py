"""From a token's probabilities to the integers it owns (docs/protocol.md, Sampling): the reference in numpy.

`model/sampling.py` does the same with torch on whole batches; a test compares the two.
"""

import math

import numpy as np
from numpy.typing import NDArray

FULL = 1 << 64
# In units of 2**64, inclusive; integers, so that no comparison is ever rounded.
WIDEN_TOLERANCE = FULL // 100_000  # an honest second pass may miss u by this much: the interval is widened
VOID_TOLERANCE = FULL // 10_000  # a verifier's own pass may differ by this much
REJECT_TOLERANCE = FULL // 20  # beyond this the interval is not the policy's


def edges(logits: NDArray[np.float32], vocab: int) -> list[int]:
    """e(0) … e(vocab − 1) for one position.

    logits: (V,) float32, V ≥ vocab; ids from `vocab` on are masked. Softmax and cumulative sum are taken in float64.
    Token i owns the integers e(i − 1) … e(i) − 1, with e(−1) = 0; a token with none is never legal.
    −inf is a probability of 0. Raises ValueError for NaN, +inf, or −inf alone: such logits are no distribution.
    """
    shifted = logits[:vocab].astype(np.float64)
    if not np.isfinite(shifted.max()):  # NaN wins every maximum
        raise ValueError("the logits are not finite")
    weights = np.exp(shifted - shifted.max())
    probabilities = weights / weights.sum()
    cumulative = np.cumsum(probabilities)
    last = int(np.flatnonzero(probabilities > 0)[-1])
    scaled = [min(math.floor(c * FULL), FULL) for c in cumulative[:last].tolist()]
    return scaled + [FULL] * (vocab - last)


def interval(edges: list[int], token: int) -> tuple[int, int]:
    """(lo, last), both inclusive; lo = last + 1 for a token that owns nothing."""
    return (edges[token - 1] if token else 0), edges[token] - 1


def owner(edges: list[int], u: int) -> int:
    """The token that owns u: the first i with u < e(i)."""
    low, high = 0, len(edges) - 1
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if u < edges[middle] else (middle + 1, high)
    return low


def miss(u: int, lo: int, last: int) -> int:
    """How far u lies outside lo … last; 0 inside."""
    return max(lo - u, u - last, 0)


def log_probability(lo: int, last: int) -> float:
    """The behaviour log-probability that an interval's width states, in nats."""
    return math.log(last - lo + 1) - 64 * math.log(2)
