"""The part of Kubo's RPC (/api/v0) that the client uses, over the repository on disk.

Kubo RPC reference: POST only; errors are status 500 with {"Message", "Code", "Type"}; requests that carry a browser's
marks are refused, since any web page could send them. Answers have Kubo's shapes, so that either can stand behind.
"""

import asyncio
import json
import re
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from aiohttp import BodyPartReader, web
from aiohttp.http_exceptions import HttpProcessingError

from sapo_verifier.cid import BLOCK_LIMIT, cid, digest_of
from sapo_verifier.errors import SapoError
from sapo_verifier.ipfs.daemon.gateway_server import GatewayServer
from sapo_verifier.ipfs.daemon.peers import Peers
from sapo_verifier.ipfs.daemon.repo import BlockRepo
from sapo_verifier.ipfs.errors import BlockTooLarge, BlockUnavailable, RepoError

_MULTIPART_OVERHEAD = 64 * 1024
_DURATION = re.compile(r"(\d{1,6}(?:\.\d{1,6})?)(ms|s|m)")
T = TypeVar("T")
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class RpcServer:
    """Handlers of /api/v0: what a node needs of its daemon, and nothing more."""

    def __init__(self, repo: BlockRepo, peers: Peers, gateway: GatewayServer) -> None:
        self._repo = repo
        self._peers = peers
        self._gateway = gateway
        # Threads of their own: slow peers must not keep the disk's threads from serving and storing.
        self._fetchers = ThreadPoolExecutor(8, thread_name_prefix="fetch")

    def app(self) -> web.Application:
        app = web.Application(client_max_size=BLOCK_LIMIT + _MULTIPART_OVERHEAD, middlewares=[self._guard])
        commands: dict[str, Handler] = {
            "block/put": self._block_put,
            "block/get": self._block_get,
            "block/stat": self._block_stat,
            "pin/rm": self._pin_rm,
            "repo/stat": self._repo_stat,
            "repo/gc": self._repo_gc,
            "swarm/connect": self._swarm_connect,
        }
        for name, handler in commands.items():
            app.router.add_route("*", f"/api/v0/{name}", handler)
        return app

    @web.middleware
    async def _guard(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        browser = request.headers.get("User-Agent", "").startswith("Mozilla")
        if browser or "Origin" in request.headers or "Referer" in request.headers:
            return web.Response(status=403, text="403 - Forbidden: the RPC is not for web pages\n")
        if request.method != "POST":
            return web.Response(
                status=405, text="405 - Method Not Allowed: the RPC is POST only\n", headers={"Allow": "POST"}
            )
        try:
            return await handler(request)
        except SapoError as error:
            return _error(str(error))
        except OSError as error:
            return _error(f"disk or network failed: {error}")

    async def _block_put(self, request: web.Request) -> web.Response:
        for option, allowed in (
            ("cid-codec", ("raw",)),
            ("format", ("raw",)),
            ("mhtype", ("sha2-256",)),
            ("mhlen", ("-1", "32")),
        ):
            value = request.query.get(option, allowed[0])
            if value not in allowed:
                raise RepoError(f"block/put: {option}={value!r} is not supported here, only {' or '.join(allowed)}")
        data = await _uploaded(request)
        digest = await asyncio.to_thread(self._repo.put, data, pin=_flag(request, "pin"))
        return _json({"Key": cid(digest), "Size": len(data)})

    async def _block_get(self, request: web.Request) -> web.Response:
        data = await self._find(request, _digest(request))
        return web.Response(body=data, content_type="application/octet-stream")

    async def _block_stat(self, request: web.Request) -> web.Response:
        digest = _digest(request)
        return _json({"Key": cid(digest), "Size": len(await self._find(request, digest))})

    async def _pin_rm(self, request: web.Request) -> web.Response:
        digest = _digest(request)
        if not await asyncio.to_thread(self._repo.unpin, digest):
            raise RepoError(f"{cid(digest)}: not pinned or pinned indirectly")
        return _json({"Pins": [cid(digest)]})

    async def _repo_stat(self, request: web.Request) -> web.Response:
        count, size = self._repo.totals()
        return _json(
            {
                "RepoSize": size,
                "StorageMax": 0,
                "NumObjects": count,
                "RepoPath": str(self._repo.path),
                "Version": "sapo-repo@1",
                "GatewayBytesServed": self._gateway.bytes_served,
            }
        )

    async def _repo_gc(self, request: web.Request) -> web.Response:
        return _json(*[{"Key": {"/": cid(d)}} for d in await asyncio.to_thread(self._repo.collect)])

    async def _swarm_connect(self, request: web.Request) -> web.Response:
        address = _argument(request)
        was_known = any(peer.multiaddr == address for peer in self._peers.known())
        endpoint = self._peers.add(address)
        try:
            addresses = await self._in_fetcher(endpoint.addresses, 5.0)
            async with asyncio.timeout(5.0):
                _, writer = await asyncio.open_connection(str(addresses[0]), endpoint.port)
        except (OSError, SapoError) as error:  # asyncio's TimeoutError is an OSError
            if not was_known:
                self._peers.remove(address)
            raise BlockUnavailable(f"connect {address} failure: {error or 'no answer within 5 s'}") from error
        writer.close()
        return _json({"Strings": [f"connect {address} success"]})

    async def _in_fetcher(self, function: Callable[..., T], *arguments: object) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._fetchers, function, *arguments)

    def close(self) -> None:
        """Drops the fetches that wait for a thread."""
        self._fetchers.shutdown(wait=False, cancel_futures=True)

    async def _find(self, request: web.Request, digest: bytes) -> bytes:
        """The block from disk, else (unless offline=true) from the peers, and stored. Raises BlockUnavailable."""
        data = await asyncio.to_thread(self._repo.get, digest)
        if data is not None:
            return data
        if _flag(request, "offline"):
            raise BlockUnavailable(f"block was not found locally (offline): ipld: could not find {cid(digest)}")
        data = await self._in_fetcher(self._peers.fetch, digest, _duration(request))
        await asyncio.to_thread(self._repo.put, data)
        return data


