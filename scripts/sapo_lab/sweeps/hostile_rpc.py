"""A chain's RPC that lies: it forwards to a real one, and bends what comes back."""

import contextlib
import copy
import gzip
import json
import random
import socket
import struct
import threading
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from sapo_devnet.testkit.hostile_http import hostile
from sapo_lab.sweeps.mutations import flip

BOMB = gzip.compress(bytes(64 << 20))
FLOOD = b"[" + b"[]," * (4 << 20)
ODD: list[Any] = [
    None, True, False, 0, -1, 1, 2**64, 10**30, 0.5, "", "0x", "0x0", "0x-1", "-0x1", "0xzz", "0x1g", "1",
    "0x" + "f" * 64, "0x" + "f" * 65, "0x" + "00" * 32, "0x" + "ff" * 32, "0x" + "ab" * 20, "0x" + "00" * 31 + "20",
    "0x" + "ff" * 2000,
    "\ud800", "é", "<html>", [], {}, [[]], {"a": 1}, [None] * 100, "x" * 5000,
]  # fmt: skip
REVERTS: list[Any] = [
    "0x", "0x4e487b71" + "00" * 31 + "99", "0x08c379a0" + "zz", "0x08c379a0" + "ff" * 64, "Reverted 0x08c379a0",
    "Reverted 0x" + "ff" * 9, "0x556f1830" + "00" * 160, "0x556f1830" + "ff" * 32, "0x12345678", "0x1", None, 7, {},
    {"data": "0x08c379a0" + "00" * 31 + "20" + "ff" * 32}, ["0x"], "0x" + "c0" * 3000,
]  # fmt: skip
MESSAGES: list[Any] = [
    "execution reverted", "nonce too low", "transaction not found", "header not found", "timeout",
    "transaction indexing is in progress", "replacement transaction underpriced", "https://x:y@host.example/key", "",
    None, 5, {}, "\ud800\x1b[2J", "x" * 100_000,
]  # fmt: skip


@dataclass
class Liar:
    """`url`: where it listens. `rng` decides how the next answers are bent; `odds`: how often. `escapes`: requests to
    the address that redirects name, which must stay 0."""

    target: str
    elsewhere: str
    url: str = ""
    rng: random.Random = field(default_factory=lambda: random.Random(0))
    odds: float = 0.0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def serve(self, connection: socket.socket, over: threading.Event) -> None:
        body = request_body(connection)
        with self.lock:  # retries come on other connections
            bend = self.rng.random() < self.odds
            rng = random.Random(self.rng.random())
        honest = _ask(self.target, body)
        if not bend:
            connection.sendall(_ok(honest))
        elif rng.random() < 0.72:
            connection.sendall(_ok(_bent(rng, honest)))
        else:
            self._misbehave(rng, connection, over, honest)

    def _misbehave(self, rng: random.Random, connection: socket.socket, over: threading.Event, honest: bytes) -> None:
        """Anything but one whole answer of JSON."""
        head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
        if rng.random() < 0.12:
            _keep_waiting(rng, connection, over, honest)
            return
        status = rng.choice(("301 Moved", "302 Found", "307 Temporary", "308 Permanent"))
        failure = rng.choice(
            ("400 Bad", "401 No", "403 No", "404 No", "413 Large", "429 Slow", "500 Oops", "503 Later")
        )
        if rng.random() < 0.04:
            connection.sendall(head + b"\r\n")
            while not over.is_set():
                connection.sendall(FLOOD)
        connection.sendall(
            rng.choice(
                [
                    f"HTTP/1.1 {status}\r\nLocation: {self.elsewhere}\r\nContent-Length: 0\r\n\r\n".encode(),
                    f"HTTP/1.1 {failure}\r\nContent-Length: 9\r\nRetry-After: 9999\r\n\r\n<html>...".encode(),
                    _ok(b"<html><body>It works!</body></html>"), _ok(b""), _ok(b"null"), _ok(b"\xff\xfe"), _ok(b"[]"),
                    _ok(b"[" * 200_000), _ok(b'{"result":' * 50_000), _ok(b'{"id":' + b"9" * 5000 + b"}"),
                    _ok(b"[" + b"[]," * (1 << 20) + b"[]]"), _ok(b'{"jsonrpc":"2.0","id":0,"result":NaN}'),
                    head + b"Content-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(BOMB) + BOMB,
                    head + b"Content-Encoding: br\r\nContent-Length: 4\r\n\r\nabcd",
                    head + b"Content-Length: %d\r\n\r\n" % (len(honest) + 9) + honest,
                    head + b"Content-Length: 5\r\n\r\n" + honest, head + b"Content-Length: 1e9\r\n\r\n" + honest,
                    head + b"Content-Length: 99999999999999999\r\n\r\n" + honest,
                    head + b"Content-Length: -1\r\n\r\n{}",
                    head + b"Transfer-Encoding: chunked\r\n\r\n-5\r\n" + honest, head + b"\r\n" + honest,
                    head + b"Transfer-Encoding: chunked\r\n\r\nffffffffff\r\n" + honest,
                    head + b"X: 1\r\n" * 200 + b"\r\n", head + b"X: " + b"a" * 80_000, b"HTTP/1.1 abc\r\n\r\n",
                    b"HTTP/9.9 200\r\n\r\n", bytes(range(256)), b"",
                ]
            )
        )  # fmt: skip
        if rng.random() < 0.2:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # a reset


