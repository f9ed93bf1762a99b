"""`fetch_block` against servers that stall, trickle, lie and flood: the right error, in time, with bounded memory."""

import gzip
import os
import socket
import ssl
import struct
import subprocess
import threading
import time
import tracemalloc
from pathlib import Path

import pytest

from sapo_devnet.testkit.hostile_http import answer, hostile
from sapo_verifier.cid import BLOCK_LIMIT, block_digest, cid
from sapo_verifier.ipfs import (
    BlockCorrupt,
    BlockTooLarge,
    BlockUnavailable,
    EndpointError,
    PeerTooSlow,
    PeerUnreachable,
)
from sapo_verifier.ipfs.endpoints import parse_endpoint
from sapo_verifier.ipfs.gateway import fetch_block
from sapo_verifier.net import exchange

DATA = b"a block of some bytes" * 50
DIGEST = block_digest(DATA)
DEADLINE = 0.5
SLACK = 0.7


def fetch(multiaddr: str, *, limit: int = BLOCK_LIMIT, timeout: float = DEADLINE) -> bytes:
    start = time.monotonic()
    try:
        return fetch_block(parse_endpoint(multiaddr, allow_private=True), DIGEST, limit=limit, timeout=timeout)
    finally:
        assert time.monotonic() - start < timeout + SLACK


def test_an_honest_server_and_what_it_is_asked() -> None:
    with hostile(answer(DATA)) as server:
        assert fetch(server.endpoint()) == DATA
        assert fetch(server.endpoint(), limit=len(DATA)) == DATA
    head = server.requests[0].decode()
    assert head.startswith(f"GET /ipfs/{cid(DIGEST)}?format=raw HTTP/1.1\r\n")
    assert f"\r\nHost: 127.0.0.1:{server.port}\r\n" in head
    assert "\r\nAccept: application/vnd.ipld.raw\r\n" in head
    assert "\r\nAccept-Encoding: identity\r\n" in head


def test_a_name_is_resolved_once_and_sent_as_host(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []

    def fake(host: str, port: int, *rest: int) -> list[object]:
        calls.append(host)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port))]

    with hostile(answer(DATA)) as server:
        endpoint = parse_endpoint(server.endpoint("/dns4/node.example.org"), allow_private=True)
        real = socket.getaddrinfo
        monkeypatch.setattr(
            socket, "getaddrinfo", lambda h, *a, **k: real(h, *a, **k) if h[0].isdigit() else fake(h, *a)
        )
        assert fetch_block(endpoint, DIGEST, timeout=5) == DATA
    assert calls == ["node.example.org"]
    assert f"\r\nHost: node.example.org:{server.port}\r\n" in server.requests[0].decode()


def test_a_name_that_leads_inside_is_never_connected_to(monkeypatch: pytest.MonkeyPatch) -> None:
    def fake(host: str, port: int, *rest: int) -> list[object]:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port))]

    monkeypatch.setattr(socket, "getaddrinfo", fake)
    with hostile(answer(DATA)) as server:
        endpoint = parse_endpoint(server.endpoint("/dns4/node.example.org"), allow_private=False)
        with pytest.raises(EndpointError, match=r"leads to 127\.0\.0\.1"):
            fetch_block(endpoint, DIGEST, timeout=5)
    assert server.requests == []


def stall(connection: socket.socket, over: threading.Event) -> None:
    over.wait(10)


def trickle_headers(connection: socket.socket, over: threading.Event) -> None:
    connection.sendall(b"HTTP/1.1 200 OK\r\nX-Slow: ")
    while not over.wait(0.05):
        connection.sendall(b"a")


def trickle_body(connection: socket.socket, over: threading.Event) -> None:
    connection.sendall(f"HTTP/1.1 200 OK\r\nContent-Length: {len(DATA)}\r\n\r\n".encode())
    for byte in DATA:
        if over.wait(0.05):
            return
        connection.sendall(bytes([byte]))


def trickle_body_without_length(connection: socket.socket, over: threading.Event) -> None:
    connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
    while not over.wait(0.05):
        connection.sendall(b"a")


