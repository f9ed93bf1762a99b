"""Fetches one block from a trustless gateway over HTTP, from a server that may be hostile.

IPFS Trustless Gateway specification: `GET /ipfs/<cid>?format=raw`, `Accept: application/vnd.ipld.raw`. Bytes and time
are bounded before anything is believed, and the digest is the only proof of the content.
"""

import contextlib
import functools
import http.client
import io
import os
import socket
import ssl
import threading
import time
import weakref
from types import TracebackType
from typing import ClassVar, Self

import urllib3
from urllib3.connection import HTTPConnection

from sapo_verifier.cid import BLOCK_LIMIT, block_digest, cid
from sapo_verifier.ipfs.endpoints import Endpoint
from sapo_verifier.ipfs.errors import (
    BlockCorrupt,
    BlockTooLarge,
    BlockUnavailable,
    EndpointError,
    PeerTooSlow,
    PeerUnreachable,
)

RAW = "application/vnd.ipld.raw"
MAX_HEADER_BYTES = 32 * 1024
_CHUNK = 64 * 1024


def fetch_block(endpoint: Endpoint, digest: bytes, *, limit: int = BLOCK_LIMIT, timeout: float = 10.0) -> bytes:
    """The block with this digest, at most `limit` bytes, within `timeout` seconds in all.

    Raises PeerUnreachable, PeerTooSlow or BlockUnavailable (no block), BlockTooLarge, BlockCorrupt, and EndpointError
    when the endpoint's name stands for a refused address. Memory stays near `limit`, whatever the server sends.
    """
    where, name = endpoint.multiaddr, cid(digest)
    if endpoint.scheme not in ("http", "https"):
        raise EndpointError(f"{where} is no HTTP gateway; only Kubo can reach it")
    with _Watchdog(timeout) as watchdog:
        try:
            return _exchange(endpoint, digest, limit, watchdog)
        # Whatever a server sends ends in one of these; urllib3 and http.client raise ValueError on odd numbers.
        except (OSError, http.client.HTTPException, urllib3.exceptions.HTTPError, ValueError) as error:
            if watchdog.fired or isinstance(error, TimeoutError):
                raise PeerTooSlow(
                    f"{where}: did not deliver {name} within {timeout:.1f} s; try again, or ask other peers"
                ) from error
            if isinstance(error, _HeadersTooLarge):
                raise BlockUnavailable(f"{where}: refused, its answer's {error}; is this an IPFS gateway?") from error
            raise PeerUnreachable(
                f"{where}: connection failed for {name} ({_short(error)}); is the node running and reachable?"
            ) from error


def abort_all() -> None:
    """Ends every exchange of this process now (for a shutdown that does not wait for slow peers)."""
    for watchdog in list(_Watchdog.live):
        watchdog.fire()


def _exchange(endpoint: Endpoint, digest: bytes, limit: int, watchdog: "_Watchdog") -> bytes:
    where, name = endpoint.multiaddr, cid(digest)
    connection = HTTPConnection(endpoint.host, endpoint.port, timeout=watchdog.left())
    connection.response_class = _BoundedResponse
    # The socket is made here, so that it leads to a checked address; urllib3 only speaks HTTP over it.
    connection.sock = _connect(endpoint, watchdog)
    try:
        headers = {
            "Host": endpoint.host_header,
            "Accept": RAW,
            "Accept-Encoding": "identity",
            "Connection": "close",
            "User-Agent": "sapo",
        }
        path = f"/ipfs/{name}?format=raw"
        connection.request("GET", path, headers=headers, preload_content=False, decode_content=False)
        # With `Connection: close` the response owns the socket, so closing the connection would not be enough.
        with contextlib.closing(connection.getresponse()) as response:
            body = _body(where, name, response, limit)
        if watchdog.fired:  # a body without a length ends quietly when the watchdog closes the socket
            raise TimeoutError
    finally:
        connection.close()
    if block_digest(body) != digest:
        raise BlockCorrupt(f"{where}: sent {len(body)} bytes that are not {name}; ask other peers, or report this node")
    return body


def _body(where: str, name: str, response: urllib3.BaseHTTPResponse, limit: int) -> bytes:
    _check_status(where, name, response)
    declared = response.headers.get("Content-Length")
    if declared is not None and declared.isdecimal() and int(declared[:20]) > limit:
        raise BlockTooLarge(f"{where}: {name} has {declared[:20]} bytes, more than the {limit} allowed; refused")
    body = bytearray()
    for chunk in response.stream(min(_CHUNK, limit + 1), decode_content=False):
        body += chunk
        if len(body) > limit:
            raise BlockTooLarge(f"{where}: {name} is longer than the {limit} bytes allowed; refused")
    return bytes(body)


