"""The one HTTP client: connections that stay open, heads, proxies, names, and its end from outside."""

import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable

import pytest

from sapo_devnet.testkit.hostile_http import answer, hostile
from sapo_verifier import net
from sapo_verifier.ipfs import PeerTooSlow, PeerUnreachable, parse_endpoint
from sapo_verifier.ipfs.gateway import fetch_block
from sapo_verifier.net import loop
from sapo_verifier.net.exchange import MAX_HEADER_BYTES
from sapo_verifier.net.names import _MOST_THREADS

HEAD = b"HTTP/1.1 200 OK\r\n"
EMPTY = HEAD + b"Content-Length: 0\r\n\r\n"


def request(port: int, *, host: str = "127.0.0.1", seconds: float = 5.0, limit: int = 1000) -> net.Request:
    return net.Request("POST", f"http://{host}:{port}/path", limit, seconds, data=b"{}")


def raw(*pieces: bytes, pause: float = 0.0) -> Callable[[socket.socket, threading.Event], None]:
    def script(connection: socket.socket, over: threading.Event) -> None:
        for piece in pieces:
            connection.sendall(piece)
            over.wait(pause)

    return script


def stall(connection: socket.socket, over: threading.Event) -> None:
    over.wait(20)


def ask(script: Callable[[socket.socket, threading.Event], None], **options: float) -> net.Answer:
    client = net.Client()
    try:
        with hostile(script) as server:
            return client.exchange(request(server.port, **options))  # type: ignore[arg-type]
    finally:
        client.close()


def test_one_connection_serves_many_exchanges_and_any_thread() -> None:
    connections = []

    def serve(connection: socket.socket, over: threading.Event) -> None:
        connections.append(connection)
        connection.settimeout(10)
        while connection.recv(65536):
            connection.sendall(HEAD + b"Content-Length: 2\r\n\r\nok")

    client = net.Client()
    with hostile(serve, read_request=False) as server:
        bodies = []
        for _ in range(5):
            thread = threading.Thread(target=lambda: bodies.append(client.exchange(request(server.port)).body))
            thread.start()
            thread.join()
        client.close()
        assert (bodies, len(connections)) == ([b"ok"] * 5, 1)
        assert client.exchange(request(server.port)).body == b"ok"
        client.close()
        assert len(connections) == 2, "closed means closed"


def test_a_connection_that_the_server_closed_is_made_again() -> None:
    client = net.Client()
    with hostile(raw(EMPTY)) as server:
        for _ in range(3):
            assert client.exchange(request(server.port)).status == 200
            time.sleep(0.05)
        assert len(server.requests) == 3
    client.close()


@pytest.mark.parametrize(
    ("size", "fits"),
    [(MAX_HEADER_BYTES, True), (MAX_HEADER_BYTES + 1, False)],
)
def test_headers_are_bounded_to_the_byte_whatever_the_segments(size: int, fits: bool) -> None:
    line = b"X: " + b"a" * 990 + b"\r\n"
    head = HEAD + line * 30
    head += b"Y: " + b"a" * (size - len(head) - 7) + b"\r\n\r\n"
    assert len(head) == size
    for pieces in ((head + b"body",), (head[:-3], head[-3:-1], head[-1:] + b"body"), (head, b"body")):
        if fits:
            assert ask(raw(*pieces, pause=0.05)).body == b"body"
        else:
            with pytest.raises(net.HeadersTooLong):
                ask(raw(*pieces, pause=0.05))


def test_a_long_body_in_the_heads_segment_is_no_head() -> None:
    assert ask(raw(HEAD + b"\r\n" + b"x" * 3 * MAX_HEADER_BYTES), limit=4 * MAX_HEADER_BYTES).status == 200


@pytest.mark.parametrize("size", [130_000, 190_000, 250_000])
def test_a_long_answer_that_is_here_at_once_is_read_to_its_end(size: int) -> None:
    """aiohttp pauses its parser above some size, and goes on without more data from the server."""
    whole = HEAD + f"Content-Length: {size}\r\n\r\n".encode() + b"x" * size

    def serve(connection: socket.socket, over: threading.Event) -> None:
        connection.settimeout(10)
        while connection.recv(65536):
            loop._running().call_soon_threadsafe(time.sleep, 0.1)  # nothing is read before everything is here
            connection.sendall(whole)

    client = net.Client()
    with hostile(serve, read_request=False) as server:
        for _ in range(5):  # over one connection, whose buffer in the kernel grows
            assert len(client.exchange(request(server.port, limit=1 << 20, seconds=3.0)).body) == size
        client.close()


