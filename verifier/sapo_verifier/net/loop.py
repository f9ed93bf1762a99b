"""The event loop behind synchronous calls: one in a process, in a daemon thread that starts with the first call."""

import asyncio
import atexit
import concurrent.futures
import threading
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from sapo_verifier.net.errors import TooSlow

_GRACE = 5.0  # a busy machine may wake the loop late; then the caller goes on without it
_JOIN_SECONDS = 2.0

T = TypeVar("T")
Close = Callable[[], Coroutine[Any, Any, None]]
_lock = threading.RLock()  # a garbage collection may call `call_now` anywhere, also under this lock
_loop: asyncio.AbstractEventLoop | None = None
_live: set["concurrent.futures.Future[Any]"] = set()
_closers: set[Close] = set()


def run(work: Coroutine[Any, Any, T], seconds: float) -> T:
    """What `work` returns or raises, which bounds itself to `seconds`. From any thread but the loop's own.

    Raises TooSlow if `abort_all` ended it.
    """
    future = asyncio.run_coroutine_threadsafe(work, _running())
    _live.add(future)
    try:
        return future.result(max(seconds, 0.0) + _GRACE)
    except concurrent.futures.CancelledError as error:
        raise TooSlow("ended before its time") from error
    except TimeoutError as error:
        raise TooSlow(f"no end within {seconds:.1f} s") from error
    finally:
        future.cancel()  # whatever ended the wait, Ctrl-C too: nobody reads the answer any more
        _live.discard(future)


def abort_all() -> None:
    """Ends every call of this process now (for a shutdown that does not wait for slow peers)."""
    for future in list(_live):
        future.cancel()


def call_at_end(close: Close) -> None:
    """Has the loop await `close()` when the process ends."""
    _closers.add(close)


def call_now(close: Close) -> None:
    """Has the loop await `close()` soon, and not at the end any more. Does not wait for it."""
    _closers.discard(close)
    with _lock:
        if _loop is not None:
            asyncio.run_coroutine_threadsafe(close(), _loop)


def _running() -> asyncio.AbstractEventLoop:
    global _loop
    with _lock:
        if _loop is None:
            _loop = asyncio.new_event_loop()
            thread = threading.Thread(target=_serve, args=(_loop,), name="net", daemon=True)
            thread.start()
            # After all threads that are not daemons, so nobody is left who could ask.
            atexit.register(_stop, _loop, thread)
        return _loop


def _serve(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
        tasks = asyncio.all_tasks(loop)
        for task in tasks:
            task.cancel()
        closing = [close() for close in list(_closers)]
        loop.run_until_complete(asyncio.gather(*tasks, *closing, return_exceptions=True))
    finally:
        loop.close()


def _stop(loop: asyncio.AbstractEventLoop, thread: threading.Thread) -> None:
    global _loop
    with _lock:
        _loop = None
    loop.call_soon_threadsafe(loop.stop)
    thread.join(_JOIN_SECONDS)
