"""Names to addresses with a time limit, in a bounded number of threads.

`getaddrinfo` has no time limit of its own, and a name server that never answers holds its thread. So the threads are
few, are left behind when the time is over, and do not keep the process from ending.
"""

import asyncio
import ipaddress
import queue
import socket
import threading
from concurrent.futures import Future

from sapo_verifier.net.errors import NoConnection, TooSlow

IPAddress = ipaddress.IPv4Address | ipaddress.IPv6Address
_MOST_THREADS = 16


class _Lookup:
    """One name that is to be looked up; `done` gets its addresses."""

    def __init__(self, host: str, port: int, family: int) -> None:
        self.host, self.port, self.family = host, port, family
        self.done: Future[list[IPAddress]] = Future()

    def work(self) -> None:
        if not self.done.set_running_or_notify_cancel():  # nobody waits any more
            return
        try:
            found = socket.getaddrinfo(self.host, self.port, self.family, socket.SOCK_STREAM)
            texts = dict.fromkeys(str(entry[4][0]) for entry in found)
            addresses = [ipaddress.ip_address(text) for text in texts]
        except (OSError, ValueError) as error:  # ValueError: a name that IDNA refuses
            self.done.set_exception(NoConnection(f"the name {self.host} does not resolve ({error})"))
            return
        if addresses:
            self.done.set_result(addresses)
        else:
            self.done.set_exception(NoConnection(f"the name {self.host} does not resolve (no addresses)"))


class _Threads:
    """Threads that look names up: as many as are needed, at most _MOST_THREADS."""

    def __init__(self) -> None:
        self._lookups: queue.SimpleQueue[_Lookup] = queue.SimpleQueue()
        self._idle = threading.Semaphore(0)
        self._lock = threading.Lock()
        self._count = 0

    def give(self, lookup: _Lookup) -> None:
        self._lookups.put(lookup)
        with self._lock:
            if self._idle.acquire(blocking=False) or self._count >= _MOST_THREADS:
                return
            threading.Thread(target=self._work, name="name-lookup", daemon=True).start()
            self._count += 1

    def _work(self) -> None:
        while True:
            self._lookups.get().work()
            self._idle.release()


_threads = _Threads()


async def look_up(host: str, port: int, family: int, seconds: float) -> list[IPAddress]:
    """The addresses of a name, each once, in the system's order. family: AF_UNSPEC, AF_INET or AF_INET6.

    Raises TooSlow after `seconds`, NoConnection if the name stands for nothing.
    """
    lookup = _Lookup(host, port, family)
    _threads.give(lookup)
    try:
        async with asyncio.timeout(seconds):
            return await asyncio.wrap_future(lookup.done)
    except TimeoutError as error:
        if lookup.done.cancelled():
            raise TooSlow("too many name look-ups are waiting; try again later") from error
        raise TooSlow(f"the name {host} was not resolved within {seconds:.1f} s") from error