async def _uploaded(request: web.Request) -> bytes:
    """The one file of a multipart body, at most 1 MiB. Raises BlockTooLarge, RepoError."""
    if (request.content_length or 0) > BLOCK_LIMIT + _MULTIPART_OVERHEAD:
        raise BlockTooLarge(f"a block has at most {BLOCK_LIMIT} bytes; cut it into several")
    if not request.content_type.startswith("multipart/"):
        raise RepoError("block/put: file argument 'data' is required, as multipart/form-data")
    try:
        reader = await request.multipart()
        part = await reader.next()
        if not isinstance(part, BodyPartReader):
            raise RepoError("block/put: file argument 'data' is required, as multipart/form-data")
        body = bytearray()
        while chunk := await part.read_chunk(64 * 1024):
            body += chunk
            if len(body) > BLOCK_LIMIT:
                raise BlockTooLarge(f"a block has at most {BLOCK_LIMIT} bytes; cut it into several")
        if await reader.next() is not None:
            raise RepoError("block/put: one file at a time")
    except (ValueError, RuntimeError, HttpProcessingError) as error:  # what aiohttp raises on a malformed body
        raise RepoError(f"block/put: malformed multipart body: {error}") from error
    return bytes(body)


def _argument(request: web.Request) -> str:
    texts = request.query.getall("arg", [])
    if len(texts) != 1:
        raise RepoError(f"{request.path}: expected 1 `arg`, got {len(texts)}")
    return texts[0]


def _digest(request: web.Request) -> bytes:
    """The digest of `arg`; `/ipfs/<cid>` is the same as `<cid>`."""
    return digest_of(_argument(request).removeprefix("/ipfs/"))


def _flag(request: web.Request, name: str) -> bool:
    return request.query.get(name, "false").lower() in ("true", "1", "")


def _duration(request: web.Request) -> float | None:
    """Kubo's global `timeout` option in Go's notation (`10s`, `500ms`), in seconds."""
    match = _DURATION.fullmatch(request.query.get("timeout", ""))
    return float(match[1]) * {"ms": 0.001, "s": 1.0, "m": 60.0}[match[2]] if match else None


def _json(*objects: object) -> web.Response:
    """Kubo sends several answers as one JSON text a line."""
    return web.Response(text="".join(json.dumps(o) + "\n" for o in objects), content_type="application/json")


def _error(message: str) -> web.Response:
    return web.Response(
        status=500,
        text=json.dumps({"Message": message, "Code": 0, "Type": "error"}) + "\n",
        content_type="application/json",
    )