def trickle_chunks(connection: socket.socket, over: threading.Event) -> None:
    connection.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    while not over.wait(0.05):
        connection.sendall(b"1\r\na\r\n")


def endless_continue(connection: socket.socket, over: threading.Event) -> None:
    while not over.wait(0.02):
        connection.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")


@pytest.mark.parametrize(
    "script",
    [stall, trickle_headers, trickle_body, trickle_body_without_length, trickle_chunks, endless_continue],
)
def test_no_server_can_extend_the_deadline(script: object) -> None:
    with hostile(script) as server, pytest.raises(PeerTooSlow, match=r"within 0\.5 s"):  # type: ignore[arg-type]
        fetch(server.endpoint())


def test_a_tls_handshake_that_never_comes() -> None:
    with hostile(stall, read_request=False) as server, pytest.raises(PeerTooSlow):
        fetch(server.endpoint(scheme="https"))


def flood(head: bytes, piece: bytes) -> object:
    def script(connection: socket.socket, over: threading.Event) -> None:
        connection.sendall(head)
        while not over.is_set():
            connection.sendall(piece)

    return script


@pytest.mark.parametrize(
    ("head", "piece", "error"),
    [
        (b"HTTP/1.1 200 OK\r\n\r\n", bytes(65536), BlockTooLarge),
        (
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
            b"10000\r\n" + bytes(65536) + b"\r\n",
            BlockTooLarge,
        ),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nFFFFFFFFFFFF\r\n", bytes(65536), BlockTooLarge),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999999\r\n\r\n", bytes(65536), BlockTooLarge),
        (b"HTTP/1.1 200 OK\r\nX-Big: ", b"a" * 65536, BlockUnavailable),
        (b"HTTP/1.1 200 OK\r\n", b"X-Many: 1\r\n" * 1000, BlockUnavailable),
        (b"", b"HTTP/1.1 100 Continue\r\n\r\n" * 1000, BlockUnavailable),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"a" * 65536, BlockUnavailable),
        (b"", bytes(65536), BlockUnavailable),
    ],
    ids=["body", "chunks", "one-chunk", "length", "header", "headers", "continue", "chunk-line", "no-http"],
)
def test_floods_end_early_with_bounded_memory(head: bytes, piece: bytes, error: type[Exception]) -> None:
    with hostile(flood(head, piece)) as server:  # type: ignore[arg-type]
        tracemalloc.start()
        try:
            with pytest.raises(error):
                fetch(server.endpoint(), timeout=3.0)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
    assert peak < 6 * BLOCK_LIMIT


def test_a_declared_length_above_the_limit_is_refused_before_reading() -> None:
    with hostile(answer(DATA)) as server, pytest.raises(BlockTooLarge, match=rf"has {len(DATA)} bytes"):
        fetch(server.endpoint(), limit=len(DATA) - 1)


def test_a_gzip_bomb_is_not_opened() -> None:
    bomb = gzip.compress(bytes(50 << 20))
    with hostile(answer(bomb, "Content-Encoding: gzip")) as server:
        tracemalloc.start()
        try:
            with pytest.raises(BlockUnavailable, match="compressed"):
                fetch(server.endpoint(), timeout=3.0)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
    assert peak < 2 * BLOCK_LIMIT


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "br", "zstd", "identity, gzip", "GZIP"])
def test_even_right_bytes_are_refused_when_compressed(encoding: str) -> None:
    script = answer(gzip.compress(DATA), f"Content-Encoding: {encoding}")
    with hostile(script) as server, pytest.raises(BlockUnavailable, match="compressed"):
        fetch(server.endpoint())


@pytest.mark.parametrize("status", ["301 Moved", "302 Found", "303 See Other", "307 Temporary", "308 Permanent"])
def test_redirects_are_refused_and_not_followed(status: str) -> None:
    with hostile(answer(DATA)) as other:
        location = f"Location: http://127.0.0.1:{other.port}/ipfs/{cid(DIGEST)}"
        script = answer(b"", location, status=status)
        with hostile(script) as server, pytest.raises(BlockUnavailable, match="redirect"):
            fetch(server.endpoint())
    assert other.requests == []


