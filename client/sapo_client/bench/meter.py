"""What a piece of work takes: wall time, CPU time and peak memory, of this process and of those that it started.

Standard library only, as scripts/bench also measures in other environments with it.
"""

import os
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from sapo_verifier.errors import UnableError

PROC = Path("/proc")
RESET_PEAK = "5"  # proc(5), clear_refs: VmHWM starts again from what is resident now


@dataclass(frozen=True)
class Taken:
    """peak_bytes: resident memory at most, added up over processes (pages that they share count in each).

    cuda_peak_bytes: what torch in this process held at most on its graphics card; None without one.
    """

    seconds: float
    cpu_seconds: float
    peak_bytes: int
    cuda_peak_bytes: int | None

    def __add__(self, other: "Taken") -> "Taken":
        """One piece of work after another: times add up, of the peaks the higher one counts."""
        cuda = [peak for peak in (self.cuda_peak_bytes, other.cuda_peak_bytes) if peak is not None]
        return Taken(
            self.seconds + other.seconds,
            self.cpu_seconds + other.cpu_seconds,
            max(self.peak_bytes, other.peak_bytes),
            max(cuda, default=None),
        )


class Meter:
    """`with Meter() as meter: work()`, then `meter.taken`. Raises SapoError where the kernel does not tell the peak.

    A process that ends within the block counts with its time, if its parent waited for it, and not with its memory.
    """

    taken: Taken

    def __enter__(self) -> Self:
        self._cuda = _cuda()
        if self._cuda is not None:
            self._cuda.synchronize()
            self._cuda.reset_peak_memory_stats()
        try:
            for pid in _processes():
                (PROC / str(pid) / "clear_refs").write_text(RESET_PEAK)
        except OSError as error:
            raise UnableError(
                f"peak memory cannot be measured here: {error}; it takes Linux with a writable /proc/PID/clear_refs"
            ) from error
        self._cpu = _cpu_seconds()
        self._started = time.perf_counter()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._cuda is not None:
            self._cuda.synchronize()
        seconds = time.perf_counter() - self._started
        cuda_peak = None if self._cuda is None else int(self._cuda.max_memory_allocated())
        peak = sum(_status(pid, "VmHWM") for pid in _processes())
        self.taken = Taken(seconds, _cpu_seconds() - self._cpu, peak, cuda_peak)


def _cuda() -> Any:
    """torch.cuda where torch is loaded and has a card."""
    torch = sys.modules.get("torch")
    return torch.cuda if torch is not None and torch.cuda.is_available() else None


def _processes() -> list[int]:
    """This process and all that live below it."""
    parents: dict[int, list[int]] = {}
    for folder in PROC.iterdir():
        if folder.name.isdecimal() and (fields := _stat(int(folder.name))):
            parents.setdefault(int(fields[1]), []).append(int(folder.name))
    found = [os.getpid()]
    for pid in found:
        found += parents.get(pid, [])
    return found


def _cpu_seconds() -> float:
    """User and system time of these processes, and of those that ended below them and were waited for."""
    ticks = sum(int(value) for pid in _processes() for value in _stat(pid)[11:15])
    return ticks / os.sysconf("SC_CLK_TCK")


def _stat(pid: int) -> list[str]:
    """/proc/PID/stat from the state on: field 3 of proc(5) comes first. Empty for a process that has gone."""
    try:
        return (PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return []


def _status(pid: int, name: str) -> int:
    """A field of /proc/PID/status, in bytes; 0 where the process has gone, or is one without memory."""
    try:
        lines = (PROC / str(pid) / "status").read_text().splitlines()
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith(name + ":"))
