"""What the processes of a devnet take of the machine, round after round, and what of it does not stay flat."""

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from sapo_devnet.options import Options
from sapo_devnet.processes import Process, resident_kib
from sapo_devnet.run import Run

FLAT = ("ipfs", "checkpoints")  # of a home: what is not needed any more is deleted; the rest are logs and journals
JOURNAL_KIB = 20.0  # a round
MOST_OF_FLAT = 1.1  # the most in the second half, over the most in the first


@dataclass(frozen=True)
class Sample:
    """One process after one round. Disk in KiB, by what it is for; only of a node's own process."""

    round: int
    process: str
    rss_kib: int
    descriptors: int
    threads: int
    disk_kib: dict[str, float]


@dataclass(frozen=True)
class Trend:
    """One process over the second half of a run. Slopes per round."""

    process: str
    first_rss_mib: float
    last_rss_mib: float
    rss_kib: float
    descriptors: float
    threads: float
    disk_kib: dict[str, float]
    folders: dict[str, tuple[float, float]]  # of FLAT: the most KiB in the first half, and in the second

    def faults(self, limit_kib: float) -> list[str]:
        """What is not flat, in words."""
        found = []
        if self.rss_kib > limit_kib:
            found.append(f"memory grows by {self.rss_kib:.0f} KiB a round, more than {limit_kib:.0f}")
        if max(self.descriptors, self.threads) > 0.05:
            found.append(f"{self.descriptors:.2f} descriptors and {self.threads:.2f} threads more in each round")
        found += [
            f"{name} grows by {slope:.1f} KiB a round"
            for name, slope in self.disk_kib.items()
            if name not in FLAT and slope > JOURNAL_KIB
        ]
        found += [
            f"{name} has taken {most:.0f} KiB, and {before:.0f} in the first half"
            for name, (before, most) in self.folders.items()
            if most > MOST_OF_FLAT * before
        ]
        return [f"{self.process}: {fault}" for fault in found]


class Soak(Run):
    """A devnet that looks at its processes at the end of every round."""

    def __init__(self, options: Options) -> None:
        super().__init__(options)
        self.samples: list[Sample] = []

    def _show(self, round_: int, seconds: float) -> None:
        super()._show(round_, seconds)
        for node in self._nodes:
            for process in node.processes():
                disk = {} if process is node.daemon else _disk(node.home)
                self.samples.append(_sample(round_, process, disk))


def _sample(round_: int, process: Process, disk: dict[str, float]) -> Sample:
    folder = Path(f"/proc/{process.pid}")
    descriptors, threads = (len(list((folder / name).iterdir())) for name in ("fd", "task"))
    return Sample(round_, process.name, resident_kib("VmRSS", process.pid), descriptors, threads, disk)


def _disk(home: Path) -> dict[str, float]:
    sizes = {"ipfs": 0.0, "checkpoints": 0.0, "sqlite": 0.0, "rounds.jsonl": 0.0, "logs": 0.0}
    for path in home.rglob("*"):
        name = next((part for part in FLAT if part in path.relative_to(home).parts), path.name)
        # Without SQLite's -wal files: each grows to 4 MiB, and then no more.
        kind = "sqlite" if name.endswith(".sqlite") else "logs" if name.endswith(".log") else name
        if kind in sizes:
            with contextlib.suppress(FileNotFoundError):  # deleted meanwhile
                sizes[kind] += path.stat().st_size / 1024 if path.is_file() else 0.0
    return sizes


def slope(values: Sequence[float]) -> float:
    """Least squares: by how much each value is above the one before."""
    n = len(values)
    middle, mean = (n - 1) / 2, sum(values) / n
    spread = sum((i - middle) ** 2 for i in range(n))
    return sum((i - middle) * (value - mean) for i, value in enumerate(values)) / spread


def trends(samples: Sequence[Sample]) -> list[Trend]:
    """By process, over the second half of its samples."""
    made = []
    for name in dict.fromkeys(sample.process for sample in samples):
        own = [sample for sample in samples if sample.process == name]
        first, half = own[: len(own) // 2], own[len(own) // 2 :]
        made.append(
            Trend(
                name,
                own[0].rss_kib / 1024,
                own[-1].rss_kib / 1024,
                slope([sample.rss_kib for sample in half]),
                slope([sample.descriptors for sample in half]),
                slope([sample.threads for sample in half]),
                {kind: slope([sample.disk_kib[kind] for sample in half]) for kind in half[0].disk_kib},
                {
                    kind: (max(s.disk_kib[kind] for s in first), max(s.disk_kib[kind] for s in half))
                    for kind in half[0].disk_kib
                    if kind in FLAT
                },
            )
        )
    return made


def table(found: Sequence[Trend]) -> str:
    """For docs/results/sweeps.md."""
    lines = [
        "| process | RSS first, MiB | RSS last | KiB a round | descriptors | threads | disk, KiB a round |",
        "|---|---|---|---|---|---|---|",
    ]
    for each in found:
        parts = [f"{name} {value:+.1f}" for name, value in each.disk_kib.items() if name not in FLAT]
        parts += [f"{name} at most {before:,.0f}, then {most:,.0f}" for name, (before, most) in each.folders.items()]
        disk = ", ".join(parts)
        lines.append(
            f"| {each.process} | {each.first_rss_mib:.0f} | {each.last_rss_mib:.0f} | {each.rss_kib:+.1f} | "
            f"{each.descriptors:+.3f} | {each.threads:+.3f} | {disk} |"
        )
    return "\n".join(lines)
