"""A node's status is renewed as long as its process lives, whatever its own thread waits for or computes."""

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from sapo_client.state.report import StatusFile

log = logging.getLogger(__name__)

BEAT_SECONDS = 10.0


@contextmanager
def beating(status: StatusFile, seconds: float = BEAT_SECONDS) -> Iterator[None]:
    """The file is written every `seconds` while the block lasts. It does not say that the node gets on: `progressed`
    does, and is the node's own to tell."""
    over = threading.Event()
    thread = threading.Thread(target=_beat, args=(status, seconds, over), name="heartbeat", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def _beat(status: StatusFile, seconds: float, over: threading.Event) -> None:
    failed = False
    while not over.wait(seconds):
        try:
            status.beat()
        except OSError as error:  # a full disk: the node's own thread meets it too, and ends in words
            if not failed:
                log.warning("status.json cannot be written: %s", error)
            failed = True
        else:
            failed = False