def _check_status(where: str, name: str, response: urllib3.BaseHTTPResponse) -> None:
    if 300 <= response.status < 400:
        target = _short(response.headers.get("Location", "?"))
        raise BlockUnavailable(f"{where}: answered with a redirect to {target}, which is refused")
    if response.status in (404, 410):
        raise BlockUnavailable(f"{where}: does not have {name}")
    if response.status != 200:
        raise BlockUnavailable(f"{where}: answered {response.status} for {name}; is this a trustless gateway?")
    encoding = response.headers.get("Content-Encoding", "identity").strip().lower()
    if encoding not in ("", "identity"):
        raise BlockUnavailable(f"{where}: compressed {name} ({_short(encoding)}) although not asked to; refused")


def _connect(endpoint: Endpoint, watchdog: "_Watchdog") -> socket.socket:
    failure: OSError | None = None
    for address in endpoint.addresses(watchdog.left()):
        try:
            # An address, not a name: nothing is resolved again.
            raw = socket.create_connection((str(address), endpoint.port), timeout=watchdog.left())
        except OSError as error:
            failure = error
            continue
        watchdog.guard(raw)
        if endpoint.scheme == "http":
            return raw
        try:
            return _tls_context().wrap_socket(raw, server_hostname=endpoint.host)
        except BaseException:  # whatever ends it, Ctrl-C too: the socket is ours until it is handed out
            raw.close()
            raise
    raise failure or OSError("no address")


@functools.cache
def _tls_context() -> ssl.SSLContext:
    return ssl.create_default_context()


def _short(thing: object) -> str:
    """A stranger's text, made harmless for a terminal and a report."""
    return ascii(str(thing))[:160]


class _HeadersTooLarge(http.client.HTTPException):
    pass


class _BoundedResponse(http.client.HTTPResponse):
    """http.client bounds a header line (64 KiB) and the number of lines, not the sum, nor a run of `100 Continue`."""

    def begin(self) -> None:
        reader = self.fp
        self.fp = _HeaderReader(reader)  # type: ignore[assignment]
        try:
            super().begin()
        finally:
            if self.fp is not None:  # None when http.client has given up and closed it
                self.fp = reader


class _HeaderReader:
    def __init__(self, reader: io.BufferedReader) -> None:
        self._reader = reader
        self._left = MAX_HEADER_BYTES

    def readline(self, size: int = -1) -> bytes:
        line = self._reader.readline(min(size, self._left + 1) if size >= 0 else self._left + 1)
        self._left -= len(line)
        if self._left < 0:
            raise _HeadersTooLarge(f"headers are longer than {MAX_HEADER_BYTES} bytes")
        return line

    def close(self) -> None:
        self._reader.close()


class _Watchdog:
    """Ends an exchange at its deadline from outside: socket time-outs count from the last byte, so a server that sends
    one byte a second would never meet them. Shuts a duplicate of the descriptor, which TLS cannot take away."""

    live: ClassVar["weakref.WeakSet[_Watchdog]"] = weakref.WeakSet()

    def __init__(self, seconds: float) -> None:
        self.fired = False
        self._end = time.monotonic() + seconds
        self._lock = threading.Lock()
        self._sockets: list[socket.socket] = []
        self._timer = threading.Timer(max(seconds, 0.0), self.fire)
        self._timer.daemon = True

    def __enter__(self) -> Self:
        self.live.add(self)
        self._timer.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._timer.cancel()
        self.live.discard(self)
        with self._lock:
            for duplicate in self._sockets:
                duplicate.close()
            self._sockets.clear()

    def left(self) -> float:
        """Seconds until the deadline. Raises TimeoutError when there are none."""
        left = self._end - time.monotonic()
        if left <= 0 or self.fired:
            raise TimeoutError("the deadline has passed")
        return left

    def guard(self, sock: socket.socket) -> None:
        with self._lock:
            self._sockets.append(socket.socket(fileno=os.dup(sock.fileno())))
            late = self.fired
        if late:
            self.fire()

    def fire(self) -> None:
        with self._lock:
            self.fired = True
            for duplicate in self._sockets:
                try:
                    duplicate.shutdown(socket.SHUT_RDWR)
                except OSError:  # the peer was faster
                    continue
