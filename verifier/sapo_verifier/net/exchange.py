"""HTTP by aiohttp, held to what a Request allows. Everything here runs in the loop."""

import asyncio
import errno
import functools
import os
import re
import socket
import ssl
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from aiohttp.client_proto import ResponseHandler
from aiohttp.http import RawResponseMessage
from aiohttp.http_exceptions import HttpProcessingError

from sapo_verifier.net.errors import Compressed, HeadersTooLong, Malformed, NetError, NoConnection, TooLarge, TooSlow
from sapo_verifier.net.messages import Answer, Request
from sapo_verifier.net.names import IPAddress, look_up

MAX_HEADER_BYTES = 32 * 1024
_CHUNK = 64 * 1024
_LOOKUP_SECONDS = 60.0  # an exchange ends before; then the look-up that it leaves behind ends, too
_HEAD_END = re.compile(rb"\n\r?\n")


async def once(request: Request, addresses: Sequence[IPAddress], host: str) -> Answer:
    """See client.once."""
    async with _bounded(request), _session() as session:
        failure: NetError = NoConnection("no address")
        parts = urlsplit(request.url)
        # A Host of our own, since the URL gets the address in place of the name: so nothing can be looked up again.
        headers = {"Host": parts.netloc, "Connection": "close", **request.headers}
        for address in addresses:
            port = parts.port or {"http": 80, "https": 443}[parts.scheme]
            netloc = f"[{address}]:{port}" if address.version == 6 else f"{address}:{port}"
            try:
                url = parts._replace(netloc=netloc).geturl()
                return await _ask(session, request, url, headers, server_hostname=host)
            except _NotConnected as error:
                failure = error
        raise failure


