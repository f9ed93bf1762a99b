"""Fetches one block from a trustless gateway over HTTP, from a server that may be hostile.

IPFS Trustless Gateway specification: `GET /ipfs/<cid>?format=raw`, `Accept: application/vnd.ipld.raw`. Bytes and time
are bounded before anything is believed (`net`), and the digest is the only proof of the content.
"""

import time

from sapo_verifier import net
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


def fetch_block(endpoint: Endpoint, digest: bytes, *, limit: int = BLOCK_LIMIT, timeout: float = 10.0) -> bytes:
    """The block with this digest, at most `limit` bytes, within `timeout` seconds in all.

    Raises PeerUnreachable, PeerTooSlow or BlockUnavailable (no block), BlockTooLarge, BlockCorrupt, and EndpointError
    when the endpoint's name stands for a refused address. Memory stays near `limit`, whatever the server sends.
    """
    where, name = endpoint.multiaddr, cid(digest)
    if endpoint.scheme not in ("http", "https"):
        raise EndpointError(f"{where} is no HTTP gateway; only Kubo can reach it")
    try:
        answer = net.run(_exchange(endpoint, name, limit, timeout), timeout)
    except net.TooSlow as error:
        raise PeerTooSlow(
            f"{where}: did not deliver {name} within {timeout:.1f} s; try again, or ask other peers"
        ) from error
    except net.TooLarge as error:
        if error.declared is None:
            raise BlockTooLarge(f"{where}: {name} is longer than the {limit} bytes allowed; refused") from error
        raise BlockTooLarge(
            f"{where}: {name} has {error.declared} bytes, more than the {limit} allowed; refused"
        ) from error
    except net.Compressed as error:
        raise BlockUnavailable(
            f"{where}: compressed {name} ({_short(error.encoding)}) although not asked to; refused"
        ) from error
    except net.HeadersTooLong as error:
        raise BlockUnavailable(f"{where}: refused, its answer's {error}; is this an IPFS gateway?") from error
    except net.NetError as error:
        raise PeerUnreachable(
            f"{where}: connection failed for {name} ({_short(error)}); is the node running and reachable?"
        ) from error
    _check_status(where, name, answer)
    if block_digest(answer.body) != digest:
        raise BlockCorrupt(
            f"{where}: sent {len(answer.body)} bytes that are not {name}; ask other peers, or report this node"
        )
    return answer.body


async def _exchange(endpoint: Endpoint, name: str, limit: int, timeout: float) -> net.Answer:
    end = time.monotonic() + timeout
    addresses = await endpoint.find(timeout)
    request = net.Request(
        "GET",
        f"{endpoint.scheme}://{endpoint.host_header}/ipfs/{name}?format=raw",
        limit,
        end - time.monotonic(),
        headers={"Accept": RAW},
        statuses=range(200, 201),
    )
    return await net.once(request, addresses, endpoint.host)


def _check_status(where: str, name: str, answer: net.Answer) -> None:
    if 300 <= answer.status < 400:
        target = _short(answer.location or "?")
        raise BlockUnavailable(f"{where}: answered with a redirect to {target}, which is refused")
    if answer.status in (404, 410):
        raise BlockUnavailable(f"{where}: does not have {name}")
    if answer.status != 200:
        raise BlockUnavailable(f"{where}: answered {answer.status} for {name}; is this a trustless gateway?")


def _short(thing: object) -> str:
    """A stranger's text, made harmless for a terminal and a report."""
    return ascii(str(thing))[:160]
