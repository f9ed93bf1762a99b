"""A TCP relay on loopback that a test can cut and mend: an RPC that goes away for a while. It counts its traffic."""

import contextlib
import socket
import threading
from collections.abc import Callable
from dataclasses import astuple, dataclass, replace
from typing import Self
from urllib.parse import urlsplit


@dataclass
class Traffic:
    """Bytes either way, headers included; HTTP requests, and JSON-RPC calls in them."""

    up: int = 0
    down: int = 0
    requests: int = 0
    calls: int = 0

    def __sub__(self, other: "Traffic") -> "Traffic":
        parts = zip(astuple(self), astuple(other), strict=True)
        return Traffic(*(mine - theirs for mine, theirs in parts))


class Relay:
    """Listens on one port all the time. While it is cut, connections are closed at once."""

    def __init__(self, url: str) -> None:
        target = urlsplit(url)
        assert target.hostname is not None
        assert target.port is not None
        self._target = (target.hostname, target.port)
        self.traffic = Traffic()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self._cut = threading.Event()
        self._open: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self) -> None:
        self._cut.set()
        for connection in self._open:
            _close(connection)

    def mend(self) -> None:
        self._open.clear()
        self._cut.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.cut()
        # Shutting down wakes the thread that accepts; closing alone does not.
        _close(self._listener)

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                if self._cut.is_set():
                    near.close()
                    continue
                far = socket.create_connection(self._target)
                self._open += [near, far]
                for a, b, count in ((near, far, self._count_up), (far, near, self._count_down)):
                    threading.Thread(target=_pump, args=(a, b, count), daemon=True).start()

    def so_far(self) -> Traffic:
        return replace(self.traffic)

    def _count_up(self, data: bytes) -> None:
        self.traffic.up += len(data)
        self.traffic.requests += data.count(b"POST / HTTP/1.1")
        self.traffic.calls += data.count(b'"method"')

    def _count_down(self, data: bytes) -> None:
        self.traffic.down += len(data)


def _pump(source: socket.socket, sink: socket.socket, count: Callable[[bytes], None]) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(1 << 16):
            count(data)
            sink.sendall(data)
    _close(source)
    _close(sink)


def _close(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
    connection.close()
