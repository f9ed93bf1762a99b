"""What a run gave, in one row; rows of equal configurations in one line; CSV and Markdown."""

import csv
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from sapo_lab.experiment.setting import Setting

Row = dict[str, Any]
Result = Mapping[str, Any]

# What a line of the table shows: the row's field, the heading, how a number is written.
COLUMNS = (
    ("reward", "cumulative reward", "{:.0f}"),
    ("held_out", "held-out pass@1", "{:.3f}"),
    ("advantage_groups", "groups with advantage trained on, per node and round", "{:.2f}"),
    ("drift", "drift, nats per external token", "{:+.2f}"),
    ("external_tokens", "external tokens of known p_theirs", "{:,.0f}"),
    ("unknown_tokens", "external tokens of unknown p_theirs", "{:,.0f}"),
    ("tokens", "tokens generated", "{:,.0f}"),
    ("seconds", "seconds of wall time", "{:.0f}"),
    ("reward_per_million", "reward per million generated tokens", "{:.0f}"),
    ("training_reward", "mean reward of the training set (biased)", "{:.0f}"),
)


BRIEF = ("reward", "held_out", "advantage_groups", "external_tokens", "unknown_tokens", "drift", "training_reward")


def row_of(name: str, result: Result) -> Row:
    """One run in one row. reward: Σ over nodes and rounds of the mean reward of a node's own fresh completions."""
    setting = Setting.from_json(result["setting"])
    rounds: Sequence[Mapping[str, Any]] = result["rounds"]

    def total(field: str) -> float:
        found: float = sum(each[field] for each in rounds)
        return found

    node_rounds = total("nodes")
    last = max(map(int, result["held_out"]))
    quarter = rounds[-max(1, len(rounds) // 4) :]
    late_tokens = sum(each["external_tokens"] for each in quarter)
    return {
        "configuration": name,
        "i": setting.own_groups,
        "j": setting.external_groups,
        "external": setting.external if setting.external_groups or setting.own_as_external else "",
        "generate": setting.slots,
        "seed": setting.seed,
        "nodes": setting.nodes,
        "rounds": setting.rounds,
        "reward": total("reward"),
        "held_out": held_out(result, last),
        "advantage_groups": (total("own_used") + total("external_used")) / node_rounds,
        "own_with_advantage": total("own_with_advantage") / node_rounds,
        "external_missing": total("external_missing") / node_rounds,
        "external_tokens": total("external_tokens"),
        "unknown_tokens": total("unknown_tokens"),
        "drift": total("drift") / max(1, total("external_tokens")),
        "late_drift": sum(each["drift"] for each in quarter) / max(1, late_tokens),
        "weight": total("weight") / max(1, total("external_tokens")),
        "clip_fraction": total("clip_fraction") / len(rounds),
        "mismatch_kl": max(each["mismatch_kl"] for each in rounds),
        "tokens": total("tokens"),
        "seconds": total("seconds"),
        "reward_per_million": 1e6 * total("reward") / total("tokens"),
        "training_reward": total("training_reward"),
    }


def held_out(result: Result, round_: int) -> float:
    """Mean over nodes and datasets after that many rounds."""
    nodes: Sequence[Mapping[str, float]] = result["held_out"][str(round_)]
    return sum(sum(of.values()) / len(of) for of in nodes) / len(nodes)


class Rows:
    """Results in a folder, one file each, so that what was interrupted goes on where it stopped."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def path(self, setting: Setting) -> Path:
        return self._folder / f"{setting.short()}-s{setting.seed}.json"

    def get(self, setting: Setting) -> dict[str, Any] | None:
        """None where it was not played, or by a program that counted less."""
        path = self.path(setting)
        found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {"rounds": []}
        return found if all("unknown_tokens" in each for each in found["rounds"]) and found["rounds"] else None

    def put(self, result: Result) -> None:
        path = self.path(Setting.from_json(result["setting"]))
        path.parent.mkdir(parents=True, exist_ok=True)
        aside = path.with_suffix(".writing")
        aside.write_text(json.dumps(result), encoding="utf-8")
        aside.rename(path)


def write_csv(rows: Sequence[Mapping[str, Any]], file: Path) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.DictWriter(stream, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        for row in rows:
            writer.writerow(
                {name: f"{value:.6g}" if isinstance(value, float) else value for name, value in row.items()}
            )


def read_csv(file: Path) -> list[Row]:
    with file.open(newline="", encoding="utf-8") as stream:
        return [{name: _number(text) for name, text in row.items()} for row in csv.DictReader(stream)]


def by_configuration(rows: Iterable[Row]) -> dict[str, list[Row]]:
    """In the order of their first appearance."""
    groups: dict[str, list[Row]] = {}
    for row in rows:
        groups.setdefault(row["configuration"], []).append(row)
    return groups


def markdown(rows: Sequence[Row], *, first: str = "configuration", brief: bool = False) -> str:
    """A line per configuration: the mean over seeds, and the range behind it where there is more than one.

    brief: only what studies compare. A column that the rows' file has not is left out.
    """
    columns = [column for column in COLUMNS if column[0] in rows[0] and (not brief or column[0] in BRIEF)]
    lines = [
        f"| {first} | seeds | " + " | ".join(heading for _, heading, _ in columns) + " |",
        "|---|---|" + "---|" * len(columns),
    ]
    for name, of in by_configuration(rows).items():
        cells = [_mean_and_range([row[field] for row in of], shape) for field, _, shape in columns]
        lines.append(f"| {name} | {len(of)} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def curves(results: Mapping[str, Sequence[Result]]) -> list[Row]:
    """By round, for each configuration: the mean reward of a fresh completion, over nodes and seeds."""
    longest = max(len(result["rounds"]) for of in results.values() for result in of)
    found = []
    for round_ in range(longest):
        row: Row = {"round": round_ + 1}
        for name, of in results.items():
            there = [result["rounds"][round_] for result in of if round_ < len(result["rounds"])]
            nodes = sum(each["nodes"] for each in there)
            row[name] = sum(each["reward"] for each in there) / nodes if nodes else ""
        found.append(row)
    return found


def _mean_and_range(values: Sequence[float], shape: str) -> str:
    mean = shape.format(sum(values) / len(values))
    low, high = shape.format(min(values)), shape.format(max(values))
    return mean if low == high else f"{mean} ({low} to {high})"


def _number(text: str) -> Any:
    try:
        return float(text)
    except ValueError:
        return text
