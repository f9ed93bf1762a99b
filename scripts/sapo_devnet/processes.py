"""Processes that the devnet starts and, however it ends, stops.

`Part` is what it asks of them; a thread can have that face, too (threads.py).
"""

import contextlib
import ctypes
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Protocol

PR_SET_PDEATHSIG = 1  # prctl(2)
LIBC = ctypes.CDLL(None)  # found before any fork, in which nothing should be loaded
STOP_SECONDS = 15.0
FULL_BYTES = 64 << 10  # where less than that is left, a log may well lack its last words
STARTED: "list[Process]" = []  # everything, whoever holds it: what an error left half-built is stopped, too


def end_with_parent() -> None:
    """For preexec_fn: the process gets SIGTERM when the one that starts it ends, however that ends."""
    LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


def _one_thread() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(1, "sapo-devnet-starts")


# For the kernel a process's parent is the thread that started it: this one lives as long as the program does.
_STARTER = _one_thread()


def _after_fork() -> None:
    """A forked program has none of its parent's threads, and none of its processes are its own."""
    global _STARTER
    _STARTER = _one_thread()
    STARTED.clear()


os.register_at_fork(after_in_child=_after_fork)


def resident_kib(field: str, pid: int | str = "self") -> int:
    """Memory of a process as the kernel counts it: VmRSS now, VmHWM at most so far. 0 for one that has ended.

    Raises FileNotFoundError or ProcessLookupError once its exit status was taken, too.
    """
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next((int(line.split()[1]) for line in lines if line.startswith(f"{field}:")), 0)


class Part(Protocol):
    """What plays or serves in a devnet, and must not end by itself."""

    name: str

    def exit_status(self) -> int | None:
        """None: it goes on, or was asked to end."""

    def ask_to_stop(self) -> None:
        """It ends with what it is doing."""

    def wait_stopped(self, deadline: float) -> bool:
        """Whether it ended by itself, by the time.monotonic of the deadline."""

    def end_of_log(self) -> str:
        """Where it says what happens to it, and what it said last."""


class Process:
    """A command with its output in a log file, in a session of its own, so that Ctrl-C reaches only the devnet."""

    def __init__(self, name: str, command: Sequence[str], log: Path, *, path: Path | None = None) -> None:
        """path: one more folder of Python modules."""
        self.name = name
        self.command = list(command)
        self.log = log
        self.peak_kib = 0
        environment = dict(os.environ)
        if path is not None:
            environment["PYTHONPATH"] = os.pathsep.join(filter(None, [str(path), os.environ.get("PYTHONPATH")]))
        self._thaw: subprocess.Popen[bytes] | None = None
        _STARTER.submit(self._start, environment).result()

    def _start(self, environment: dict[str, str]) -> None:
        with self.log.open("ab") as file:
            self._process = subprocess.Popen(
                self.command,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                env=environment,
                start_new_session=True,
                preexec_fn=end_with_parent,
            )
        STARTED.append(self)  # here, so that whoever is interrupted while waiting for it can stop it

    @property
    def pid(self) -> int:
        return self._process.pid

    def exit_status(self) -> int | None:
        return self._process.poll()

    def sample_memory(self) -> None:
        """Remember the peak of resident memory, as the kernel counts it."""
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            self.peak_kib = max(self.peak_kib, resident_kib("VmHWM", self.pid))

    @property
    def paused(self) -> bool:
        return self._thaw is not None

    def pause(self) -> None:
        """It stands still (SIGSTOP) until `resume`, or until this program ends, however that ends."""
        if self._thaw is None:
            # A process that stands still hears no SIGTERM; the shell reads until the pipe's other end is gone.
            wake = ["/bin/sh", "-c", 'read -r _; kill -CONT "$0"', str(self.pid)]
            quiet = subprocess.DEVNULL
            self._thaw = subprocess.Popen(
                wake, stdin=subprocess.PIPE, stdout=quiet, stderr=quiet, start_new_session=True
            )
            self._process.send_signal(signal.SIGSTOP)
            os.waitid(os.P_PID, self.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)  # it is heard a moment later

    def resume(self) -> None:
        if self._thaw is not None:
            self._thaw.communicate()
            self._thaw = None

    def ask_to_stop(self) -> None:
        self.resume()
        if self._process.poll() is None:
            self._process.terminate()

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()
        self.resume()

    def wait_stopped(self, deadline: float) -> bool:
        """Whether it ended by itself; killed if not, with all that it has started in its session."""
        try:
            self._process.wait(timeout=max(0.1, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            os.killpg(self.pid, signal.SIGKILL)
            self._process.wait()
            return False
        return True

    def last_words(self, lines: int = 15) -> str:
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])

    def end_of_log(self) -> str:
        return f"{self.log} ends with:\n{self.last_words()}{full_disk(self.log)}"


def full_disk(log: Path) -> str:
    """What is to be added to the last words of a log that may lack them, since its disk is full; "" where it is not."""
    free = shutil.disk_usage(log.parent).free
    return "\nthe disk that it is on is full: make room, and start again" if free < FULL_BYTES else ""


def started_below(folder: Path) -> list[Process]:
    """Whatever logs below the folder, whether somebody holds it or not."""
    with contextlib.suppress(RuntimeError):  # at the program's end nothing can be started any more
        _STARTER.submit(lambda: None).result()
    return [process for process in STARTED if process.log.is_relative_to(folder)]


def stop_all(parts: Sequence[Part]) -> list[str]:
    """Stop them all at once; the names of those that did not end. What has ended already stays as it is."""
    for part in parts:
        part.ask_to_stop()
    deadline = time.monotonic() + STOP_SECONDS
    return [part.name for part in parts if not part.wait_stopped(deadline)]
