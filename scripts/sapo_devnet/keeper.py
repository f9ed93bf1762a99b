"""What keeps a devnet going while a test does other things: a thread that mines what is sent, and lets rounds end."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

from sapo_devnet.errors import DevnetError
from sapo_devnet.network import Network, in_words
from sapo_verifier.errors import SapoError, UsageError

Pace = float | Literal["done", "hand"]

SLOWEST_END = 10.0  # seconds for a step that runs


def checked_pace(pace: object) -> Pace:
    """Raises UsageError for what is no pace."""
    if pace in ("done", "hand"):
        return "done" if pace == "done" else "hand"
    if isinstance(pace, int | float) and not isinstance(pace, bool) and pace > 0:
        return float(pace)
    raise UsageError(f"pace is {pace!r}; it can be 'done', 'hand', or the seconds of a round")


class Keeper:
    """Nobody else touches the network's chain but inside `held`."""

    def __init__(self, network: Network, pace: Pace, last: int | None, poll_seconds: float) -> None:
        """last: the round in which "done" ends no more rounds. poll_seconds: between two looks at what was sent."""
        self._network = network
        self._pace = pace
        self._last = last
        self._poll_seconds = poll_seconds
        self._lock = threading.RLock()
        self._end = threading.Event()
        self._failure: DevnetError | None = None
        self._thread = threading.Thread(target=self._run, name="sapo-devnet", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._end.set()
        if self._thread.is_alive():
            self._thread.join(SLOWEST_END)

    @contextmanager
    def held(self) -> Iterator[None]:
        """The chain is the caller's alone; what it cannot do is told as DevnetError."""
        self.refuse_failed()
        with self._lock, self.told():
            yield

    @contextmanager
    def told(self) -> Iterator[None]:
        """What fails is told as DevnetError, and what cannot be asked for as it is."""
        try:
            with self._network.told():
                yield
        except UsageError:
            raise
        except (SapoError, OSError) as error:
            raise in_words(error, self._network.folder) from error

    def refuse_failed(self) -> None:
        """Raises what ended the keeping."""
        if self._failure is not None:
            raise self._failure

    def _run(self) -> None:
        while not self._end.is_set():
            try:
                with self._lock, self._network.told():
                    self._network.refuse_dead()
                    self._step()
            except (SapoError, OSError) as error:
                if not self._end.is_set():
                    self._failure = in_words(error, self._network.folder)
                return
            except Exception as error:  # noqa: BLE001 - told to who waits, instead of a thread that is silently gone
                self._failure = in_words(DevnetError(f"the devnet's clock failed: {error!r}"), self._network.folder)
                return
            self._end.wait(self._poll_seconds)

    def _step(self) -> None:
        clock = self._network.clock
        if isinstance(self._pace, float):
            clock.spread(self._pace)
        elif self._pace == "hand" or (self._last is not None and clock.round() >= self._last):
            clock.serve()
        else:
            clock.tick(self._network.all_done)
