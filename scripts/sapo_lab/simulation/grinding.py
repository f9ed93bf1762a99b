"""How many beacons somebody has to try until a false batch is paid: windows by a permutation, and drawn one by one.

Whoever builds the first block of a round can choose among beacons. One that deals the batch no honest voter in stage
1, and friends enough, has it paid; so does one that deals it two thirds of friends in stage 2. Each is a beacon of its
own, so the cheaper of the two counts. Draws one by one, independent of each other, were those of version 1.
"""

from collections.abc import Sequence
from dataclasses import replace
from math import log2

import numpy as np

from sapo_lab.simulation.choices import Rules
from sapo_lab.simulation.exact import binomial, votes, voting
from sapo_lab.simulation.rules import Floats
from sapo_lab.simulation.text import markdown, members, whole

CASES = ((20, 4), (60, 4), (60, 0.1), (60, 0.2), (60, 1 / 3), (200, 4), (200, 0.1), (200, 0.2), (200, 1 / 3),
         (1_000, 4), (1_000, 0.1), (1_000, 0.2), (1_000, 1 / 3))  # fmt: skip
TURNOUTS = (1.0, 0.6, 0.3)
FIRST_MIN_ACCEPTS = 2  # of version 1's specs


def chance(cartel: int, nodes: int, rules: Rules, turnout: float = 1.0) -> float:
    """Of one beacon to have one false batch of a cartel paid that votes for it, all honest voters being against it."""
    against = voting(nodes - cartel, turnout)
    one, two = (votes(cartel - 1, against, nodes, rules.window_size(stage)) for stage in (1, 2))
    return _better(one, two, rules.min_accepts)


def first_chance(cartel: int, nodes: int, rules: Rules, turnout: float = 1.0) -> float:
    """The same by version 1: independent windows, and two accepts are enough."""
    against = voting(nodes - cartel, turnout)
    one, two = (
        np.outer(binomial(cartel - 1, p), binomial(against, p))
        for p in (min(1.0, rules.window_size(stage) / (nodes - 1)) for stage in (1, 2))
    )
    return _better(one, two, FIRST_MIN_ACCEPTS)


def _better(one: Floats, two: Floats, least: int) -> float:
    """one, two: P(a accepts, x rejects) of the stages, [a, x]."""
    a, x = np.arange(two.shape[0])[:, None], np.arange(two.shape[1])[None, :]
    return max(float(one[least:, 0].sum()), float(two[(a >= least) & (3 * a >= 2 * (a + x))].sum()))


def tries(chance_of_one: float) -> str:
    """How many, on the average, as a power of two."""
    if chance_of_one < 1e-30:
        return "never"
    return f"2^{max(0.0, -log2(min(1.0, chance_of_one))):.0f}"


def table(rules: Rules, cases: Sequence[tuple[int, float]] = CASES) -> str:
    """cases: nodes, and the cartel: a number of nodes or a share of them."""
    twice = replace(rules, draws=2 * rules.draws)
    rows = []
    for nodes, cartel in cases:
        bad = cartel if isinstance(cartel, int) else members(nodes, cartel)
        row = [f"{nodes:,}", f"{bad} ({whole(bad / nodes)})"]
        row += [tries(first_chance(bad, nodes, rules, turnout)) for turnout in TURNOUTS]
        row += [tries(chance(bad, nodes, tried, turnout)) for tried in (rules, twice) for turnout in TURNOUTS]
        rows.append(row)
    head = ["nodes", "cartel"]
    for name in ("version 1", f"{rules.draws} draws", f"{twice.draws} draws"):
        head += [f"{name}: {whole(TURNOUTS[0])} vote", *map(whole, TURNOUTS[1:])]
    return markdown(head, rows)
