"""The subprocess of worker.py: reads one request a line, writes one reply a line, until its input closes.

Started as `python -m sapo_verifier.tasks.child SECONDS`. A request that runs on for longer than SECONDS and a little
ends the process even where nobody is left to kill it.
"""

import decimal
import json
import os
import resource
import select
import signal
import sys
from collections import OrderedDict
from typing import Any, BinaryIO

from sapo_verifier.catalogue import plain_config
from sapo_verifier.tasks.environment import environment
from sapo_verifier.tasks.readings import right

MEMORY_BYTES = 2 << 30  # of addresses; the library takes 0.35 GiB of them
CACHED_ENTRIES = 64
ORPHAN_SECONDS = 5.0  # how often an idle child looks whether its parent still lives
GRACE_SECONDS = 2.0


class Items:
    """The most recent entries, generated on demand."""

    def __init__(self) -> None:
        self._items: OrderedDict[str, dict[str, Any]] = OrderedDict()

    def get(self, name: str, config: dict[str, Any], seed: int) -> dict[str, Any]:
        """Raises whatever the library raises."""
        key = json.dumps([name, config, seed], sort_keys=True)
        if key not in self._items:
            self._items[key] = generate(name, config, seed)
            if len(self._items) > CACHED_ENTRIES:
                self._items.popitem(last=False)
        self._items.move_to_end(key)
        return self._items[key]


def generate(name: str, config: dict[str, Any], seed: int) -> dict[str, Any]:
    """The protocol's item: the first of a dataset of size 1 with this seed."""
    import reasoning_gym

    decimal.setcontext(decimal.Context())  # decimal_arithmetic sets the process's precision while it generates
    entry: dict[str, Any] = reasoning_gym.create_dataset(name, seed=seed, size=1, **plain_config(config))[0]
    if not isinstance(entry["question"], str) or not isinstance(entry["answer"], str):
        raise TypeError("question or answer is no text")
    return entry


def answer_request(request: dict[str, Any], items: Items) -> dict[str, Any]:
    """One reply. The library's exceptions become words; running out of memory ends the process instead."""
    scoring = request["do"] == "score"
    try:
        entry = items.get(request["dataset"], request["config"], request["seed"])
        if scoring:
            return {"score": float(right(request["dataset"], request["answer"], entry["answer"]))}
    except MemoryError:
        raise
    except Exception as error:  # noqa: BLE001 - whatever the library raises is this item's failure, not the worker's
        words = f"{type(error).__name__}: {error}"[:500]
        return {"score": None, "error": words} if scoring else {"error": words}
    return entry


def private_pipes() -> tuple[int, BinaryIO]:
    """The request and reply pipes, moved away from where a library reads and prints (some of them do)."""
    requests, replies = os.dup(0), os.dup(1)
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(null, 1)
    os.close(null)
    return requests, os.fdopen(replies, "wb")


def lines(requests: int) -> Any:
    """Requests until the pipe closes or the parent is gone."""
    parent = os.getppid()
    buffer = b""
    while True:
        while b"\n" not in buffer:
            ready, _, _ = select.select([requests], [], [], ORPHAN_SECONDS)
            if not ready and os.getppid() == parent:
                continue
            data = os.read(requests, 1 << 16) if ready else b""
            if not data:
                return
            buffer += data
        line, buffer = buffer.split(b"\n", 1)
        yield json.loads(line)


def send(replies: BinaryIO, reply: dict[str, Any]) -> None:
    replies.write(json.dumps(reply, default=str, skipkeys=True).encode() + b"\n")
    replies.flush()


def main(seconds: float) -> None:
    requests, replies = private_pipes()
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal's Ctrl-C is the parent's to handle
    signal.signal(signal.SIGALRM, signal.SIG_DFL)  # ends the process even inside C code
    import reasoning_gym  # noqa: F401 - one second, before the first request's time runs

    send(replies, environment())
    items = Items()
    for request in lines(requests):
        signal.setitimer(signal.ITIMER_REAL, seconds + GRACE_SECONDS)
        reply = answer_request(request, items)
        signal.setitimer(signal.ITIMER_REAL, 0)
        send(replies, reply)


if __name__ == "__main__":
    main(float(sys.argv[1]))
