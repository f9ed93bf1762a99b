"""rounds.jsonl: every round exactly once, also one that passed while the node could not play it, with the reason."""

import dataclasses
import logging
from pathlib import Path
from typing import Any

from sapo_client.duties.health.collapse import ROUNDS, collapse_reasons
from sapo_client.state.report import RoundReport, read_rounds

log = logging.getLogger(__name__)

MOST_PASSED = 50  # rounds that get a line of their own, the latest ones, where many passed at once


class RoundLog:
    """A line per round. A round that passes without a report gets one with the reason that was known best."""

    def __init__(self, home: Path) -> None:
        self._home = home
        reports = read_rounds(home)
        self._told: list[dict[str, Any]] = [report for report in reports if report.get("completions")][-ROUNDS:]
        self._is_dying = bool(collapse_reasons(self._told))
        self._last: int | None = reports[-1]["round"] if reports else None
        # Such a round may be played after all, by a node that was started anew.
        self._was_skipped = bool(reports and reports[-1]["skipped"])
        self._why: dict[int, str] = {}
        self._usual = "the node was not running, or still starting, when the round passed"

    def begins(self, round_: int) -> None:
        """The node is about to play this round: those since the last report have passed."""
        if self._last is None:  # nothing is known of rounds before the node's first one
            self._last = round_ - 1
        for passed in range(max(self._last + 1, round_ - MOST_PASSED), round_):
            self._write(RoundReport(passed, skipped=self._why.get(passed, self._usual)))
        self._why = {known: words for known, words in self._why.items() if known >= round_}
        self._usual = (
            f"the node was still busy with round {round_} when this one passed, or its process or machine stood still"
        )

    def because(self, round_: int, words: str) -> None:
        """Why this round has come to nothing so far; it counts where no report follows."""
        self._why[round_] = words

    def meanwhile(self, words: str) -> None:
        """Why no round can be played now; it counts for those that pass until the next one begins."""
        self._usual = words

    def report(self, report: RoundReport) -> None:
        """The round's line, unless it has one. A second one counts, where a skipped round was played after all."""
        if report.round != self._last or (self._was_skipped and not report.skipped):
            self._write(report)

    def anew(self, round_: int) -> None:
        """A reorganization: what is played from this round on is reported again."""
        self._last = round_ - 1

    def _write(self, report: RoundReport) -> None:
        report.append_to(self._home)
        self._last, self._was_skipped = report.round, bool(report.skipped)
        if report.completions:
            self._told = [*self._told, dataclasses.asdict(report)][-ROUNDS:]
            self._warn()

    def _warn(self) -> None:
        """A policy that dies is said once, until it lives again."""
        reasons = collapse_reasons(self._told)
        if reasons and not self._is_dying:
            log.warning("%s", reasons[0])
        self._is_dying = bool(reasons)
