"""A real HTTP proxy before a daemon's RPC, as operators have them: it asks for credentials, sends elsewhere, or answers
in the daemon's place. It also stands in for what only Kubo has, such as API.Authorizations."""

import http.client
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_: object) -> None:
        """A client that hangs up before the end of what it refuses is no trouble."""


class IpfsProxy:
    """api: its multiaddr. asked: each command that came, with its Authorization."""

    def __init__(self, daemon_url: str) -> None:
        """daemon_url: the URL of the RPC behind it."""
        self.wants: str | None = None  # the Authorization that is let through; None: anybody
        self.allowed: tuple[str, ...] | None = None  # commands that it may use; None: all
        self.instead: tuple[int, dict[str, str], bytes] | None = None  # of every answer: status, headers, body
        self.not_instead: tuple[str, ...] = ()  # of these commands' answers
        self.asked: list[tuple[str, str | None]] = []
        self._host = urlsplit(daemon_url).netloc
        proxy = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                proxy._answer(self)

            def do_GET(self) -> None:  # what a redirect that is followed becomes
                proxy._answer(self)

            def log_message(self, *_: object) -> None:
                """Not on a test's output."""

        self._server = _Server(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self.api = f"/ip4/127.0.0.1/tcp/{self._server.server_port}/http"
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def _answer(self, request: BaseHTTPRequestHandler) -> None:
        body = _body(request)
        command = urlsplit(request.path).path.removeprefix("/api/v0/")
        shown = request.headers.get("Authorization")
        self.asked.append((command, shown))
        if self.instead is not None and command not in self.not_instead:
            status, headers, answer = self.instead
        elif self.wants is not None and (shown != self.wants or command not in (self.allowed or (command,))):
            status, headers, answer = 403, {"Content-Type": "text/plain"}, b"403 - Forbidden\n"
        else:
            status, headers, answer = self._ask_daemon(request, body)
        request.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(answer))}.items():
            request.send_header(name, value)
        request.end_headers()
        request.wfile.write(answer)

    def _ask_daemon(self, request: BaseHTTPRequestHandler, body: bytes) -> tuple[int, dict[str, str], bytes]:
        connection = http.client.HTTPConnection(self._host, timeout=30)
        try:
            headers = {"Content-Type": request.headers.get("Content-Type", "")} if body else {}
            connection.request("POST", request.path, body, headers)
            answer = connection.getresponse()
            return answer.status, {"Content-Type": answer.headers.get("Content-Type", "")}, answer.read()
        finally:
            connection.close()


def _body(request: BaseHTTPRequestHandler) -> bytes:
    """Whole, by its length or in chunks."""
    if request.headers.get("Transfer-Encoding", "") != "chunked":
        return request.rfile.read(int(request.headers.get("Content-Length") or 0))
    body = b""
    while size := int(request.rfile.readline(), 16):
        body += request.rfile.read(size)
        request.rfile.readline()
    request.rfile.readline()
    return body


@contextmanager
def ipfs_proxy(daemon_url: str) -> Iterator[IpfsProxy]:
    """A running one."""
    made = IpfsProxy(daemon_url)
    try:
        yield made
    finally:
        made.close()
