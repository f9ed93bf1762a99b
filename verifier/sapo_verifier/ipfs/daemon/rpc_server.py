"""The part of Kubo's RPC (/api/v0) that the client uses, over the repository on disk.

Kubo RPC reference: POST only; errors are status 500 with {"Message", "Code", "Type"}; requests that carry a browser's
marks are refused, since any web page could send them. Answers have Kubo's shapes, so that either can stand behind.
"""

import asyncio
import json
import re
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from aiohttp import BodyPartReader, web
from aiohttp.http_exceptions import HttpProcessingError

from sapo_verifier import __version__
from sapo_verifier.cid import BLOCK_LIMIT, cid, digest_of
from sapo_verifier.errors import SapoError
from sapo_verifier.ipfs.daemon.gateway_server import GatewayServer
from sapo_verifier.ipfs.daemon.peers import Peers
from sapo_verifier.ipfs.daemon.repo import BlockRepo
from sapo_verifier.ipfs.errors import BlockTooLarge, BlockUnavailable, RepoError

_MULTIPART_OVERHEAD = 64 * 1024
_MAX_ARGUMENTS = 1024
_DURATION = re.compile(r"(\d{1,6}(?:\.\d{1,6})?)(ms|s|m)")
T = TypeVar("T")
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class RpcServer:
    """Handlers of /api/v0. `gateway_address` is told to those who ask for `id`."""

    def __init__(self, repo: BlockRepo, peers: Peers, gateway: GatewayServer) -> None:
        self._repo = repo
        self._peers = peers
        self._gateway = gateway
        # Threads of their own: slow peers must not keep the disk's threads from serving and storing.
        self._fetchers = ThreadPoolExecutor(8, thread_name_prefix="fetch")
        self._started = time.time()
        self.gateway_address = ""

    def app(self) -> web.Application:
        app = web.Application(client_max_size=BLOCK_LIMIT + _MULTIPART_OVERHEAD, middlewares=[self._guard])
        commands: dict[str, Handler] = {
            "version": self._version,
            "id": self._id,
            "block/put": self._block_put,
            "block/get": self._block_get,
            "block/stat": self._block_stat,
            "block/rm": self._block_rm,
            "pin/add": self._pin_add,
            "pin/ls": self._pin_ls,
            "pin/rm": self._pin_rm,
            "repo/stat": self._repo_stat,
            "repo/gc": self._repo_gc,
            "swarm/connect": self._swarm_connect,
            "swarm/disconnect": self._swarm_disconnect,
            "swarm/peers": self._swarm_peers,
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

    async def _version(self, request: web.Request) -> web.Response:
        return _json({"Version": f"{__version__}-sapo", "Commit": "", "Repo": "1", "System": "", "Golang": ""})

    async def _id(self, request: web.Request) -> web.Response:
        addresses = [self.gateway_address] if self.gateway_address else []
        agent = f"sapo/{__version__}"
        return _json({"ID": "", "PublicKey": "", "Addresses": addresses, "AgentVersion": agent, "Protocols": []})

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
        data = await self._find(request, _arguments(request, 1)[0])
        return web.Response(body=data, content_type="application/octet-stream")

    async def _block_stat(self, request: web.Request) -> web.Response:
        digest = _arguments(request, 1)[0]
        return _json({"Key": cid(digest), "Size": len(await self._find(request, digest))})

    async def _block_rm(self, request: web.Request) -> web.Response:
        answers = []
        for digest in _arguments(request):
            answer = {"Hash": cid(digest), "Error": ""}
            try:
                if not await asyncio.to_thread(self._repo.delete, digest):
                    answer["Error"] = f"ipld: could not find {cid(digest)}"
            except RepoError as error:
                answer["Error"] = str(error)
            answers.append(answer)
        return _json(*answers)

    async def _pin_add(self, request: web.Request) -> web.Response:
        digests = _arguments(request)
        for digest in digests:
            data = await self._find(request, digest)
            # Stored again rather than looked for again: it may have been collected in between.
            await asyncio.to_thread(self._repo.put, data, pin=True)
        return _json({"Pins": [cid(d) for d in digests]})

    async def _pin_ls(self, request: web.Request) -> web.Response:
        pins = self._repo.pins()
        asked = _arguments(request, least=0)
        for digest in asked:
            if digest not in pins:
                raise RepoError(f"path '/ipfs/{cid(digest)}' is not pinned")
        shown = asked or sorted(pins)
        if request.query.get("type", "all") not in ("all", "recursive"):
            shown = []
        return _json({"Keys": {cid(d): {"Type": "recursive", "Name": ""} for d in shown}})

    async def _pin_rm(self, request: web.Request) -> web.Response:
        digests = _arguments(request)
        for digest in digests:
            if not await asyncio.to_thread(self._repo.unpin, digest):
                raise RepoError(f"{cid(digest)}: not pinned or pinned indirectly")
        return _json({"Pins": [cid(d) for d in digests]})

    async def _repo_stat(self, request: web.Request) -> web.Response:
        count, size = self._repo.totals()
        return _json(
            {
                "RepoSize": size,
                "StorageMax": 0,
                "NumObjects": count,
                "RepoPath": str(self._repo.path),
                "Version": "sapo-repo@1",
                "NumPins": len(self._repo.pins()),
                "GatewayBlocksServed": self._gateway.blocks_served,
                "GatewayBytesServed": self._gateway.bytes_served,
                "PeerBytesFetched": self._peers.bytes_fetched,
                "UptimeSeconds": int(time.time() - self._started),
            }
        )

    async def _repo_gc(self, request: web.Request) -> web.Response:
        return _json(*[{"Key": {"/": cid(d)}} for d in await asyncio.to_thread(self._repo.collect)])

    async def _swarm_connect(self, request: web.Request) -> web.Response:
        address = _text_arguments(request, 1)[0]
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

    async def _swarm_disconnect(self, request: web.Request) -> web.Response:
        address = _text_arguments(request, 1)[0]
        if not self._peers.remove(address):
            raise RepoError(f"disconnect {address} failure: not connected")
        return _json({"Strings": [f"disconnect {address} success"]})

    async def _swarm_peers(self, request: web.Request) -> web.Response:
        return _json({"Peers": [{"Addr": p.multiaddr, "Peer": ""} for p in self._peers.known()]})

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


def _text_arguments(request: web.Request, count: int | None = None, least: int = 1) -> list[str]:
    texts = request.query.getall("arg", [])
    if len(texts) < least or len(texts) > (count or _MAX_ARGUMENTS):
        raise RepoError(f"{request.path}: expected {count or f'at least {least}'} `arg`, got {len(texts)}")
    return texts


def _arguments(request: web.Request, count: int | None = None, least: int = 1) -> list[bytes]:
    """The digests of `arg`; `/ipfs/<cid>` is the same as `<cid>`."""
    return [digest_of(text.removeprefix("/ipfs/")) for text in _text_arguments(request, count, least)]


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
