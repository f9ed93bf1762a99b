"""A signal asks the node to stop; that it came, and that the node goes, is in the log."""

import logging
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

log = logging.getLogger(__name__)

ENDS = (signal.SIGTERM, signal.SIGINT)


@contextmanager
def stopping(stop: threading.Event) -> Iterator[None]:
    """SIGTERM and SIGINT set `stop` from now on.

    A thread says so, since a handler that logs may come in the middle of a line that is being written.
    """
    came: list[tuple[int, float]] = []

    def ask(number: int, _: object) -> None:
        came.append((number, time.monotonic()))
        stop.set()

    def tell() -> None:
        stop.wait()
        if came:
            log.info("%s: the node stops as soon as what it is doing allows", signal.Signals(came[0][0]).name)

    for number in ENDS:
        signal.signal(number, ask)
    teller = threading.Thread(target=tell, name="stopping", daemon=True)
    teller.start()
    try:
        yield
    finally:
        stop.set()
        teller.join()
    if came:
        log.info("the node has stopped, %.1f s after it was asked to", time.monotonic() - came[0][1])
