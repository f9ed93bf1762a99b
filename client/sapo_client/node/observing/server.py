"""The two pages of a running node, `/metrics` and `/healthz`, over plain HTTP; there is nothing else to be had."""

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus

from aiohttp import web

from sapo_verifier import net
from sapo_verifier.net.listener import Handler, Limits, Listener

log = logging.getLogger(__name__)

LIMITS = Limits(connections=4, idle=5.0, request=10.0)
SECONDS = 5.0  # to begin and to end


@dataclass(frozen=True)
class Page:
    """An answer."""

    body: bytes
    kind: str = "text/plain; charset=utf-8"
    status: HTTPStatus = HTTPStatus.OK


class Server:
    """Answers from `open` to `close`."""

    def __init__(self, host: str, port: int, pages: Mapping[str, Callable[[], Page]], limits: Limits = LIMITS) -> None:
        """port: 0 is any free one. pages: by path; each is called in a thread."""
        self._host, self._port = host, port
        self._pages = pages
        self._limits = limits
        self._listener: Listener | None = None

    @property
    def is_open(self) -> bool:
        return self._listener is not None

    @property
    def url(self) -> str:
        """Of the open server."""
        return f"http://[{self._host}]:{self._port}" if ":" in self._host else f"http://{self._host}:{self._port}"

    def open(self) -> None:
        """Raises OSError where the port is taken, or the host is none of this machine's."""
        app = web.Application(middlewares=[self._named], client_max_size=0)
        for path, make in self._pages.items():
            app.router.add_get(path, _handler(path, make))  # HEAD comes with it
        listener = Listener(app, self._limits)
        try:
            self._port = net.run(listener.start(self._host, self._port), SECONDS)
        except OSError:
            net.run(listener.stop(), SECONDS)
            raise
        self._listener = listener

    def close(self) -> None:
        if self._listener is not None:
            net.run(self._listener.stop(), SECONDS)
            self._listener = None

    @web.middleware
    async def _named(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        try:
            return await handler(request)
        except web.HTTPNotFound:
            return web.Response(status=404, text=f"here are {' and '.join(self._pages)}\n")


def _handler(path: str, make: Callable[[], Page]) -> Handler:
    async def answer(_: web.Request) -> web.StreamResponse:
        try:
            page = await asyncio.to_thread(make)
        except Exception:  # a page that breaks must say so in the log, and nothing to strangers
            log.exception("the page %s cannot be made", path)
            page = Page(b"the node's log says what went wrong\n", status=HTTPStatus.INTERNAL_SERVER_ERROR)
        headers = {"Content-Type": page.kind, "Cache-Control": "no-store"}
        return web.Response(body=page.body, status=page.status, headers=headers)

    return answer
