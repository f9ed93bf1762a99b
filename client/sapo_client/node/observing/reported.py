"""What the rounds add up to, from rounds.jsonl as it grows: each line is read once, and the node has no part in it.

A counter begins at zero when the process starts, as Prometheus expects; gauges begin with what the last rounds said.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sapo_client.batches.metrics import OTHERS, OWN
from sapo_client.node.observing.metrics import ROUNDS
from sapo_client.state.report import ROUNDS_FILE, read_rounds
from sapo_client.training.metrics import STEP
from sapo_verifier.metric import Metric, Value

DECLARED: tuple[Metric[Mapping[str, Any]], ...] = (*OWN, *STEP, *OTHERS, *ROUNDS)
LAST_REPORTS = 20  # that tell where gauges begin


class Reported:
    """Of one home. For one thread at a time."""

    def __init__(self, home: Path, declared: Sequence[Metric[Mapping[str, Any]]] = DECLARED) -> None:
        self._path = home / ROUNDS_FILE
        self._declared = declared
        self.values: dict[str, Value] = {}  # by the metric's name
        reports = read_rounds(home)
        self._last = reports[-1]["round"] if reports else -1
        self._file, self._read = self._now()
        for metric in declared:
            if metric.is_counter and not metric.label:
                self.values[metric.name] = 0.0
        for report in reports[-LAST_REPORTS:]:
            self._take(report, counters=False)

    def look(self) -> None:
        """Read what was written since. A file that was made shorter is another one, of which only later rounds are
        new."""
        file, size = self._now()
        if file is None or (file == self._file and size <= self._read):
            return
        fresh = file != self._file or size < self._read
        with self._path.open("rb") as lines:
            lines.seek(0 if fresh else self._read)
            data = lines.read()
        whole = data[: data.rfind(b"\n") + 1]
        self._file, self._read = file, (0 if fresh else self._read) + len(whole)
        for line in whole.splitlines():
            report = _report(line)
            if report is None or (fresh and report["round"] <= self._last):
                continue
            self._last = max(self._last, report["round"])
            self._take(report, counters=True)

    def _now(self) -> tuple[int | None, int]:
        """Which file it is, and its size."""
        try:
            found = self._path.stat()
        except FileNotFoundError:
            return None, 0
        return found.st_ino, found.st_size

    def _take(self, report: Mapping[str, Any], *, counters: bool) -> None:
        for metric in self._declared:
            value = metric.of(report)
            if value is None or (metric.is_counter and not counters):
                continue
            self.values[metric.name] = _sum(self.values.get(metric.name), value) if metric.is_counter else value


def _sum(before: Value, more: Value) -> Value:
    if isinstance(more, Mapping):
        known = before if isinstance(before, Mapping) else {}
        return {**known, **{key: known.get(key, 0.0) + value for key, value in more.items()}}
    assert not isinstance(before, Mapping)
    return (before or 0.0) + (more or 0.0)


def _report(line: bytes) -> dict[str, Any] | None:
    """None for a line that a crash damaged."""
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) and isinstance(found.get("round"), int) else None
