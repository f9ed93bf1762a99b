"""What the node played of the chain's last rounds, by its own reports."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sapo_client.state.requests import PAUSED

ROUNDS_BEHIND = 2
LAST_ROUNDS = 10
MANY_SKIPPED = 5  # of those
WELL_AGAIN = 3  # rounds that were published one after the other


@dataclass(frozen=True)
class Played:
    """What was read. `current`: the chain's round; `playing`, `done`: the node's, −1 for none yet."""

    current: int
    playing: int
    done: int
    reports: Sequence[Mapping[str, Any]]
    publishes: bool  # it is to publish: registered, and not winding down


def is_to_publish(round_: int, last_round: int | None) -> bool:
    """last_round: the setting `[sapo] last_round`."""
    return last_round is None or round_ <= last_round


def skipped(reports: Sequence[Mapping[str, Any]], current: int) -> dict[int, str]:
    """Why nothing was published in the last rounds, by round; from the node's first batch on, since a node that is new
    has to commit a policy first. Rounds of a pause are as they were meant to be."""
    if not reports:
        return {}
    published = [report["round"] for report in reports if not report.get("skipped")]
    first = max(published[0] if published else reports[0]["round"], current - LAST_ROUNDS)
    return {
        report["round"]: str(report["skipped"])
        for report in reports
        if report.get("skipped") and first < report["round"] <= current and not _is_paused(report)
    }


def round_reasons(played: Played) -> list[str]:
    """Behind the chain, or rounds skipped: the last one, or many."""
    p, wrong = played, []
    last = max(p.done, p.playing - 1)
    if p.playing >= 0 and p.current - last > ROUNDS_BEHIND:
        wrong.append(
            f"nothing was played to its end in the last {p.current - last - 1} rounds: the node is in round "
            f"{p.playing}, the chain in round {p.current}: is this machine too slow? See the seconds of each step in "
            "rounds.jsonl"
        )
    if not p.publishes:
        return wrong
    missed = skipped(p.reports, p.current)
    newest = max((report["round"] for report in p.reports if report["round"] <= p.current), default=-1)
    if newest in missed:
        wrong.append(
            f"nothing was published in round {newest}: {missed[newest]}; if the next ones are skipped too, see its log"
        )
    elif len(missed) >= MANY_SKIPPED and max(missed) > newest - WELL_AGAIN:
        rounds = ", ".join(map(str, missed))
        wrong.append(
            f"nothing was published in {len(missed)} of the last {LAST_ROUNDS} rounds ({rounds}), the last time "
            f"because: {missed[max(missed)]}; rounds.jsonl has each reason"
        )
    return wrong


def _is_paused(report: Mapping[str, Any]) -> bool:
    return str(report["skipped"]).startswith(PAUSED)
