"""Tells a URL that the node's health has changed: which reasons appeared, which vanished. In a thread of its own, again
and again with growing pauses where the other side does not take it, up to a bound."""

import json
import logging
import re
import threading
import time
from collections.abc import Mapping
from typing import Any

from sapo_verifier import net
from sapo_verifier.backoff import Backoff
from sapo_verifier.chain.errors import mask_url, scrub

log = logging.getLogger(__name__)

FIRST_SECONDS, MOST_SECONDS = 1.0, 300.0  # between tries
TRIES = 12  # in about a quarter of an hour; then the next change is waited for
POST_SECONDS = 10.0
MOST_REASONS = 20
STOP_SECONDS = 1.0

Reasons = dict[str, str]  # by what stays the same of them while their numbers change


class Webhook:
    """Begins with `start`. `tell` it every condition: it says only what changed since the other side last took one."""

    def __init__(
        self, url: str, *, first: float = FIRST_SECONDS, tries: int = TRIES, seconds: float = POST_SECONDS
    ) -> None:
        """first: seconds until the second try; seconds: that a POST may take."""
        self._url = url
        self._first, self._tries, self._seconds = first, tries, seconds
        self._client = net.Client()
        self._lock = threading.Lock()
        self._news = threading.Event()
        self._over = threading.Event()
        self._now: tuple[Mapping[str, Any], Reasons] | None = None
        self._taken: Reasons = {}  # what the other side knows; a node that starts counts as well
        self._refused: Reasons | None = None  # what it did not take, in all tries
        self._thread = threading.Thread(target=self._run, name="webhook", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """What was not taken yet is lost."""
        self._over.set()
        self._news.set()
        self._thread.join(STOP_SECONDS)
        self._client.close()

    def tell(self, condition: Mapping[str, Any]) -> None:
        """Returns at once. A node that still starts is not told of: it would be unhealthy once a start."""
        if condition.get("phase") == "starting":
            return
        reasons = {re.sub(r"[0-9]+", "#", words): words for words in map(scrub, condition.get("reasons", ()))}
        with self._lock:
            self._now = condition, reasons
        self._news.set()

    def _run(self) -> None:
        while True:
            self._news.wait()
            self._news.clear()
            if self._over.is_set():
                return
            self._deliver()

    def _deliver(self) -> None:
        """Until the other side knows how it is now, or the tries are used up: then for the next change."""
        pauses = Backoff(self._first, MOST_SECONDS)
        for left in reversed(range(self._tries)):
            with self._lock:
                assert self._now is not None
                condition, reasons = self._now
            refused = self._refused is not None and reasons.keys() == self._refused.keys()
            if refused or reasons.keys() == self._taken.keys():
                return
            why = self._post(condition, reasons)
            if not why:
                self._taken, self._refused = reasons, None
                return
            words = f"the webhook at {mask_url(self._url)} did not take a change of health: {why}"
            if not left:
                self._refused = reasons
                log.error("%s; that was the last of %d tries, and the next change is told anew", words, self._tries)
                return
            log.warning("%s", words)
            if self._over.wait(pauses.next()):
                return

    def _post(self, condition: Mapping[str, Any], reasons: Reasons) -> str:
        """Why it was not taken; empty if it was."""
        document = {
            "node": condition.get("node"),
            "round": condition.get("round"),
            "healthy": not reasons,
            "reasons": list(reasons.values())[:MOST_REASONS],
            "appeared": [words for key, words in reasons.items() if key not in self._taken][:MOST_REASONS],
            "vanished": [words for key, words in self._taken.items() if key not in reasons][:MOST_REASONS],
            "time": round(time.time()),
        }
        request = net.Request(
            "POST", self._url, 0, self._seconds, {"Content-Type": "application/json"}, json.dumps(document).encode(),
            range(0),
        )  # fmt: skip
        try:
            answer = self._client.exchange(request)
        except net.NetError as error:
            return scrub(str(error))
        return "" if 200 <= answer.status < 300 else f"it answered {answer.status}"
