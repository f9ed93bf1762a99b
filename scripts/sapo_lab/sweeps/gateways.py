"""Hostile answers of gateways through GatewayReader, BlockStore and the daemon itself: only BlockError leaves."""

import gzip
import random
import socket
import struct
import tempfile
import threading
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from sapo_devnet.testkit.hostile_http import hostile
from sapo_devnet.testkit.ipfs_daemon import ipfs_daemon
from sapo_lab.sweeps.mutations import flip
from sapo_lab.sweeps.tally import Tally
from sapo_verifier.cid import BLOCK_LIMIT, block_digest, cid
from sapo_verifier.ipfs import BlockError, BlockStore, GatewayReader

TIMEOUT = 0.2  # seconds for one source
LIMIT_SECONDS = 3.0
LIMIT_MIB = 48.0
BOMB = gzip.compress(bytes(64 << 20))
SMALL, FULL = b"a block of some bytes" * 50, random.Random(0).randbytes(BLOCK_LIMIT)


@dataclass
class Gateway:
    """Answers the next requests by one script, drawn from `rng`, whatever is asked for. `data`: the right bytes."""

    elsewhere: str
    rng: random.Random = field(default_factory=lambda: random.Random(0))
    data: bytes = SMALL

    def serve(self, connection: socket.socket, over: threading.Event) -> None:
        rng, data = random.Random(self.rng.random()), self.data
        if rng.random() < 0.03:
            _slow(rng, connection, over, data)
            return
        if rng.random() < 0.03:
            connection.sendall(
                b"HTTP/1.1 200 OK\r\n" + rng.choice((b"\r\n", b"X: ", b"Transfer-Encoding: chunked\r\n\r\n"))
            )
            piece = rng.choice((bytes(65536), b"10000\r\n" + bytes(65536) + b"\r\n", b"X-Many: 1\r\n" * 500))
            while not over.is_set():
                connection.sendall(piece)
        answer = self._answer(rng, data)
        if rng.random() < 0.1:
            answer = flip(rng, answer)
        if rng.random() < 0.1:
            answer = answer[: rng.randrange(len(answer) + 1)]
        connection.sendall(answer)
        if rng.random() < 0.1:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # a reset

    def _answer(self, rng: random.Random, data: bytes) -> bytes:
        body = rng.choice((data, data, data, data[:-1], data + b"x", b"", flip(rng, data), rng.randbytes(100)))
        status = rng.choice(
            ("200 OK",) * 50
            + (
                "404 Not Found",
                "410 Gone",
                "206 Part",
                "204 None",
                "304 Same",
                "500 Oops",
                "429 Slow",
                "999",
                "-1",
                "abc",
            )
            + ("301 Moved", "302 Found", "307 Temporary", "308 Permanent", "100 Continue", "101 Switch")
        )
        headers = [f"Location: {self.elsewhere}"] if status.startswith("30") else []
        if rng.random() < 0.15:
            encoding = rng.choice(("gzip", "deflate", "br", "zstd", "identity", "x", "gzip, gzip", ""))
            headers.append(f"Content-Encoding: {encoding}")
            body = rng.choice((BOMB, gzip.compress(body), zlib.compress(body), body))
        lengths = [len(body)] * 6 + [len(body) + 9, max(0, len(body) - 9), 10**30, -1, "1e3", "٣", "5, 6", " ", ""]
        match rng.randrange(5):
            case 0 | 1 | 2:
                headers.append(f"Content-Length: {rng.choice(lengths)}")
            case 3:
                headers.append("Transfer-Encoding: chunked")
                size = rng.choice((f"{len(body):x}", f"{len(body):x}", "-5", "zz", "f" * 40, f"{len(body):x};a=b"))
                body = size.encode() + b"\r\n" + body + b"\r\n" + rng.choice((b"0\r\n\r\n", b"0\r\nX: 1\r\n\r\n", b""))
            case _:
                pass
        for _ in range(rng.choice((0, 0, 0, 1, 3, 300))):
            headers.append(rng.choice(("X: 1", "Set-Cookie: a=b", ": ", "\x00: \x01", "X" * 5000 + ": y", " folded")))
        version = rng.choice(("HTTP/1.1",) * 8 + ("HTTP/1.0", "HTTP/9.9", "ICY", ""))
        return "\r\n".join([f"{version} {status}", *headers, "", ""]).encode("utf-8", "replace") + body


