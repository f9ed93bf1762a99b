"""HTTP servers that misbehave, for tests: each connection is given to a function that writes raw bytes."""

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

Script = Callable[[socket.socket, threading.Event], None]


@dataclass
class HostileServer:
    """`requests` holds the heads that clients sent."""

    port: int
    requests: list[bytes] = field(default_factory=list)

    def endpoint(self, host: str = "/ip4/127.0.0.1", scheme: str = "http") -> str:
        return f"{host}/tcp/{self.port}/{scheme}"


@contextlib.contextmanager
def hostile(script: Script, *, read_request: bool = True) -> Iterator[HostileServer]:
    """Runs `script(connection, over)` for every connection; `over` is set when the test ends."""
    over = threading.Event()
    listening = socket.create_server(("127.0.0.1", 0))
    server = HostileServer(listening.getsockname()[1])
    threads: list[threading.Thread] = []

    def serve(connection: socket.socket) -> None:
        # The client hangs up in most of these tests; that is what they are about.
        with connection, contextlib.suppress(OSError):
            connection.settimeout(20)
            if read_request:
                head = b""
                while b"\r\n\r\n" not in head:
                    piece = connection.recv(65536)
                    if not piece:
                        return
                    head += piece
                server.requests.append(head)
            script(connection, over)

    def accept() -> None:
        while True:
            try:
                connection, _ = listening.accept()
            except OSError:
                return
            thread = threading.Thread(target=serve, args=(connection,), daemon=True)
            threads.append(thread)
            thread.start()

    acceptor = threading.Thread(target=accept, daemon=True)
    acceptor.start()
    try:
        yield server
    finally:
        over.set()
        listening.shutdown(socket.SHUT_RDWR)
        listening.close()
        acceptor.join(5)
        for thread in threads:
            thread.join(5)


def answer(body: bytes, *headers: str, status: str = "200 OK", length: int | None = None) -> Script:
    """A script: one complete answer. `length`: what Content-Length claims, when it lies."""
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body) if length is None else length}", *headers, "", ""]

    def script(connection: socket.socket, _: threading.Event) -> None:
        connection.sendall("\r\n".join(lines).encode() + body)

    return script
