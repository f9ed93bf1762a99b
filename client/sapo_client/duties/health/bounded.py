"""Work that may take no longer than it is given, whatever it waits for. What is late is left behind in a thread that
does not keep the process from ending."""

import threading
import time
from collections.abc import Callable, Hashable, Mapping
from concurrent.futures import Future
from typing import Generic, TypeVar

from sapo_verifier.errors import SapoError, UnableError

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")


class Late(UnableError):  # noqa: N818 - it says what it is
    """Work was not done in its time."""


class Work(Generic[T]):
    """Something that goes on in a thread of its own from now on."""

    def __init__(self, do: Callable[[], T]) -> None:
        self._future: Future[T] = Future()
        threading.Thread(target=self._run, args=(do,), name="bounded", daemon=True).start()

    def _run(self, do: Callable[[], T]) -> None:
        try:
            self._future.set_result(do())
        except BaseException as error:  # noqa: BLE001 - raised again where it is waited for
            self._future.set_exception(error)

    @property
    def is_over(self) -> bool:
        return self._future.done()

    def result_by(self, end: float) -> T:
        """What the work returns or raises. end: of time.monotonic; raises Late if it takes longer."""
        try:
            return self._future.result(max(0.0, end - time.monotonic()))
        except TimeoutError:
            if self._future.done():  # the work's own
                raise
            raise Late("it took too long") from None


def each_within(works: Mapping[K, Callable[[], T]], seconds: float) -> dict[K, T]:
    """What each work returns, all at once; those that are late, or raised a SapoError, are missing."""
    started = {key: Work(do) for key, do in works.items()}
    end = time.monotonic() + seconds
    results: dict[K, T] = {}
    for key, work in started.items():
        try:
            results[key] = work.result_by(end)
        except SapoError:
            continue
    return results
