"""The node's process, by its status file and the lock on its home: dead, starting, silent, hanging, in trouble."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sapo_client.state.home import holder, is_held

SILENT_SECONDS = 60.0  # the file is written every ten
PATIENCE_SECONDS = 300.0  # nothing that moves less often than this is called hanging
TIMES_LONGEST = 5  # a phase that takes so many times what it took at most hangs
BLOCK_SECONDS = 12.0  # where the node has not seen how long a block takes
TIMED = {phase: f"seconds_{phase}" for phase in ("generating", "auditing", "training")}  # in a round's report


@dataclass(frozen=True)
class Process:
    """What was read; seconds are counted back from now."""

    running: bool  # somebody holds the home
    writer: int | None  # the process that wrote the status
    writer_lives: bool
    holder: int | None  # the process that holds the home
    phase: str
    phase_seconds: float
    silent_seconds: float  # since the status was written
    still_seconds: float  # since the node's own thread got on with something
    round_seconds: float  # that a round takes on this chain
    longest: float | None  # seconds that this phase took at most in the last rounds
    trouble: str


def read_process(
    home: Path, status: Mapping[str, Any], reports: Sequence[Mapping[str, Any]], round_blocks: int, now: float
) -> Process:
    """status: status.json; reports: rounds.jsonl; now: of time.time."""
    running = is_held(home)
    updated, phase = _number(status, "updated", 0.0), str(status.get("phase"))
    writer = status.get("pid")
    writer = writer if isinstance(writer, int) and writer > 0 else None
    times = [_number(report, TIMED[phase], 0.0) for report in reports[-10:]] if phase in TIMED else []
    return Process(
        running=running,
        writer=writer,
        writer_lives=writer is not None and lives(writer),
        holder=holder(home) if running else None,
        phase=phase,
        phase_seconds=max(0.0, now - _number(status, "phase_since", updated)),
        silent_seconds=max(0.0, now - updated),
        still_seconds=max(0.0, now - _number(status, "progressed", updated)),
        round_seconds=_number(status, "round_seconds", BLOCK_SECONDS * round_blocks),
        longest=max(times, default=0.0) or None,
        trouble=str(status.get("trouble") or ""),
    )


def lives(pid: int) -> bool:
    """Whether there is a process with this number."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):  # somebody else's; or no number of a process
        return pid < 1 << 31
    return True


def process_reasons(process: Process) -> list[str]:
    """What is wrong with it; the first thing only, as the others follow from it, or are not known."""
    p = process
    if not p.running:
        fate = "is another one by now, which does not run the node" if p.writer_lives else "is gone"
        return [
            f"the node is not running (its last phase was: {p.phase}): process {p.writer}, which said so, {fate}; "
            "start it with `sapo run`"
        ]
    if p.holder is not None and p.holder != p.writer:
        return [
            f"process {p.holder} holds the home and has said nothing yet (status.json is of process {p.writer}): it is "
            "still starting, or is another command, such as `sapo claim`; ask again in a minute"
        ]
    if p.silent_seconds > SILENT_SECONDS:
        return [
            f"the node has said nothing for {p.silent_seconds:.0f} s: its process was stopped, its disk is full, or "
            "the machine stands still; see its log"
        ]
    if p.phase == "starting":
        return [
            f"it is still starting ({p.phase_seconds:.0f} s): it loads the model, and waits until it is registered; "
            "see its log if that does not end"
        ]
    if p.still_seconds > (limit := patience(p)):
        usual = f", and took {p.longest:.0f} s at most in the last rounds" if p.longest else ""
        return [
            f"it hangs in the phase “{p.phase}”: nothing has moved for {p.still_seconds:.0f} s, more than "
            f"{limit:.0f}{usual}; see its log, and start it again if that does not end"
        ]
    return [p.trouble] if p.trouble else []


def patience(process: Process) -> float:
    """Seconds after which what does not move hangs: two rounds, or sooner where the phase was short so far."""
    two_rounds = max(PATIENCE_SECONDS, 2 * process.round_seconds)
    if process.longest is None:
        return two_rounds
    return min(two_rounds, max(PATIENCE_SECONDS, TIMES_LONGEST * process.longest))


def _number(values: Mapping[str, Any], key: str, otherwise: float) -> float:
    found = values.get(key)
    return float(found) if isinstance(found, int | float) else otherwise
