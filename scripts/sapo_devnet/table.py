"""What the devnet shows: a line per round while it runs, a table at the end, and how to read it."""

from collections.abc import Sequence
from typing import Any

COLUMNS = (
    ("round", "round"),
    ("node", "node"),
    ("reward", "reward"),
    ("own adv", "own_with_advantage"),
    ("drawn", "external_drawn"),
    ("fetched", "external_fetched"),
    ("checked", "external_checked"),
    ("failed", "external_failed"),
    ("with adv", "external_with_advantage"),
    ("used", "external_used"),
    ("KiB up", "bytes_up"),
    ("KiB down", "bytes_down"),
    ("s gen", "seconds_generating"),
    ("s audit", "seconds_auditing"),
    ("s train", "seconds_training"),
    ("s wait", "seconds_waiting"),
)
LEGEND = """reward: right ones of the node's own, freshly generated completions. own adv: own groups with advantage,
which are what GRPO learns from. drawn … used: groups of other nodes that the beacon dealt to the node, and
what became of them."""


def table(rows: Sequence[dict[str, Any]]) -> str:
    """rows: round reports (report.RoundReport) with the node's name added, in the order to show."""
    cells = [[title for title, _ in COLUMNS], *([_cell(row, key) for _, key in COLUMNS] for row in rows)]
    widths = [max(len(line[i]) for line in cells) for i in range(len(COLUMNS))]
    return "\n".join("  ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True)) for line in cells)


def _cell(row: dict[str, Any], key: str) -> str:
    if key == "reward":
        return f"{row['reward']}/{row['completions']}" if row["completions"] else "-"
    value = row[key]
    if key.startswith("seconds_"):
        return f"{value:.1f}"
    return f"{value / 1024:.0f}" if key.startswith("bytes_") else str(value)


def round_line(round_: int, reports: dict[str, dict[str, Any]], seconds: float) -> str:
    """One round of all nodes, in a line."""
    parts = []
    for name, report in reports.items():
        if report["completions"]:
            parts.append(
                f"{name} {report['reward']}/{report['completions']} right, adv {report['own_with_advantage']}"
                f"+{report['external_with_advantage']}, ext {report['external_used']}"
            )
        else:
            parts.append(f"{name} -")
    return f"round {round_:3} ({seconds:4.1f} s)  " + " | ".join(parts)


def third_means(rows: Sequence[dict[str, Any]]) -> tuple[float, float]:
    """Share of own fresh completions that are right, in the first and in the last third of the rounds."""
    rounds = sorted({row["round"] for row in rows if row["completions"]})
    third = max(1, len(rounds) // 3)
    return _share(rows, rounds[:third]), _share(rows, rounds[-third:])


def _share(rows: Sequence[dict[str, Any]], rounds: Sequence[int]) -> float:
    chosen = [row for row in rows if row["round"] in rounds]
    completions = sum(row["completions"] for row in chosen)
    return sum(row["reward"] for row in chosen) / completions if completions else 0.0


def checked_share(rows: Sequence[dict[str, Any]], first_round: int = 3) -> float:
    """Of the external groups drawn from `first_round` on, the share that was fetched and passed the checks."""
    drawn = sum(row["external_drawn"] for row in rows if row["round"] >= first_round)
    checked = sum(row["external_checked"] for row in rows if row["round"] >= first_round)
    return checked / drawn if drawn else 1.0
