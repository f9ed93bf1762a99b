"""Which processes there are, read from /proc, for tests that see to it that nothing is left behind."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple


class Alive(NamedTuple):
    """A process that cannot be mistaken for a later one with the same number."""

    pid: int
    started: str


def wait_until(what: str, true: Callable[[], object], *, seconds: float, poll: float = 0.1) -> None:
    """Returns once `true()` holds; fails the test after `seconds`, naming what did not happen."""
    deadline = time.monotonic() + seconds
    while not true():
        if time.monotonic() > deadline:
            raise AssertionError(f"after {seconds:.0f} s still not true: {what}")
        time.sleep(poll)


def descendants(pid: int) -> set[Alive]:
    """The process's children, their children, and so on, without itself."""
    fields = _all()
    found: set[Alive] = set()
    front = {pid}
    while front:
        front = {child for child, (parent, _) in fields.items() if parent in front}
        found |= {Alive(child, fields[child][1]) for child in front}
    return found


def remaining(processes: set[Alive]) -> set[Alive]:
    """Those that still run. A zombie, of which only the exit status is left, does not."""
    now = _all()
    return {process for process in processes if process.pid in now and now[process.pid][1] == process.started}


def users_of(folder: Path) -> dict[int, str]:
    """Processes whose command line or open files name the folder, by their numbers."""
    found = {}
    for pid in _all():
        place = Path(f"/proc/{pid}")
        try:
            command = (place / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            files = [str(link.readlink()) for link in (place / "fd").iterdir()]
        except (FileNotFoundError, ProcessLookupError, PermissionError):
            continue
        if str(folder) in command or any(file.startswith(f"{folder}/") for file in files):
            found[pid] = command
    return found


def _all() -> dict[int, tuple[int, str]]:
    """Parent and start time by number, zombies left out."""
    found = {}
    for place in Path("/proc").iterdir():
        if place.name.isdigit():
            try:
                # The name in parentheses may hold anything; the fields after it do not.
                fields = (place / "stat").read_text().rpartition(")")[2].split()
            except (FileNotFoundError, ProcessLookupError):
                continue
            if fields[0] not in "ZX":
                found[int(place.name)] = (int(fields[1]), fields[19])
    return found
