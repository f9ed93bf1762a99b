"""How many of the honest have to vote for a bond of ten rounds' pay to deter false completions and unseen accepts.

What `spots` and `answers` show at three turnouts, turned around: for who chooses draws and spots.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from sapo_lab.simulation.answers import SHARPEST, Costs, Faker, Others, worth
from sapo_lab.simulation.choices import Rules
from sapo_lab.simulation.spots import ROUND, SHARES, SPECS, author_of, worst
from sapo_lab.simulation.text import markdown, whole

DRAWS = 2_000


def least(loses: Callable[[float], bool]) -> str:
    """From which turnout on something loses, in whole percents; what loses at one has to lose at all above."""
    if not loses(1.0):
        return "never"
    low, high = 0, 100  # it does not lose at the one (nobody votes), and does at the other
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if loses(middle / 100) else (middle, high)
    return "any" if high == 1 else f"{high} %"


def making_up_loses(rules: Rules, spots: int, nodes: int, share: float, right: float, turnout: float) -> bool:
    """Whether every number of false completions does."""
    return worst(author_of(nodes, share, turnout, right), rules, spots).gain < 0


def faking_loses(rules: Rules, spots: int, nodes: int, share: float, seed: int, costs: Costs, turnout: float) -> bool:
    """Whether accepting everything unseen does, for the best guessers."""
    faker, others = Faker(rules.draws, SHARPEST**spots), Others(nodes, turnout, share)
    return worth(faker, others, rules, spots, np.random.default_rng(seed), costs, DRAWS).value < 0


def table(rules: Rules, nodes: int, seed: int, costs: Costs, specs: Sequence[tuple[int, int, int]] = SPECS) -> str:
    """By spec and share of friends."""
    rows = []
    for completions, draws, spots in specs:
        tried = replace(rules, completions=completions, draws=draws)
        for share in SHARES:
            asked = (
                *(partial(making_up_loses, tried, spots, nodes, share, right) for right in (ROUND, 0.0)),
                partial(faking_loses, tried, spots, nodes, share, seed, costs),
            )
            malicious = whole(share) if share else "1 alone"
            rows.append([f"{completions}, {draws}, {spots}", malicious, *map(least, asked)])
    head = ["n, K, s", "malicious", "false completions lose: half right", "none right", "accepting unseen loses"]
    return markdown(head, rows)
