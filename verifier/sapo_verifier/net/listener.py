"""One listening socket, with limits that aiohttp does not have: connections, silence, slow readers."""

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from aiohttp import web
from aiohttp.http import HttpProcessingError

log = logging.getLogger(__name__)

_READ_LIMIT = 8190
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def _is_a_fault_of_ours(record: logging.LogRecord) -> bool:
    """aiohttp has a traceback for each request that is no HTTP, and strangers can send as many of those as they like: a
    log would be as long as they want."""
    return record.exc_info is None or not isinstance(record.exc_info[1], HttpProcessingError)


log.addFilter(_is_a_fault_of_ours)


@dataclass(frozen=True)
class Limits:
    """What strangers may hold: connections at once, seconds of silence, seconds for one request with its answer."""

    connections: int = 128
    idle: float = 15.0
    request: float = 60.0


class Listener:
    """Serves an aiohttp application on one address. More connections than allowed are closed at once."""

    def __init__(self, app: web.Application, limits: Limits) -> None:
        app.middlewares.insert(0, self._timed)
        self._limits = limits
        self._busy: set[object] = set()
        self._quiet_since: dict[object, float] = {}
        self._coming = 0  # let in, and not yet among aiohttp's: many may be accepted at one time
        self._runner = web.AppRunner(
            app,
            access_log=None,
            logger=log,
            handle_signals=False,
            shutdown_timeout=1.0,
            keepalive_timeout=limits.idle,
            max_line_size=_READ_LIMIT,
            max_field_size=_READ_LIMIT,
        )
        self._server: asyncio.Server | None = None
        self._sweeper: asyncio.Task[None] | None = None

    async def start(self, host: str, port: int) -> int:
        """Listens; returns the port (useful when 0 was asked for). Raises OSError if the address is taken."""
        await self._runner.setup()
        server, loop = self._runner.server, asyncio.get_running_loop()
        assert server is not None

        def connect() -> asyncio.BaseProtocol:
            if len(server.connections) + self._coming >= self._limits.connections:
                return _Refusal()
            self._coming += 1
            loop.call_soon(arrived)  # just before the connection is made, which is next
            return server()

        def arrived() -> None:
            self._coming -= 1

        self._server = await loop.create_server(connect, host, port, backlog=128)
        self._sweeper = asyncio.create_task(self._sweep(server))
        return int(self._server.sockets[0].getsockname()[1])

    async def stop(self) -> None:
        """Stops listening and closes what is open, within about a second."""
        if self._sweeper is not None:
            self._sweeper.cancel()
        if self._server is not None:
            self._server.close()
        await self._runner.cleanup()

    @web.middleware
    async def _timed(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Gives one request its time. A client that does not read its answer is cut off."""
        protocol = request.protocol
        self._busy.add(protocol)
        try:
            async with asyncio.timeout(self._limits.request):
                response = await handler(request)
                await send(request, response)
                return response
        except TimeoutError:
            if request.transport is not None:
                request.transport.abort()
            return web.Response(status=408)
        finally:
            self._busy.discard(protocol)
            self._quiet_since.pop(protocol, None)

    async def _sweep(self, server: web.Server) -> None:
        """Ends every connection without a running request that stays. aiohttp closes silent ones itself, but a close
        waits for ever for a client that does not read what it was sent, and holds its place meanwhile."""
        while True:
            await asyncio.sleep(min(1.0, self._limits.idle / 4))
            now = time.monotonic()
            present = {c for c in server.connections if c not in self._busy}
            self._quiet_since = {c: self._quiet_since.get(c, now) for c in present}
            for connection, since in self._quiet_since.items():
                transport = getattr(connection, "transport", None)
                if now - since > self._limits.idle and transport is not None:
                    transport.abort()


async def send(request: web.Request, response: web.StreamResponse) -> None:
    """Sends a response here and now, inside the request's time, instead of after its handler has returned."""
    if response.prepared:
        return
    transport = request.transport
    if isinstance(transport, asyncio.WriteTransport):
        transport.set_write_buffer_limits(high=0)  # a drain is over when the kernel has everything
    with contextlib.suppress(ConnectionError):
        await response.prepare(request)
        await response.write_eof()


class _Refusal(asyncio.Protocol):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        transport.abort()