class Connections:
    """One session of aiohttp, made anew after `close`."""

    def __init__(self) -> None:
        self._session: aiohttp.ClientSession | None = None

    @property
    def are_open(self) -> bool:
        return self._session is not None

    async def exchange(self, request: Request) -> Answer:
        async with _bounded(request):
            if self._session is None:
                self._session = _session()
            return await _ask(self._session, request, request.url, request.headers, proxy=_proxy(request.url))

    async def close(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            await session.close()


class _NotConnected(NoConnection):
    """Nothing was sent yet: another address may be tried."""


@asynccontextmanager
async def _bounded(request: Request) -> AsyncIterator[None]:
    """The time in all, and every failure as a NetError."""
    try:
        async with asyncio.timeout(request.seconds):
            yield
    except TimeoutError as error:
        raise TooSlow(f"no whole answer within {request.seconds:.1f} s") from error


async def _ask(session: aiohttp.ClientSession, request: Request, url: str, headers: Any, **options: Any) -> Answer:
    try:
        async with session.request(
            request.method,
            url,
            data=request.data,
            headers={"User-Agent": "sapo", "Accept-Encoding": "identity", **headers},
            allow_redirects=False,
            ssl=_tls_context() if url.startswith("https") else True,
            **options,
        ) as response:
            return await _answer(response, request)
    except aiohttp.ClientSSLError as error:
        raise NoConnection(str(error.os_error)) from error
    except aiohttp.ClientConnectorError as error:
        number = error.os_error.errno
        why = OSError(number, os.strerror(number)) if number else error.os_error
        raise _NotConnected(str(why), refused=number == errno.ECONNREFUSED) from error
    except aiohttp.ClientHttpProxyError as error:
        raise NoConnection(f"the proxy answered {error.status}") from error
    except (aiohttp.ClientResponseError, HttpProcessingError) as error:
        raise _malformed(error) from error
    # Whatever else a server sends ends in one of these: ValueError on odd numbers, OSError on a reset.
    except (aiohttp.ClientError, OSError, ValueError) as error:
        if isinstance(error, TimeoutError):
            raise
        raise NoConnection(f"{type(error).__name__}: {error}") from error


def _malformed(error: aiohttp.ClientResponseError | HttpProcessingError) -> NetError:
    if isinstance(error.__cause__, _HeadError):
        return HeadersTooLong(f"headers are longer than {MAX_HEADER_BYTES} bytes")
    text = " ".join(error.message.split())
    if "Content-Length overflow" in text:
        return TooLarge("the length is beyond all numbers")
    return Malformed(f"malformed HTTP: {text}")


async def _answer(response: aiohttp.ClientResponse, request: Request) -> Answer:
    if response.status not in request.statuses:
        return Answer(response.status, location=response.headers.get("Location", ""))
    encoding = response.headers.get("Content-Encoding", "").strip()
    if encoding.lower() not in ("", "identity"):
        raise Compressed(encoding)
    declared = response.headers.get("Content-Length", "")
    if declared.isdecimal() and int(declared[:20]) > request.limit:
        raise TooLarge(f"{declared[:20]} bytes", declared[:20])
    body = bytearray()
    async for chunk in response.content.iter_any():
        body += chunk
        if len(body) > request.limit:
            raise TooLarge(f"more than {request.limit} bytes")
    return Answer(response.status, bytes(body))


def _session() -> aiohttp.ClientSession:
    session = aiohttp.ClientSession(
        connector=_Connector(resolver=_Names(), use_dns_cache=False),
        timeout=aiohttp.ClientTimeout(),  # _bounded holds the time
        cookie_jar=aiohttp.DummyCookieJar(),  # a jar grows for as long as the server likes
        auto_decompress=False,
        read_bufsize=_CHUNK,
        max_line_size=MAX_HEADER_BYTES,
        max_field_size=MAX_HEADER_BYTES,
    )
    session._retry_connection = False  # whoever asks counts the tries
    return session


@functools.cache
def _tls_context() -> ssl.SSLContext:
    return ssl.create_default_context()


@functools.lru_cache(16)
def _proxy(url: str) -> str | None:
    """The proxy that the environment names for this server; looked for once."""
    parts = urlsplit(url)
    if not parts.hostname or proxy_bypass(parts.hostname):
        return None
    proxies = getproxies()
    return proxies.get(parts.scheme) or proxies.get("all")


class _Names(AbstractResolver):
    """aiohttp's names, looked up in the bounded threads of names.py."""

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        found = await look_up(host, port, family, _LOOKUP_SECONDS)
        return [
            ResolveResult(hostname=host, host=str(a), port=port, family=_FAMILIES[a.version], proto=0, flags=0)
            for a in found
        ]

    async def close(self) -> None:
        return


_FAMILIES = {4: socket.AF_INET, 6: socket.AF_INET6}


class _Connector(aiohttp.TCPConnector):
    """aiohttp's, with connections that bound their heads."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._factory: Any = functools.partial(_Connection, loop=self._loop)


class _HeadError(HttpProcessingError):
    pass


class _Connection(ResponseHandler):
    """aiohttp bounds each header and their number, not the sum, nor a run of `100 Continue`.

    Heads are given to the parser apart from what follows them: where that is no HTTP (bytes behind a body), the parser
    would otherwise forget a head of the same segment, and the answer would be lost.
    """

    _head_left = MAX_HEADER_BYTES
    _in_head = True
    _last = b""  # the end of the segment before: a head's end may lie across two

    def set_response_params(self, **options: Any) -> None:
        self._head_left, self._in_head, self._last = MAX_HEADER_BYTES, True, b""
        super().set_response_params(**options)

    def feed_data(self, data: tuple[RawResponseMessage, aiohttp.StreamReader], size: int = 0) -> None:
        code = data[0].code
        self._in_head = 100 <= code < 200 and code != 101
        super().feed_data(data, size)

    def data_received(self, data: bytes) -> None:
        at = 0
        while at < len(data) and self._in_head and self._parser is not None:
            piece = data[at : at + self._head_left + 1]
            found = _HEAD_END.search(self._last + piece)
            head = piece[: found.end() - len(self._last)] if found else piece
            self._last = b"" if found else (self._last + head)[-2:]
            self._head_left -= len(head)
            if self._head_left < 0:
                self.set_exception(_HeadError())
                if self.transport is not None:
                    self.transport.abort()
                return
            at += len(head)
            super().data_received(head)
        if at < len(data) or not data:  # nothing: aiohttp goes on with what it paused at, which is here already
            super().data_received(data[at:])

    def set_exception(self, exc: BaseException, *cause: BaseException) -> None:
        """The body's reader is told, too: what is malformed will not become whole by waiting."""
        payload = self._payload
        super().set_exception(exc, *cause)
        if payload is not None and not payload.is_eof() and payload.exception() is None:
            payload.set_exception(aiohttp.ClientPayloadError(str(exc)))
