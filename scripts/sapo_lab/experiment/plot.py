"""Plots of what a table or a study found, from its CSV files alone."""

from pathlib import Path
from typing import Any

from sapo_lab.experiment.results import Row, by_configuration, read_csv

SMOOTH = 5  # rounds in a running mean


def draw(name: str, folder: Path) -> None:
    """NAME.png: learning curves by configuration, and beside them cumulative reward against held-out pass@1."""
    rows, curves = read_csv(folder / f"{name}.csv"), read_csv(folder / f"{name}-curves.csv")
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    groups = by_configuration(rows)
    figure, (left, right) = plt.subplots(1, 2, figsize=(13, 5))
    colours = plt.get_cmap("tab20")
    for i, (configuration, of) in enumerate(groups.items()):
        colour = colours(i % 20)
        values = [row[configuration] for row in curves if isinstance(row[configuration], float)]
        left.plot(range(1, len(values) + 1), _smoothed(values), color=colour, label=configuration, linewidth=1.4)
        _cross(right, of, colour)
    left.set(
        xlabel="round", ylabel="mean reward of a fresh own completion", title=f"Learning (mean of {SMOOTH} rounds)"
    )
    right.set(xlabel="cumulative reward", ylabel="held-out pass@1 at the end", title="Mean and range over seeds")
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(alpha=0.2)
    figure.tight_layout(rect=(0, 0.04 + 0.03 * ((len(groups) + 3) // 4), 1, 1))
    figure.legend(*left.get_legend_handles_labels(), loc="lower center", ncols=4, frameon=False, fontsize=9)
    figure.savefig(folder / f"{name}.png", dpi=110, metadata={"Software": None})
    plt.close(figure)


def _cross(axes: Any, of: list[Row], colour: Any) -> None:
    rewards, held_out = [row["reward"] for row in of], [row["held_out"] for row in of]
    x, y = sum(rewards) / len(of), sum(held_out) / len(of)
    axes.plot([min(rewards), max(rewards)], [y, y], color=colour, linewidth=1)
    axes.plot([x, x], [min(held_out), max(held_out)], color=colour, linewidth=1)
    axes.plot([x], [y], "o", color=colour, markersize=5)


def _smoothed(values: list[float]) -> list[float]:
    return [
        sum(values[max(0, i - SMOOTH + 1) : i + 1]) / len(values[max(0, i - SMOOTH + 1) : i + 1])
        for i in range(len(values))
    ]