@pytest.mark.parametrize("body", [b"", DATA[:-1], DATA + b"x", b"x" * len(DATA)])
def test_wrong_bytes(body: bytes) -> None:
    with hostile(answer(body)) as server, pytest.raises(BlockCorrupt, match="report this node"):
        fetch(server.endpoint())


def test_a_body_shorter_than_declared() -> None:
    with (
        hostile(answer(DATA, length=len(DATA) + 10)) as server,
        pytest.raises(PeerUnreachable, match="connection failed"),
    ):
        fetch(server.endpoint())


def test_a_body_longer_than_declared_is_cut_and_judged_by_its_digest() -> None:
    with hostile(answer(DATA + b"more", length=len(DATA))) as server:
        assert fetch(server.endpoint()) == DATA


@pytest.mark.parametrize("length", ["-5", "abc", "5, 6", "1e3", "٣"])
def test_lengths_that_are_no_numbers_do_no_harm(length: str) -> None:
    script = flood(f"HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n".encode(), bytes(65536))
    with hostile(script) as server, pytest.raises((BlockUnavailable, BlockTooLarge)):  # type: ignore[arg-type]
        fetch(server.endpoint(), timeout=3.0)


@pytest.mark.parametrize(
    ("status", "words"),
    [
        ("404 Not Found", "does not have"),
        ("410 Gone", "does not have"),
        ("500 Oops", "answered 500"),
        ("206 Part", "206"),
    ],
)
def test_other_statuses(status: str, words: str) -> None:
    with hostile(answer(DATA, status=status)) as server, pytest.raises(BlockUnavailable, match=words):
        fetch(server.endpoint())


def reset(connection: socket.socket, over: threading.Event) -> None:
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nabc")
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def hang_up(connection: socket.socket, over: threading.Event) -> None:
    return


@pytest.mark.parametrize("script", [reset, hang_up])
def test_broken_connections(script: object) -> None:
    with hostile(script) as server, pytest.raises(PeerUnreachable):  # type: ignore[arg-type]
        fetch(server.endpoint())


def test_nobody_listens() -> None:
    with hostile(stall) as server:
        pass
    with pytest.raises(PeerUnreachable, match="running and reachable"):
        fetch(server.endpoint())


@pytest.mark.parametrize(
    "noise",
    [
        b"",
        bytes(range(256)),
        b"HTTP/1.1 abc OK\r\n\r\n",
        b"HTTP/9.9 200\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n: \r\n\xff\xfe: \x00\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-5\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\nzz",
    ],
)
def test_noise_never_raises_anything_else(noise: bytes) -> None:
    def script(connection: socket.socket, over: threading.Event) -> None:
        connection.sendall(noise)

    with hostile(script) as server, pytest.raises((BlockUnavailable, BlockCorrupt)):
        fetch(server.endpoint())


def test_no_descriptors_are_left_open() -> None:
    before = len(os.listdir("/proc/self/fd"))
    for script in (answer(DATA), answer(b"wrong"), reset, hang_up):
        with hostile(script) as server:
            for _ in range(5):
                try:
                    fetch(server.endpoint())
                except (BlockUnavailable, BlockCorrupt):
                    continue
    assert len(os.listdir("/proc/self/fd")) <= before + 1


def test_tls_is_checked_against_the_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    key, certificate = tmp_path / "key.pem", tmp_path / "cert.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
         "-keyout", key, "-out", certificate, "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"],
        check=True, capture_output=True,
    )  # fmt: skip
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)

    def serve(connection: socket.socket, over: threading.Event) -> None:
        with context.wrap_socket(connection, server_side=True) as tls:
            tls.recv(65536)
            answer(DATA)(tls, over)

    with hostile(serve, read_request=False) as server:
        with pytest.raises(PeerUnreachable, match="certificate"):
            fetch(server.endpoint("/dns4/localhost", "https"))
        trusting = ssl.create_default_context(cafile=certificate)
        monkeypatch.setattr(exchange, "_tls_context", lambda: trusting)
        assert fetch(server.endpoint("/dns4/localhost", "https")) == DATA
        with pytest.raises(PeerUnreachable, match="certificate"):
            fetch(server.endpoint("/ip4/127.0.0.1", "https"))
