"""Inside a running node, a thread that looks at it as `sapo status` does, again and again. It asks the chain over
connections of its own, and nothing in the round waits for it."""

import logging
import math
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sapo_client.duties.metrics import Earned
from sapo_client.node.observing.condition import Look
from sapo_client.state.home import OUTBOX
from sapo_client.transactions.metrics import Spending
from sapo_verifier.errors import SapoError

log = logging.getLogger(__name__)

PERIOD_SECONDS = 30.0  # from the end of a look to the next one
FRESH_SECONDS = 5.0  # as old as a look may be that answers a question
OLD_SECONDS = 120.0
STOP_SECONDS = 1.0

Told = Callable[[Mapping[str, Any]], None]


class Watch:
    """Begins with `start`. What it knows may be read from any thread."""

    def __init__(self, look: Look, told: Sequence[Told] = (), period: float = PERIOD_SECONDS) -> None:
        """told: each is called with the condition after every look, in the watch's thread."""
        self._look = look
        self._told = told
        self._period = period
        self._asked = threading.Event()
        self._over = False
        self._news = threading.Condition()
        self._ended = -math.inf  # of time.monotonic: when the last look was
        self._thread = threading.Thread(target=self._run, name="watch", daemon=True)
        self.condition: dict[str, Any] | None = None  # what the last look found; None: there was none yet
        self.looked: float | None = None  # when it was, of time.time
        self.numbers: dict[str, Any] = {}
        self.spending = Spending(look.home / OUTBOX)
        self.earned = Earned()
        look.also = self.spending.look

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """A look that goes on is not waited for: it only reads."""
        self._over = True
        self._asked.set()
        self._thread.join(STOP_SECONDS)

    def within(self, seconds: float) -> dict[str, Any] | None:
        """A look that is FRESH_SECONDS old at most, or the last one where none ends in time, unhealthy if it is
        OLD_SECONDS old; None: there was none."""
        end = time.monotonic() + seconds
        wanted = time.monotonic() - FRESH_SECONDS
        with self._news:
            while self._ended < wanted:
                self._asked.set()
                if not self._news.wait(end - time.monotonic()):
                    break
            age = time.monotonic() - self._ended
            if self.condition is None or age < OLD_SECONDS:
                return self.condition
            words = f"the last look at the node is {age:.0f} s old; see its log"
            return self.condition | {"healthy": False, "reasons": [*self.condition["reasons"], words]}

    def _run(self) -> None:
        while not self._over:
            self._asked.clear()
            found = self._found()
            with self._news:
                self.condition, self.looked, self._ended = found, time.time(), time.monotonic()
                self._news.notify_all()
            for tell in self._told:
                tell(found)
            self._asked.wait(self._period)

    def _found(self) -> dict[str, Any]:
        try:
            found = self._look.condition()
        except (SapoError, OSError) as error:  # of the home's own files
            return {"healthy": False, "reasons": [str(error)]}
        except Exception as error:  # a watch that ended would call the node well for ever
            log.exception("the node cannot be looked at")
            return {
                "healthy": False,
                "reasons": [f"the node cannot be looked at ({type(error).__name__}): see its log"],
            }
        self.numbers = self._look.numbers
        self.earned.look(self.numbers)
        return found