@contextlib.contextmanager
def liar(target: str) -> Iterator[Liar]:
    """A lying RPC in front of the real one at `target`."""
    reached: list[int] = []
    with hostile(lambda *_: reached.append(1)) as elsewhere:
        made = Liar(target, f"http://127.0.0.1:{elsewhere.port}/")
        with hostile(made.serve, read_request=False) as server:
            made.url = f"http://127.0.0.1:{server.port}"
            yield made
    assert not reached, "a redirect was followed"


def _keep_waiting(rng: random.Random, connection: socket.socket, over: threading.Event, honest: bytes) -> None:
    match rng.randrange(4):
        case 0:
            over.wait(1.0)
        case 1:
            connection.sendall(b"HTTP/1.1 200 OK\r\nX-Slow: ")
            while not over.wait(0.02):
                connection.sendall(b"a")
        case 2:
            connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
            while not over.wait(0.02):
                connection.sendall(b" ")
        case _:
            while not over.wait(0.02):
                connection.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")


def request_body(connection: socket.socket) -> bytes:
    """Reads one HTTP request; its body."""
    data = b""
    while b"\r\n\r\n" not in data:
        piece = connection.recv(65536)
        if not piece:
            raise ConnectionError("gone")
        data += piece
    head, body = data.split(b"\r\n\r\n", 1)
    length = next(int(line[15:]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:"))
    while len(body) < length:
        piece = connection.recv(65536)
        if not piece:
            raise ConnectionError("gone")
        body += piece
    return body


def _ask(url: str, body: bytes) -> bytes:
    request = urllib.request.Request(url, body, {"Content-Type": "application/json"})  # noqa: S310 - our own Anvil
    with urllib.request.urlopen(request, timeout=10) as answer:  # noqa: S310
        found: bytes = answer.read()
    return found


def _ok(body: bytes) -> bytes:
    return b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % len(body) + body


def _bent(rng: random.Random, honest: bytes) -> bytes:
    if rng.random() < 0.1:
        return flip(rng, honest)
    answer = json.loads(honest)
    for _ in range(rng.choice((1, 1, 2, 4))):
        answer = _bend(rng, answer)
    return json.dumps(answer).encode("utf-8", "surrogatepass")


def _bend(rng: random.Random, answer: Any) -> Any:
    """One value somewhere in the answer exchanged, cut short, flipped, removed or doubled; or an error in its place."""
    one = rng.choice(answer) if isinstance(answer, list) and answer else answer
    if isinstance(one, dict) and rng.random() < 0.15:
        one.pop("result", None)
        one["error"] = copy.deepcopy(
            rng.choice([
                {"code": rng.choice((3, -32000, -32601, "3", None)), "message": rng.choice(MESSAGES),
                 "data": rng.choice(REVERTS)},
                {"code": -32000, "message": rng.choice(MESSAGES)}, {"message": rng.choice(MESSAGES)}, {},
                rng.choice(ODD),
            ])
        )  # fmt: skip
        return answer
    odd = copy.deepcopy(rng.choice(ODD))
    if not isinstance(answer, dict | list) or not answer:
        return odd
    parent: Any = answer
    key: Any = _key(rng, parent)
    while isinstance(parent[key], dict | list) and parent[key] and rng.random() < 0.85:
        parent = parent[key]
        key = _key(rng, parent)
    value = parent[key]
    match rng.randrange(6):
        case 0 | 1 if isinstance(value, str) and value.startswith("0x"):
            parent[key] = _other_hex(rng, value)
        case 2:
            del parent[key]
        case 3 if isinstance(parent, list):
            parent.insert(0, copy.deepcopy(value))
        case _:
            parent[key] = odd
    return answer


def _key(rng: random.Random, parent: Any) -> Any:
    if isinstance(parent, list):
        return rng.randrange(len(parent))
    return "result" if "result" in parent and rng.random() < 0.7 else rng.choice(sorted(parent))


def _other_hex(rng: random.Random, text: str) -> str:
    digits = text[2:]
    at = 64 * rng.randrange(len(digits) // 64 + 1)
    return "0x" + rng.choice(
        [
            digits[: len(digits) // 2], digits[: len(digits) // 2 * 2 - 1], digits + digits, digits[:at],
            digits[:at] + "f" * 64 + digits[at + 64 :], digits[:at] + "0" * 64 + digits[at + 64 :],
            digits[:at] + "0" * 48 + "f" * 16 + digits[at + 64 :],
            digits[:at] + f"{rng.randrange(300):064x}" + digits[at + 64 :],
            "".join(rng.sample(digits, len(digits))), digits[::-1], digits.upper(), "g" + digits[1:],
        ]
    )  # fmt: skip
