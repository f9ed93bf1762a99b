"""What every strategy is worth, against being honest: pay and bonds together, at some shares and turnouts."""

import math
from collections.abc import Sequence
from dataclasses import astuple

import numpy as np

from sapo_lab.simulation import rules as r
from sapo_lab.simulation.cells import Cells, Numbers
from sapo_lab.simulation.choices import Rules, Scores, Setting, Strategy
from sapo_lab.simulation.outage import BOND
from sapo_lab.simulation.rounds import Played, play_many
from sapo_lab.simulation.rules import Bools
from sapo_lab.simulation.strategies import swarm
from sapo_lab.simulation.text import markdown, members, whole

SHARES = (0.01, 0.2, 1 / 3)
TURNOUTS = (1.0, 0.6, 0.3)
NODE_ROUNDS = 500  # of those who attack, in a cell
FEWEST_ROUNDS, MOST_ROUNDS = 8, 200
NOISE = 0.005  # of a round's pay: what is nearer to zero counts as zero

# Others claim exactly half in every round: what luck with questions brings is not what is asked here.
SCORES = {Strategy.ABORTER: Scores.LUCK, Strategy.BEST_CENSORS: Scores.UNEQUAL}


def mean_pay(played: Played, which: Bools | slice) -> float:
    """Tokens per node and round."""
    return float(np.mean(played.producer[which] + played.auditor[which]))


def mean_loss(played: Played, which: Bools) -> float:
    """Bonds per node and round: fees and slashes, less what it won.

    Who sees that votes will slash it proves a fault of its own before: so that costs it no more than what a prover
    leaves.
    """
    lost = np.where(played.slashed, np.where(played.ends == r.ENDS_REJECTED, 1 - r.PROVERS_SHARE, 1.0), played.fees)
    return float(np.mean(lost[which] - played.won[which]))


def cell(strategy: Strategy, nodes: int, share: float, turnout: float, rules: Rules, cells: Cells) -> Numbers:
    """pay, lost (bonds), value (rounds' pay): of each node of the strategy; honest_…: of all others.

    Pay is in what the same nodes get where all are honest, and these vote as often. Where that is nothing, as too few
    vote for any batch to be accepted, pay and value are not a number.
    """
    scores = SCORES.get(strategy, Scores.EQUAL)
    base = _played(Strategy.HONEST, nodes, share, turnout, scores, rules, cells)
    its = _played(strategy, nodes, share, turnout, scores, rules, cells)
    found = {name: its[name] for name in ("lost", "honest_lost", "looked")}
    for side in ("", "honest_"):
        found[f"{side}pay"] = its[f"{side}pay"] / (base[f"{side}pay"] or math.nan)
        found[f"{side}value"] = found[f"{side}pay"] - 1 - BOND * its[f"{side}lost"]
    return found


def _played(
    strategy: Strategy, nodes: int, share: float, turnout: float, scores: Scores, rules: Rules, cells: Cells
) -> Numbers:
    """Tokens and bonds per node and round, of those of a strategy and of all others."""
    bad = members(nodes, share)
    rounds = max(FEWEST_ROUNDS, min(MOST_ROUNDS, NODE_ROUNDS // bad))
    name = f"{nodes} nodes, {bad} {strategy.name}, turnout {turnout}, {rounds} rounds, {scores.name}, {astuple(rules)}"

    def compute(rng: np.random.Generator) -> Numbers:
        played = play_many(swarm(nodes, bad, strategy), rules, rng, rounds, Setting(turnout, scores))
        theirs = np.tile(np.arange(nodes) < bad, rounds)
        return {
            "pay": mean_pay(played, theirs),
            "lost": mean_loss(played, theirs),
            "honest_pay": mean_pay(played, ~theirs),
            "honest_lost": mean_loss(played, ~theirs),
            "looked": float(played.looked[~theirs].mean()) / turnout,
        }

    return cells.get(name, compute)


def values(rules: Rules, nodes: int, cells: Cells, shares: Sequence[float] = SHARES) -> str:
    """Every strategy at every share and turnout, in rounds' pay; what is above zero is bold."""
    rows = []
    for strategy in list(Strategy)[1:]:
        found = [cell(strategy, nodes, share, turnout, rules, cells) for turnout in TURNOUTS for share in shares]
        rows.append([strategy.name.lower(), *(signed(one["value"]) for one in found)])
    head = ["strategy", *(f"{whole(turnout)} vote: {whole(share)}" for turnout in TURNOUTS for share in shares)]
    return markdown(head, rows)


def attacks(rules: Rules, nodes: int, turnout: float, cells: Cells, shares: Sequence[float] = SHARES) -> str:
    """The same in parts, at one turnout, and what it does to the others."""
    rows = []
    for strategy in list(Strategy)[1:]:
        for share in shares:
            found = cell(strategy, nodes, share, turnout, rules, cells)
            rows.append(
                [
                    strategy.name.lower(), whole(share), f"{found['pay']:.3f}", f"{found['lost']:.4f}",
                    signed(found["value"]), f"{found['honest_pay']:.3f}", f"{found['honest_lost']:.4f}",
                    f"{found['looked']:.1f}",
                ]
            )  # fmt: skip
    head = ["strategy", "of the nodes", "pay", "bonds lost", "value", "honest: pay", "bonds lost",
            "batches looked at"]  # fmt: skip
    return markdown(head, rows)


def signed(value: float) -> str:
    """A value in rounds' pay."""
    if math.isnan(value):
        return "no pay"
    if abs(value) < NOISE:
        return "0"
    text = f"{value:+.3f}" if abs(value) < 1 else f"{value:+.1f}"
    return f"**{text}**" if value > 0 else text.replace("-", "−")