@pytest.mark.parametrize("noise", [b"more", b"\x00\r\n\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nbad"])
def test_bytes_behind_an_answer_do_no_harm(noise: bytes) -> None:
    client = net.Client()
    with hostile(raw(HEAD + b"Content-Length: 2\r\n\r\nok" + noise)) as server:
        for _ in range(3):
            assert client.exchange(request(server.port)).body == b"ok"
    client.close()


@pytest.mark.parametrize(
    ("script", "error"),
    [
        (raw(b"garbage\r\n\r\n"), net.Malformed),
        (raw(HEAD + b"Content-Length: 5\r\n\r\nab"), net.NoConnection),
        (raw(), net.NoConnection),
        (stall, net.TooSlow),
        (answer(b"x" * 1001), net.TooLarge),
        (answer(b"x", "Content-Encoding: br"), net.Compressed),
    ],
    ids=["malformed", "cut", "hung up", "slow", "large", "compressed"],
)
def test_failures_are_told_apart(script: Callable[..., None], error: type[net.NetError]) -> None:
    with pytest.raises(net.NetError) as caught:
        ask(script, seconds=0.5)
    assert type(caught.value) is error


def test_a_malformed_body_ends_at_once() -> None:
    def script(connection: socket.socket, over: threading.Event) -> None:
        connection.sendall(HEAD + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n")
        stall(connection, over)

    started = time.monotonic()
    with pytest.raises(net.NetError):
        ask(script)
    assert time.monotonic() - started < 3.0


def test_a_proxy_of_the_environment_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    client = net.Client()
    with hostile(raw(EMPTY)) as proxy:
        monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{proxy.port}")
        assert client.exchange(request(8545, host="node.example.org")).status == 200
    assert proxy.requests[0].startswith(b"POST http://node.example.org:8545/path HTTP/1.1\r\n")
    client.close()


def test_names_that_are_never_resolved_hold_few_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    over = threading.Event()
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_: over.wait(20) and [])
    endpoint = parse_endpoint("/dns/slow.example.org/tcp/80/http", allow_private=True)
    try:
        said = []
        for _ in range(_MOST_THREADS + 2):
            with pytest.raises(PeerTooSlow) as caught:
                endpoint.addresses(0.05)
            said.append(str(caught.value))
        assert "was not resolved within 0.1 s" in said[0]
        assert "too many name look-ups" in said[-1]
        assert sum(thread.name == "name-lookup" for thread in threading.enumerate()) <= _MOST_THREADS
    finally:
        over.set()
    with pytest.raises(PeerUnreachable, match="no addresses"):
        endpoint.addresses(5.0)


@pytest.mark.parametrize("host", ["/ip4/127.0.0.1", "/dns/slow.example.org"])
def test_abort_all_ends_exchanges_and_look_ups_at_once(monkeypatch: pytest.MonkeyPatch, host: str) -> None:
    over = threading.Event()
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_: over.wait(20) and [])
    ended = []

    def fetch(endpoint: str) -> None:
        try:
            fetch_block(parse_endpoint(endpoint, allow_private=True), bytes(32), timeout=20)
        except PeerTooSlow:
            ended.append(time.monotonic())

    with hostile(stall) as server:
        threads = [threading.Thread(target=fetch, args=(server.endpoint(host),)) for _ in range(4)]
        for thread in threads:
            thread.start()
        time.sleep(0.3)
        started = time.monotonic()
        net.abort_all()
        for thread in threads:
            thread.join(5)
        over.set()
    assert len(ended) == 4
    assert max(ended) - started < 1.0


def test_a_process_ends_quietly_whatever_is_open() -> None:
    """A client that nobody closed, one that was forgotten, and an exchange that a daemon thread still waits for."""
    code = """
import contextlib, sys, threading, time
from sapo_verifier import net
from sapo_verifier.net import loop
good, slow = (net.Request("POST", f"http://127.0.0.1:{port}/", 10, 30.0) for port in sys.argv[1:])
client = net.Client()
client.exchange(good)
net.Client().exchange(good)
def wait():
    with contextlib.suppress(net.TooSlow):
        client.exchange(slow)
threading.Thread(target=wait, daemon=True).start()
time.sleep(0.2)
"""
    with hostile(raw(EMPTY, pause=5.0)) as good, hostile(stall) as slow:
        started = time.monotonic()
        ended = subprocess.run(
            [sys.executable, "-X", "dev", "-W", "error", "-c", code, str(good.port), str(slow.port)],
            capture_output=True, text=True, timeout=30,
        )  # fmt: skip
        assert time.monotonic() - started < 10
    assert ended.returncode == 0
    assert ended.stderr == ""


def test_nothing_of_aiohttp_is_loaded_before_it_is_needed() -> None:
    code = "import sys; from sapo_verifier import ipfs, net; sys.exit('aiohttp' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], timeout=30).returncode == 0