def _slow(rng: random.Random, connection: socket.socket, over: threading.Event, data: bytes) -> None:
    start, piece = rng.choice(
        [
            (b"", b""), (b"HTTP/1.1 200 OK\r\nX-Slow: ", b"a"), (b"HTTP/1.1 200 OK\r\n\r\n", b"a"),
            (b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(data), b"a"),
            (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"1\r\na\r\n"),
            (b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
        ]
    )  # fmt: skip
    connection.sendall(start)
    while not over.wait(0.02 if piece else 1.0):
        if not piece:
            return
        connection.sendall(piece)


def sweep(count: int, seed: int) -> Tally:
    """Cases seed … seed + count − 1. Raises AssertionError, naming the case, at the first one that breaks a rule."""
    tally = Tally(LIMIT_SECONDS, LIMIT_MIB)
    reached: list[int] = []
    with hostile(lambda *_: reached.append(1)) as elsewhere, tempfile.TemporaryDirectory() as folder:
        gateway = Gateway(f"http://127.0.0.1:{elsewhere.port}/ipfs/{cid(block_digest(SMALL))}")
        with (
            hostile(gateway.serve) as server,
            ipfs_daemon(Path(folder), peers=(server.endpoint(),), options=("--fetch-seconds", str(TIMEOUT))) as daemon,
            BlockStore(daemon.api, allow_private=True, timeout=TIMEOUT) as store,
            GatewayReader(allow_private=True, timeout=TIMEOUT) as reader,
        ):
            for case in range(seed, seed + count):
                server.requests.clear()
                _one(case, gateway, server.endpoint(), reader, store, tally)
    assert not reached, "a redirect was followed"
    return tally


def _one(case: int, gateway: Gateway, endpoint: str, reader: GatewayReader, store: BlockStore, tally: Tally) -> None:
    rng = random.Random(case)
    # New bytes for each case: what arrived whole is kept by the daemon.
    gateway.data = (FULL if rng.random() < 0.05 else SMALL)[:-8] + case.to_bytes(8, "big")
    gateway.rng = random.Random(case)
    digest = block_digest(gateway.data)
    limit = rng.choice((BLOCK_LIMIT, BLOCK_LIMIT, len(gateway.data), len(gateway.data) - 1))
    name = rng.choice(("reader", "reader", "reader", "reader, many", "store", "daemon's peers"))
    asks: dict[str, Callable[[], bytes | BlockError]] = {
        "reader": lambda: _caught(lambda: reader.get(digest, limit=limit, peers=[endpoint])),
        "reader, many": lambda: reader.get_many([(digest, limit)], [endpoint], deadline=1.0)[digest],
        "store": lambda: _caught(lambda: store.get(digest, limit=limit, peers=[endpoint])),
        "daemon's peers": lambda: _caught(lambda: store.get(digest, limit=limit)),
    }
    try:
        result = tally.measured(f"{name} {case}", asks[name])
    except Exception as error:
        error.add_note(f"case {case}, {name}")
        raise
    if isinstance(result, BlockError):
        assert len(str(result)) < 5000, f"case {case}: an error of {len(str(result))} characters"
        tally.count(f"{name}: {type(result).__name__}")
    else:
        assert result == gateway.data, f"case {case}: other bytes were handed out"
        assert len(result) <= limit, f"case {case}: more bytes than asked for"
        tally.count(f"{name}: the block")
    if name in ("store", "daemon's peers"):
        store.unpin(digest)


def _caught(get: Callable[[], bytes]) -> bytes | BlockError:
    try:
        return get()
    except BlockError as error:
        return error
