"""Probabilities that are too small to be seen in a simulation, summed exactly.

Windows start at a permutation of the round's batches. So a batch is seen from the `size` starts up to its own place,
by whoever was dealt them: a random choice of nodes without repetition. One fewer if the batch's own node is among them,
one more if the start before was dealt to a node whose own batch lies between, and is passed over. Votes are
hypergeometric therefore, over one of three numbers of voters.
"""

from dataclasses import dataclass
from functools import cache, lru_cache
from math import lgamma, log

import numpy as np

from sapo_lab.simulation.choices import Rules
from sapo_lab.simulation.rules import Bools, Floats, Ints, condemned


@cache
def _log_factorials(n: int) -> Floats:
    return np.array([lgamma(i + 1) for i in range(n + 1)])


def _log_choose(n: int, k: Ints) -> Floats:
    """Minus infinity where k is not from 0 to n."""
    inside = np.clip(k, 0, n)
    f = _log_factorials(n)
    return np.where((k < 0) | (k > n), -np.inf, f[n] - f[inside] - f[n - inside])


def binomial(n: int, p: float, most: int = 400) -> Floats:
    """P(X = k) for k = 0 … min(n, most). Cut off far beyond the mean: callers have p · n below 100."""
    k = np.arange(min(n, most) + 1)
    if p <= 0 or p >= 1:
        sure: Floats = (k == (n if p >= 1 else 0)).astype(np.float64)
        return sure
    f = _log_factorials(n)
    mass: Floats = np.exp(f[n] - f[k] - f[n - k] + k * log(p) + (n - k) * np.log1p(-p))
    return mass


def seats(nodes: int, size: int) -> dict[int, float]:
    """How many voters a batch is dealt to, and with which probability. nodes: with a batch, its own included."""
    if size >= nodes - 1:
        return {nodes - 1: 1.0}
    own, ahead = size / nodes, 1 / nodes  # where the own node's window starts: within reach, or just before
    longer = size / (nodes - 1)  # the window that starts just before passes over its own batch
    neither = 1 - own - ahead
    return {
        size - 1: own * (1 - longer),
        size: own * longer + neither * (1 - longer) + ahead,
        size + 1: neither * longer,
    }


@lru_cache(maxsize=64)
def votes(for_: int, against: int, nodes: int, size: int) -> Floats:
    """P(a accepts and x votes against a batch), [a, x], if `for_` of the other nodes accept and `against` do not.

    The rest of the other nodes does not vote. The array is kept, and cannot be written to.
    """
    others = nodes - 1
    rest = others - for_ - against
    most = min(size + 1, others)
    a, x = np.arange(most + 1)[:, None], np.arange(most + 1)[None, :]
    mass = np.zeros((most + 1, most + 1))
    for voters, chance in seats(nodes, size).items():
        ways = _log_choose(for_, a) + _log_choose(against, x) + _log_choose(rest, voters - a - x)
        mass += chance * np.exp(ways - _log_choose(others, np.array(voters)))
    mass.flags.writeable = False
    return mass


@dataclass(frozen=True)
class Fate:
    """Of a batch. fined: accepts of stage 2, on the average, that cost their voters a penalty, as it ends rejected."""

    stage_1_accepts: float
    accepted: float
    rejected: float
    fined: float

    @property
    def void(self) -> float:
        return max(0.0, 1.0 - self.accepted - self.rejected)


def accepted_in_stage_1(for_: int, against: int, nodes: int, rules: Rules, missed: float = 0.0) -> float:
    """How likely stage 1 accepts a batch that `for_` others accept, and `against` others where they find nothing.

    missed: how likely each of these finds nothing, whatever the others find. Who finds something rejects, and one
    reject is enough.
    """
    one = votes(for_, against, nodes, rules.window_size(1))
    a, x = np.arange(len(one))[:, None], np.arange(len(one))[None, :]
    return float((one * missed**x)[a + x >= rules.min_accepts].sum())


def stage_2(for_: int, against: int, nodes: int, rules: Rules) -> tuple[float, float, float]:
    """Of a batch that is in it: how likely it accepts it, how likely it rejects it, and what `Fate.fined` says."""
    two = votes(for_, against, nodes, rules.window_size(2))
    a, x = np.arange(len(two))[:, None], np.arange(len(two))[None, :]
    accepts: Bools = (a >= rules.min_accepts) & (3 * a >= 2 * (a + x))
    rejects = condemned(x, a + x, nodes, rules)
    return float(two[accepts].sum()), float(two[rejects].sum()), float((two * a)[rejects].sum())


def fate(for_: int, against: int, nodes: int, rules: Rules, missed: float = 0.0) -> Fate:
    """A batch that `for_` voters accept and `against` reject whenever they are dealt it.

    `nodes` − 1 are its possible voters; for_ + against may be fewer (nodes that do not vote). missed: how likely one of
    `against` finds nothing in stage 1, and accepts. Stage 2 recomputes everything, and misses nothing.
    """
    first = accepted_in_stage_1(for_, against, nodes, rules, missed)
    accepted, rejected, fined = stage_2(for_, against, nodes, rules)  # its draw does not depend on stage 1's
    return Fate(first, first + (1 - first) * accepted, (1 - first) * rejected, (1 - first) * fined)


def voting(honest: int, turnout: float) -> int:
    """How many of some honest nodes vote."""
    return round(turnout * honest)
