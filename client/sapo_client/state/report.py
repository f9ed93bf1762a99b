"""What a node says of itself: a line per round, and a status file that is always whole."""

import json
import os
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from sapo_verifier.files import write_file

STATUS_FILE = "status.json"
ROUNDS_FILE = "rounds.jsonl"


@dataclass(frozen=True)
class RoundReport:
    """One round of one node. Seconds are wall time, bytes are payload between this node and its peers."""

    round: int
    completions: int = 0  # own, freshly generated
    reward: int = 0  # of them are right
    datasets: dict[str, list[int]] = field(default_factory=dict)  # of each: right completions, and all
    entropy: float | None = None  # of the own completions, nats per token, by the tokens that were sampled
    commonest: float | None = None  # the part of them that are the one that came most often
    own_groups: int = 0
    own_with_advantage: int = 0
    external_drawn: int = 0  # groups in the windows dealt to this node
    external_fetched: int = 0
    external_checked: int = 0  # passed every check that could be made
    external_failed: int = 0  # a check failed, was void, or could not be made here
    external_recomputed: int = 0  # completions on which the producer's policy was run
    external_with_advantage: int = 0
    external_used: int = 0
    external_missing: int = 0  # J less what was used
    external_age: float | None = None  # mean rounds since what was used was sampled; None without any
    peers_asked: int = 0  # producers of batches that were fetched now
    peers_reached: int = 0  # of them gave all that was asked for
    failures: list[str] = field(default_factory=list)  # one sentence per batch that was not accepted
    positions: int = 0
    widened: int = 0
    repaired: int = 0
    bytes_up: int = 0
    bytes_down: int = 0
    seconds_generating: float = 0.0
    seconds_auditing: float = 0.0
    # Of those and of looking at others' answers: reading bases, merging policies into them, passes over completions.
    seconds_policy_load: float = 0.0
    seconds_policy_merge: float = 0.0
    seconds_policy_passes: float = 0.0
    bytes_weights: int = 0  # of other nodes, for the policy check; what is here already is not fetched again
    seconds_training: float = 0.0
    seconds_waiting: float = 0.0
    training: dict[str, Any] = field(default_factory=dict)  # StepStats
    skipped: str = ""  # why nothing was published

    def told(self) -> dict[str, int | float | str]:
        """What a line of the log can say of it: all but lists and the training's details."""
        return {name: value for name, value in asdict(self).items() if isinstance(value, int | float | str)}

    def append_to(self, home: Path) -> None:
        with (home / ROUNDS_FILE).open("a+b") as file:
            # A line that a crash cut short must not spoil this one.
            end = file.seek(0, os.SEEK_END)
            file.seek(max(0, end - 1))
            gap = b"" if file.read(1) in (b"", b"\n") else b"\n"
            file.write(gap + json.dumps(asdict(self)).encode() + b"\n")


def read_rounds(home: Path) -> list[dict[str, Any]]:
    """The reports so far, the last one of each round; a line that a crash damaged is passed over."""
    path = home / ROUNDS_FILE
    reports: dict[int, dict[str, Any]] = {}
    for line in path.read_bytes().split(b"\n") if path.exists() else []:
        report = _object(line)
        if isinstance(report.get("round"), int):
            reports[report["round"]] = report
    return [reports[round_] for round_ in sorted(reports)]


def compact_rounds(home: Path, keep: int) -> None:
    """Leaves the last `keep` reports, each as it was written, where there is more; a crash leaves the old file or the
    new one. One process at a time, as for append_to. Raises OSError."""
    path = home / ROUNDS_FILE
    lines: dict[int, bytes] = {}
    count = 0
    if not path.exists():
        return
    with path.open("rb") as file:
        for count, line in enumerate(file, 1):  # noqa: B007 - counted for what follows
            round_ = _object(line).get("round")
            if isinstance(round_, int):
                lines[round_] = line.rstrip(b"\n")
            if len(lines) > 2 * keep:
                lines = _last(lines, keep)
    if count > keep:
        data = b"".join(line + b"\n" for line in _last(lines, keep).values())
        write_file(path, data, mode=0o600, aside=path.with_suffix(".tmp"))


def _last(lines: dict[int, bytes], keep: int) -> dict[int, bytes]:
    return {round_: lines[round_] for round_ in sorted(lines)[-keep:]}


def _object(data: bytes) -> dict[str, Any]:
    """A JSON object; {} for anything else, such as what a crash left."""
    try:
        document = json.loads(data)
    except (ValueError, RecursionError):  # also bytes that are no UTF-8
        return {}
    return document if isinstance(document, dict) else {}


class SayOnce:
    """Tells the operator something, once as long as the node runs."""

    def __init__(self, log: Callable[[str], None]) -> None:
        self._log = log
        self._said: set[str] = set()

    def __call__(self, words: str) -> None:
        if words not in self._said:
            self._said.add(words)
            self._log(words)


class StatusFile:
    """`status.json` in the node's home: read by `sapo status` and by the devnet's clock. For several threads.

    Three times tell a node that works from one that hangs: `updated`, when the file was written; `progressed`, when the
    node's own thread last got on with something; `phase_since`, when it began with what it is doing.
    """

    def __init__(self, home: Path) -> None:
        self._path = home / STATUS_FILE
        self._lock = threading.Lock()
        now = time.time()
        self._values: dict[str, Any] = {"pid": os.getpid(), "started": now, "progressed": now}
        before = (read_status(home) or {}).get("waiting")
        self._waiting: dict[str, float] = before if isinstance(before, dict) else {}

    def update(self, **values: Any) -> None:
        """Something else is true now."""
        with self._lock:
            now = time.time()
            if "phase" in values and values["phase"] != self._values.get("phase"):
                self._values["phase_since"] = now
            self._values |= values | {"progressed": now}
            self._write(now)

    def progress(self, waiting: Iterable[str] | None = None) -> None:
        """The node's own thread gets on. waiting: what it waits to see on chain, by name. Written with the next
        `beat`."""
        with self._lock:
            now = time.time()
            self._values["progressed"] = now
            if waiting is not None:
                self._waiting = {key: self._waiting.get(key, now) for key in waiting}

    def note(self, **values: Any) -> None:
        """Something about the process, from whatever thread: it does not say that the node gets on."""
        with self._lock:
            self._values |= values
            self._write(time.time())

    def failed(self, error: Exception) -> None:
        """Something went wrong that the node survives: counted by kind since it started, and written with the next
        `update` or `beat`."""
        with self._lock:
            errors = self._values.setdefault("errors", {})
            kind = type(error).__name__
            errors[kind] = errors.get(kind, 0) + 1

    def beat(self) -> None:
        """Written anew, by whatever thread: the process lives."""
        with self._lock:
            self._write(time.time())

    def get(self, key: str) -> Any:
        return self._values.get(key)

    def _write(self, now: float) -> None:
        self._values |= {"updated": now, "waiting": self._waiting}
        # Not forced to disk: after a power failure the node says anew what it does.
        data = json.dumps(self._values).encode()
        write_file(self._path, data, synced="nothing", aside=self._path.with_suffix(".tmp"))


def read_status(home: Path) -> dict[str, Any] | None:
    """The last status; None if the node never ran, or a crash of the machine took the file's contents."""
    try:
        data = (home / STATUS_FILE).read_bytes()
    except FileNotFoundError:
        return None
    return _object(data) or None
