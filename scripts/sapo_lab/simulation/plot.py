"""The plot of docs/economics.md, and its numbers as CSV."""

import csv
from pathlib import Path

import numpy as np

from sapo_lab.simulation.choices import Rules, Scores, Setting, Strategy
from sapo_lab.simulation.exact import fate
from sapo_lab.simulation.odds import both
from sapo_lab.simulation.rounds import play_many
from sapo_lab.simulation.rules import ENDS_VOID
from sapo_lab.simulation.strategies import swarm

NODES = 1_000
FEW = 0.6  # turnout of honest nodes
SHARES = [i / 100 for i in range(0, 71, 2)]


def curves(rules: Rules, seed: int, nodes: int = NODES) -> list[dict[str, float]]:
    """By malicious share: fates of honest and false batches (exact), and the gain of censors (played)."""
    rng = np.random.default_rng(seed)
    found = []
    for share in SHARES:
        bad = round(share * nodes)
        honest, false = both(nodes, share, 1.0, rules)
        few_honest, few_false = both(nodes, share, FEW, rules)
        lazy = fate(bad, nodes - 1 - bad, nodes, rules)
        row = {
            "share": share,
            "honest_paid": honest.accepted,
            "honest_void": honest.void,
            "honest_slashed": honest.rejected,
            "false_paid": false.accepted,
            "false_void": false.void,
            "false_slashed": false.rejected,
            "false_paid_if_lazy": lazy.accepted,
            "honest_paid_if_few_vote": few_honest.accepted,
            "false_paid_if_few_vote": few_false.accepted,
            "false_slashed_if_few_vote": few_false.rejected,
        }
        played = play_many(swarm(nodes, bad, Strategy.CENSORS), rules, rng, 5, Setting(scores=Scores.EQUAL))
        theirs = np.tile(np.arange(nodes) < bad, 5)
        pay = played.producer + played.auditor
        row["censored"] = float(np.mean(played.ends[~theirs] == ENDS_VOID))
        row["pay_of_a_censor"] = float(np.mean(pay[theirs])) / (rules.pool / nodes) if bad else 1.0
        row["pay_of_an_honest_node"] = float(np.mean(pay[~theirs])) / (rules.pool / nodes)
        found.append(row)
    return found


def write(rules: Rules, seed: int, folder: Path) -> None:
    """economics.csv and economics.png."""
    found = curves(rules, seed)
    with (folder / "economics.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(found[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows({name: f"{value:.6g}" for name, value in row.items()} for row in found)
    _draw(found, folder / "economics.png")


def _draw(found: list[dict[str, float]], target: Path) -> None:
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    share = [100 * row["share"] for row in found]
    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.2))
    lines = {
        "honest_paid": ("honest batch paid", "tab:green", "-"),
        "honest_slashed": ("honest batch slashed", "tab:red", "-"),
        "false_paid": ("false batch paid", "tab:orange", "-"),
        "false_slashed": ("false batch slashed", "tab:blue", "-"),
    }
    for name, (label, colour, style) in lines.items():
        left.plot(share, [100 * row[name] for row in found], style, color=colour, label=label)
        few = f"{name}_if_few_vote"
        if few in found[0]:
            left.plot(share, [100 * row[few] for row in found], "--", color=colour, linewidth=1)
    left.set(
        xlabel="malicious bonds, %", ylabel="of batches, %", title="A cartel that rejects the rest (dashed: 60 % vote)"
    )
    right.plot(share, [row["pay_of_a_censor"] for row in found], color="tab:red", label="a censor's pay")
    right.plot(share, [row["pay_of_an_honest_node"] for row in found], color="tab:green", label="an honest node's pay")
    right.axhline(1, color="grey", linewidth=0.8)
    right.set(xlabel="censoring bonds, %", ylabel="an honest network's pay = 1", title="Voiding the rest for its pay")
    for axes in (left, right):
        axes.axvline(100 / 3, color="grey", linewidth=0.8, linestyle=":")
        axes.legend(frameon=False)
        axes.spines[["top", "right"]].set_visible(False)
    figure.tight_layout()
    figure.savefig(target, dpi=110, metadata={"Software": None})
