"""The trustless gateway of the embedded daemon: raw blocks over GET and HEAD, to anybody.

IPFS Trustless Gateway specification, raw blocks only. It gives what is on disk and never asks a peer: otherwise
strangers could make this machine fetch what they like.
"""

import asyncio

from aiohttp import web

from sapo_verifier.cid import digest_of
from sapo_verifier.errors import ObjectError
from sapo_verifier.ipfs.daemon.repo import BlockRepo

RAW = "application/vnd.ipld.raw"
_BASE_HEADERS = {"X-Content-Type-Options": "nosniff", "Access-Control-Allow-Origin": "*"}
AT_A_TIME = 32  # blocks that are read and served


class GatewayServer:
    """The handlers, and what they have served since the start: `bytes_served`."""

    def __init__(self, repo: BlockRepo) -> None:
        self._repo = repo
        self._turns = asyncio.Semaphore(AT_A_TIME)
        self.bytes_served = 0

    def app(self) -> web.Application:
        app = web.Application(client_max_size=0)
        app.router.add_get("/ipfs/{cid}", self._block)  # HEAD comes with it
        return app

    async def _block(self, request: web.Request) -> web.StreamResponse:
        text = request.match_info["cid"]
        if not _wants_raw(request):
            return _error(406, f"this gateway serves raw blocks only: add ?format=raw or Accept: {RAW}")
        try:
            digest = digest_of(text)
        except ObjectError as error:
            return _error(400, str(error))
        etag = f'"{text}.raw"'
        async with self._turns:  # each turn reads and hashes up to 1 MiB
            data = await asyncio.to_thread(self._repo.get, digest)
        if data is None:
            return _error(404, f"block {text} is not here")
        headers = {
            **_BASE_HEADERS,
            "Cache-Control": "public, max-age=29030400, immutable",
            "Etag": etag,
            "X-Ipfs-Path": f"/ipfs/{text}",
            "Content-Disposition": f'attachment; filename="{text}.bin"',
        }
        if request.headers.get("If-None-Match") == etag:
            return web.Response(status=304, headers=headers)
        if request.method == "GET":
            self.bytes_served += len(data)
        return web.Response(body=data, content_type=RAW, headers=headers)


def _wants_raw(request: web.Request) -> bool:
    wanted = request.query.get("format")
    if wanted is not None:
        return wanted == "raw"
    kinds = request.headers.get("Accept", "").split(",")
    return any(kind.split(";")[0].strip().lower() == RAW for kind in kinds)


def _error(status: int, text: str) -> web.Response:
    return web.Response(status=status, text=text + "\n", headers=_BASE_HEADERS)
