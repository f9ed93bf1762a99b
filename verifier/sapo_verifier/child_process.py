"""A child process that answers in JSON lines: bounded in time and in size, and ended with all that it started.

The parent writes one JSON object a line to the child's standard input, and reads its answers, one a line, from its
standard output. That a child does not outlive a parent that was killed is its own part: it has to end when its standard
input does.
"""

import contextlib
import json
import os
import select
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any

POLL_SECONDS = 0.02  # between two looks at whether it has ended


class ChildLostError(Exception):
    """The child gave no reply: too late, too long, or dead. End it: a reply may come yet, to the next request."""


class ChildProcess:
    """One child, in a session of its own: a terminal's Ctrl-C is the parent's to handle, and its group can be killed.

    For one thread at a time.
    """

    def __init__(
        self,
        command: Sequence[str | Path],
        *,
        name: str,
        env: Mapping[str, str],
        max_reply_bytes: int,
        end_seconds: float,
        errors: IO[bytes] | int = subprocess.DEVNULL,
    ) -> None:
        """name: in errors. errors: where its standard error goes. end_seconds: that it may take to end by itself.

        Raises OSError where it cannot be started.
        """
        self._name = name
        self._max_reply_bytes = max_reply_bytes
        self._end_seconds = end_seconds
        self._received = bytearray()
        self._child = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            bufsize=0,
            env=env,
            start_new_session=True,
        )
        self.pid = self._child.pid
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        self._requests, self._replies = self._child.stdin, self._child.stdout
        os.set_blocking(self._requests.fileno(), False)

    @property
    def running(self) -> bool:
        return self._exit_status(0) is None

    def ask(self, message: Mapping[str, Any], seconds: float) -> dict[str, Any]:
        """Its next line, within so many seconds of now. Raises ChildLostError."""
        deadline = time.monotonic() + seconds
        left = memoryview(json.dumps(message).encode() + b"\n")
        while left:
            self._wait(self._requests.fileno(), select.POLLOUT, deadline, seconds)
            try:
                left = left[os.write(self._requests.fileno(), left) :]
            except BrokenPipeError as error:
                raise ChildLostError(self._ending()) from error
        return self._receive(deadline, seconds)

    def receive(self, seconds: float) -> dict[str, Any]:
        """Its next line, where it says more than one, or speaks first. Raises ChildLostError."""
        return self._receive(time.monotonic() + seconds, seconds)

    def end(self) -> None:
        """It ends by itself, now that nobody asks any more, or is killed."""
        self._requests.close()
        self._exit_status(self._end_seconds)
        self.kill()

    def kill(self) -> None:
        """It and all that it started."""
        # Not reaped yet, so its number, which is its group's, is nobody else's.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self._child.wait()
        self._requests.close()
        self._replies.close()

    def _receive(self, deadline: float, seconds: float) -> dict[str, Any]:
        searched = 0
        while (end := self._received.find(b"\n", searched)) < 0:
            searched = len(self._received)
            if searched > self._max_reply_bytes:
                raise ChildLostError(f"the reply of {self._name} is beyond {self._max_reply_bytes} bytes")
            self._wait(self._replies.fileno(), select.POLLIN, deadline, seconds)
            data = os.read(self._replies.fileno(), 1 << 16)
            if not data:
                raise ChildLostError(self._ending())
            self._received += data
        reply: dict[str, Any] = json.loads(self._received[:end])
        del self._received[: end + 1]
        return reply

    def _wait(self, pipe: int, event: int, deadline: float, seconds: float) -> None:
        poll = select.poll()
        poll.register(pipe, event)
        if not poll.poll(max(0.0, deadline - time.monotonic()) * 1000):
            raise ChildLostError(f"{self._name} gave no reply within {seconds:g} s and was stopped")

    def _ending(self) -> str:
        status = self._exit_status(self._end_seconds)
        return f"{self._name} " + ("closed its pipe" if status is None else f"ended with exit status {status}")

    def _exit_status(self, seconds: float) -> int | None:
        """Its exit code, or minus the signal that ended it; None if it still runs after so many seconds."""
        deadline = time.monotonic() + seconds
        while (found := os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG)) is None:
            if time.monotonic() >= deadline:
                return None
            time.sleep(POLL_SECONDS)
        return found.si_status if found.si_code == os.CLD_EXITED else -found.si_status
