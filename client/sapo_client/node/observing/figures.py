"""The curves of a node's rounds, as `sapo top` draws them on a terminal or a page: from rounds.jsonl alone."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sapo_client.node.observing.metrics import STEPS
from sapo_client.training.metrics import trained

Report = Mapping[str, Any]
BARS = "▁▂▃▄▅▆▇█"


@dataclass(frozen=True)
class Line:
    """One value a round; None where the round does not tell."""

    name: str
    of: Callable[[Report], float | None]


@dataclass(frozen=True)
class Figure:
    """Lines that share an axis. most: where the axis ends at least; None: with the largest value."""

    title: str
    lines: tuple[Line, ...]
    most: float | None = None


def reward(report: Report) -> float | None:
    """The part of the round's completions that is right."""
    return _part(report.get("reward"), report.get("completions"))


def _part(part: Any, whole: Any) -> float | None:
    return part / whole if whole else None


def _key(key: str, name: str = "") -> Line:
    return Line(name or key, lambda report: report.get(key))


def _trained(key: str, name: str) -> Line:
    return Line(name, lambda report: trained(report, key))


def _megabytes(key: str, name: str) -> Line:
    return Line(name, lambda report: report.get(key, 0) / 1e6)


def _speed(report: Report) -> float | None:
    return _part(report.get("positions"), report.get("seconds_generating")) or None


FIGURES = (
    Figure("Reward: right of all own completions", (Line("reward", reward),), 1.0),
    Figure("Groups with an advantage", (_key("own_with_advantage", "own"), _key("external_with_advantage", "others'"))),
    Figure("Groups of others in training", (_key("external_used", "used"), _key("external_missing", "missing"))),
    Figure("Entropy of the policy, nats per token", (_key("entropy"),)),
    Figure("Completions that are the commonest one", (_key("commonest"),), 1.0),
    Figure("Records against trainer, nats per token", (_trained("mismatch_kl", "mismatch"),)),
    Figure("Clipped tokens", (_trained("clip_fraction", "of all"),), 0.1),
    Figure("Importance of others' tokens", (_trained("mean_weight", "mean weight"),), 1.0),
    Figure("Tokens a second", (Line("generated", _speed),)),
    Figure("Seconds by step", tuple(_key(f"seconds_{step}", step) for step in STEPS)),
    Figure("Traffic, MB", (_megabytes("bytes_up", "up"), _megabytes("bytes_down", "down"))),
    Figure("Peers", (_key("peers_asked", "asked"), _key("peers_reached", "reached"))),
)


def sparkline(values: Sequence[float | None], most: float | None = None) -> str:
    """A character a value, a blank where there is none."""
    known = [value for value in values if value is not None]
    top = max([*known, most or 0.0], default=0.0)
    if top <= 0:
        return "".join(" " if value is None else BARS[0] for value in values)
    steps = len(BARS) - 1
    return "".join(" " if value is None else BARS[max(0, min(steps, round(value / top * steps)))] for value in values)
