"""Probabilities that are too small to be seen in a simulation, summed exactly.

A voter's window covers a given batch with probability size / others (exactly (size + 1) / count for the `size` batches
behind its own, size / count for the rest). Voters' windows are independent, so that votes are binomial.
"""

from dataclasses import dataclass
from functools import cache
from math import lgamma, log

import numpy as np

from sapo_lab.simulation.choices import Rules
from sapo_lab.simulation.rules import Floats


@cache
def _log_factorials(n: int) -> Floats:
    return np.array([lgamma(i + 1) for i in range(n + 1)])


def binomial(n: int, p: float, most: int = 400) -> Floats:
    """P(X = k) for k = 0 … min(n, most). Cut off far beyond the mean: callers have p · n below 100."""
    k = np.arange(min(n, most) + 1)
    if p <= 0 or p >= 1:
        sure: Floats = (k == (n if p >= 1 else 0)).astype(np.float64)
        return sure
    f = _log_factorials(n)
    mass: Floats = np.exp(f[n] - f[k] - f[n - k] + k * log(p) + (n - k) * np.log1p(-p))
    return mass


@dataclass(frozen=True)
class Fate:
    """Of one honest batch and of one false batch that a coalition defends, with everybody voting."""

    stage_1_accepts: float
    accepted: float
    rejected: float

    @property
    def void(self) -> float:
        return max(0.0, 1.0 - self.accepted - self.rejected)


def fate(for_: int, against: int, nodes: int, rules: Rules, against_rejects_in_1: bool = True) -> Fate:
    """A batch that `for_` voters accept and `against` reject whenever they are dealt it.

    `nodes` − 1 are its possible voters; for_ + against may be fewer (nodes that do not vote).
    """
    others = nodes - 1
    p1 = min(1.0, rules.window_size(1) / others)
    p2 = min(1.0, rules.window_size(2) / others)
    accepts, rejects = binomial(for_, p1), binomial(against, p1)
    # Stage 1: no reject at all, and enough accepts.
    first = float(rejects[0]) * float(accepts[rules.min_accepts :].sum()) if against_rejects_in_1 else 0.0
    accepts, rejects = binomial(for_, p2), binomial(against, p2)
    a, x = np.arange(len(accepts))[:, None], np.arange(len(rejects))[None, :]
    mass = accepts[:, None] * rejects[None, :]
    accepted = float(mass[(a >= rules.min_accepts) & (3 * a >= 2 * (a + x))].sum())
    rejected = float(mass[(x >= rules.min_rejects) & (3 * x >= 2 * (a + x))].sum())
    # Stage 2's draw does not depend on stage 1's.
    return Fate(first, first + (1 - first) * accepted, (1 - first) * rejected)
