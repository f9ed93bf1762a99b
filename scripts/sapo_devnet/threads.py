"""A thread that plays in a devnet, with a process's face (processes.Part): what ends it is kept, and told."""

import sqlite3
import threading
import time
import traceback
from collections.abc import Callable

from sapo_client.state.sqlite import disk_failure
from sapo_verifier.errors import SapoError


class Thread:
    """Runs from the start on. Nothing can kill it: one that hears no end goes with the program."""

    def __init__(self, name: str, play: Callable[[threading.Event], None]) -> None:
        """play: returns soon once the event is set."""
        self.name = name
        self.failure = ""  # why it ended by itself
        self._play = play
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._play(self._stop)
        except SapoError as error:
            self.failure = str(error)
        except (OSError, sqlite3.Error) as error:
            self.failure = disk_failure(error) or traceback.format_exc()
        except Exception:  # noqa: BLE001 - told by whoever looks, instead of a thread that is silently gone
            self.failure = traceback.format_exc()

    @property
    def alive(self) -> bool:
        return self._thread.is_alive()

    def exit_status(self) -> int | None:
        """As of a process; None also once it was asked to stop."""
        if self.alive or self._stop.is_set():
            return None
        return 1 if self.failure else 0

    def ask_to_stop(self) -> None:
        self._stop.set()

    def wait_stopped(self, deadline: float) -> bool:
        self._thread.join(max(0.1, deadline - time.monotonic()))
        return not self.alive

    def end_of_log(self) -> str:
        return f"it is a thread of this program, and logs there\n{self.failure}".rstrip()
