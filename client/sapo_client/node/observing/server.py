"""The two pages of a running node, `/metrics` and `/healthz`, over plain HTTP/1.0: each request has its time, its bytes
and one of few threads, and there is nothing else to be had."""

import logging
import socket
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus

log = logging.getLogger(__name__)

THREADS = 4  # requests at a time; more are turned away
REQUEST_SECONDS = 5.0  # for the whole request, and again for the answer
REQUEST_BYTES = 8192


@dataclass(frozen=True)
class Page:
    """An answer."""

    body: bytes
    kind: str = "text/plain; charset=utf-8"
    status: HTTPStatus = HTTPStatus.OK


class Server:
    """Answers from `open` to `close`."""

    def __init__(self, host: str, port: int, pages: Mapping[str, Callable[[], Page]]) -> None:
        """port: 0 is any free one. pages: by path; each is called in a thread of its own."""
        self._address = (host, port)
        self._pages = pages
        self._socket: socket.socket | None = None
        self._free = threading.BoundedSemaphore(THREADS)

    @property
    def is_open(self) -> bool:
        return self._socket is not None

    @property
    def url(self) -> str:
        """Of the open server."""
        assert self._socket is not None
        host, port = self._socket.getsockname()[:2]
        return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"

    def open(self) -> None:
        """Raises OSError where the port is taken, or the host is none of this machine's."""
        family = socket.getaddrinfo(*self._address, type=socket.SOCK_STREAM)[0][0]
        self._socket = socket.create_server(self._address, family=family, backlog=16)
        threading.Thread(target=self._serve, args=(self._socket,), name="metrics", daemon=True).start()

    def close(self) -> None:
        """Ends at once; answers that are on their way have their time."""
        if self._socket is not None:
            self._socket.shutdown(socket.SHUT_RDWR)  # wakes the thread that accepts
            self._socket.close()
            self._socket = None

    def _serve(self, listening: socket.socket) -> None:
        while True:
            try:
                connection, _ = listening.accept()
            except OSError:  # closed
                return
            if not self._free.acquire(blocking=False):
                connection.close()
                continue
            threading.Thread(target=self._answer, args=(connection,), name="metrics-request", daemon=True).start()

    def _answer(self, connection: socket.socket) -> None:
        try:
            with connection:
                method, path = _request(connection)
                page = self._page(method, path)
                connection.settimeout(REQUEST_SECONDS)
                connection.sendall(_head(page) + (b"" if method == "HEAD" else page.body))
        except OSError:  # who asked is gone, or too slow
            pass
        finally:
            self._free.release()

    def _page(self, method: str, path: str) -> Page:
        if method not in ("GET", "HEAD"):
            return Page(b"only GET and HEAD\n", status=HTTPStatus.METHOD_NOT_ALLOWED)
        make = self._pages.get(path.partition("?")[0])
        if make is None:
            return Page(f"here are {' and '.join(self._pages)}\n".encode(), status=HTTPStatus.NOT_FOUND)
        try:
            return make()
        except Exception:  # a page that breaks must not end its thread without a word
            log.exception("the page %s cannot be made", path)
            return Page(b"the node's log says what went wrong\n", status=HTTPStatus.INTERNAL_SERVER_ERROR)


def _request(connection: socket.socket) -> tuple[str, str]:
    """Method and path; empty ones for what is no request. Raises OSError where it does not come in time."""
    end, data = time.monotonic() + REQUEST_SECONDS, b""
    while b"\r\n\r\n" not in data and len(data) < REQUEST_BYTES:
        connection.settimeout(max(0.001, end - time.monotonic()))
        more = connection.recv(REQUEST_BYTES - len(data))
        if not more:
            raise OSError("the request ended early")
        data += more
    words = data.partition(b"\r\n")[0].decode("latin-1").split(" ")
    return (words[0], words[1]) if len(words) == 3 and words[2].startswith("HTTP/1.") else ("", "")


def _head(page: Page) -> bytes:
    lines = [
        f"HTTP/1.0 {page.status.value} {page.status.phrase}",
        f"Content-Type: {page.kind}",
        f"Content-Length: {len(page.body)}",
        "Cache-Control: no-store",
        "Connection: close",
    ]
    return "\r\n".join([*lines, "", ""]).encode()
