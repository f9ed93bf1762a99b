"""What a sweep counts: outcomes, the slowest case, and the case for which the process grew most."""

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from sapo_devnet.processes import resident_kib

T = TypeVar("T")


@dataclass
class Tally:
    """Outcomes are named `what: how`. `limit_seconds` and `limit_mib`: what no single case may take."""

    limit_seconds: float
    limit_mib: float
    outcomes: Counter[str] = field(default_factory=Counter)
    slowest: tuple[float, str] = (0.0, "")
    largest: tuple[float, str] = (0.0, "")
    began: float = field(default_factory=time.monotonic)

    def measured(self, name: str, case: Callable[[], T]) -> T:
        """Runs one case. Raises AssertionError, naming it, where it took too long or too much memory."""
        before = reset_peak()
        started = time.monotonic()
        result = case()
        seconds, grown = time.monotonic() - started, (resident_kib("VmHWM") - before) / 1024
        self.slowest = max(self.slowest, (seconds, name))
        self.largest = max(self.largest, (grown, name))
        assert grown <= self.limit_mib, f"{name} took {grown:.0f} MiB, more than {self.limit_mib}"
        assert seconds <= self.limit_seconds, f"{name} took {seconds:.1f} s, more than {self.limit_seconds}"
        return result

    def count(self, outcome: str) -> None:
        self.outcomes[outcome] += 1

    def table(self) -> str:
        """For docs/results/sweeps.md: outcomes named `what: how` in a row for each what and a column for each how."""
        rows, columns = Counter[str](), Counter[str]()
        for outcome, count in self.outcomes.items():
            what, _, how = outcome.partition(": ")
            rows[what] += count
            columns[how] += count
        lines = [["", *(how for how, _ in columns.most_common())], ["---"] * (len(columns) + 1)]
        for what, _ in rows.most_common():
            cells = [self.outcomes.get(f"{what}: {how}", 0) for how, _ in columns.most_common()]
            lines.append([what, *(f"{cell:,}" if cell else "" for cell in cells)])
        cases, seconds = sum(self.outcomes.values()), time.monotonic() - self.began
        end = (
            f"{cases:,} cases in {seconds:.0f} s; slowest: {self.slowest[0] * 1000:.0f} ms ({self.slowest[1]}); "
            f"most memory: {self.largest[0]:.0f} MiB ({self.largest[1]})"
        )
        return "\n".join([*(f"| {' | '.join(line)} |" for line in lines), "", end])


def reset_peak() -> int:
    """Lets VmHWM begin anew (proc(5), clear_refs 5); KiB of now."""
    Path("/proc/self/clear_refs").write_text("5")
    return resident_kib("VmRSS")
