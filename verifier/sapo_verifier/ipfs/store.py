"""The stores that the rest of the program uses: fetch a block by its digest, publish a block.

`BlockStore` is a node's: one daemon (ours or Kubo) and the peers' gateways. `GatewayReader` is an auditor's: gateways
only. Both hand out nothing that was not hashed here. Both may be used from several threads.
"""

import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any, Self

from sapo_verifier.cid import BLOCK_LIMIT, cid
from sapo_verifier.ipfs.credentials import Credentials
from sapo_verifier.ipfs.endpoints import Endpoint, parse_endpoint
from sapo_verifier.ipfs.errors import (
    BlockError,
    BlockTooLarge,
    BlockUnavailable,
    EndpointError,
    PeerTooSlow,
    PeerUnreachable,
    PrivateEndpointError,
    RefusedHere,
    StoreFailed,
)
from sapo_verifier.ipfs.gateway import fetch_block
from sapo_verifier.ipfs.kubo_client import RETRIES, KuboClient

_STRIKES = 2
"""So often may one endpoint be too slow within one `get_many`; then it is not asked again in it."""


class _Attempt:
    """What one `get` or `get_many` has left: time, and patience with slow endpoints."""

    def __init__(self, seconds: float) -> None:
        self.end = time.monotonic() + seconds
        self._strikes: dict[str, int] = {}

    def left(self, most: float) -> float:
        return min(most, self.end - time.monotonic())

    def strike(self, source: str) -> None:
        self._strikes[source] = self._strikes.get(source, 0) + 1

    def is_out(self, source: str) -> bool:
        return self._strikes.get(source, 0) >= _STRIKES


class GatewayReader:
    """Reads blocks from HTTP gateways: those given with each call, then `gateways` (multiaddrs) of the constructor.

    `timeout`: seconds for one source. `bytes_down` counts what peers delivered whole.
    """

    def __init__(
        self, gateways: Sequence[str] = (), *, allow_private: bool, timeout: float = 10.0, workers: int = 8
    ) -> None:
        self._gateways = tuple(gateways)
        self._allow_private = allow_private
        self._timeout = timeout
        self._lock = threading.Lock()
        self._pool = ThreadPoolExecutor(workers, thread_name_prefix="blocks")
        self.bytes_down = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends the worker threads and gives the connections back."""
        self._pool.shutdown(cancel_futures=True)

    def get(self, digest: bytes, *, limit: int = BLOCK_LIMIT, peers: Sequence[str] = ()) -> bytes:
        """The block with this 32-byte digest, of at most `limit` bytes.

        `peers`: multiaddrs of whoever may have it. Raises BlockUnavailable (nobody delivered it; reasons listed),
        BlockTooLarge, BlockCorrupt, and StoreFailed when this machine's own daemon is the trouble.
        """
        return self._get(digest, limit, peers, _Attempt(self._timeout * (len(peers) + len(self._gateways) + 2)))

    def get_many(
        self, wants: Sequence[tuple[bytes, int]], peers: Sequence[str] = (), *, deadline: float = 60.0
    ) -> dict[bytes, bytes | BlockError]:
        """All of `wants`, (digest, limit in bytes), some at a time, within `deadline` seconds in all.

        What could not be had is a BlockError in its place, never raised; a digest wanted twice has its smaller limit.
        """
        limits: dict[bytes, int] = {}
        for digest, limit in wants:
            limits[digest] = min(limit, limits.get(digest, limit))
        attempt = _Attempt(deadline)

        def one(digest: bytes, limit: int) -> bytes | BlockError:
            try:
                return self._get(digest, limit, peers, attempt)
            except BlockError as error:
                return error

        futures: dict[bytes, Future[bytes | BlockError]] = {
            digest: self._pool.submit(one, digest, limit) for digest, limit in limits.items()
        }
        wait(futures.values(), timeout=max(0.0, attempt.left(deadline)) + 1.0)
        results: dict[bytes, bytes | BlockError] = {}
        for digest, future in futures.items():
            future.cancel()
            results[digest] = (
                future.result()
                if future.done() and not future.cancelled()
                else BlockUnavailable(f"{cid(digest)}: not here when the {deadline:.0f} s for all blocks were over")
            )
        return results

    def _get(self, digest: bytes, limit: int, peers: Sequence[str], attempt: _Attempt) -> bytes:
        errors: list[BlockError] = []
        data = self._from_gateways(digest, limit, (*peers, *self._gateways), attempt, errors)
        if data is None:
            raise _verdict(digest, errors)
        return data

    def _from_gateways(
        self, digest: bytes, limit: int, peers: Sequence[str], attempt: _Attempt, errors: list[BlockError]
    ) -> bytes | None:
        """Asks one gateway after the other; None if none delivered, with one entry in `errors` for each."""
        for peer in dict.fromkeys(peers):
            try:
                endpoint = parse_endpoint(peer, allow_private=self._allow_private)
                if endpoint.scheme == "libp2p":
                    self._note_libp2p(endpoint, errors)
                    continue
                data = self._from_gateway(endpoint, digest, limit, attempt)
            except PrivateEndpointError as error:
                errors.append(RefusedHere(str(error)))
            except EndpointError as error:
                errors.append(BlockUnavailable(str(error)))
            except BlockError as error:
                errors.append(error)
            else:
                self._count_down(len(data))
                return data
        return None

    def _from_gateway(self, endpoint: Endpoint, digest: bytes, limit: int, attempt: _Attempt) -> bytes:
        for tried in range(RETRIES + 1):
            seconds = attempt.left(self._timeout)
            if attempt.is_out(endpoint.multiaddr) or seconds <= 0:
                raise PeerTooSlow(f"{endpoint.multiaddr}: not asked (any more), it was too slow or the time was over")
            try:
                return fetch_block(endpoint, digest, limit=limit, timeout=seconds)
            except PeerTooSlow:
                attempt.strike(endpoint.multiaddr)
                raise
            except PeerUnreachable:
                if tried == RETRIES:
                    attempt.strike(endpoint.multiaddr)
                    raise
                time.sleep(min(0.1 * (tried + 1), max(0.0, attempt.left(1.0))))
        raise AssertionError("the loop returns or raises")

    def _note_libp2p(self, endpoint: Endpoint, errors: list[BlockError]) -> None:
        errors.append(RefusedHere(f"{endpoint.multiaddr}: only Kubo can reach it, not this reader"))

    def _count_down(self, count: int) -> None:
        with self._lock:
            self.bytes_down += count


class BlockStore(GatewayReader):
    """A node's store: `api` is the multiaddr of the RPC of its own daemon, `sapo ipfs` or Kubo. `credentials`: if that
    asks for some.

    A block is looked for on the own disk, then at the given peers' gateways, then through the daemon's own network
    (peers that it is connected to; with Kubo, libp2p). What was fetched is stored and pinned.
    """

    def __init__(
        self,
        api: str,
        *,
        allow_private: bool,
        timeout: float = 10.0,
        workers: int = 8,
        credentials: Credentials | None = None,
    ) -> None:
        super().__init__(allow_private=allow_private, timeout=timeout, workers=workers)
        self._daemon = KuboClient(api, timeout=timeout, credentials=credentials)

    def close(self) -> None:
        super().close()
        self._daemon.close()

    def put(self, data: bytes) -> bytes:
        """Stores and pins a block; returns its digest. Raises BlockTooLarge above 1 MiB, StoreFailed."""
        return self._daemon.put(data)

    def unpin(self, digest: bytes) -> None:
        """Lets the daemon forget the block at its next collection; nothing happens if it is not pinned."""
        self._daemon.unpin(digest)

    def collect(self) -> int:
        """Deletes all blocks without a pin; returns how many there were."""
        return self._daemon.collect()

    def has(self, digest: bytes) -> bool:
        """Whether the own daemon holds the block, whole. Raises StoreFailed."""
        return self._daemon.holds(digest)

    def stat(self) -> Mapping[str, Any]:
        """The daemon's repo/stat: NumObjects, RepoSize; of `sapo ipfs` also GatewayBytesServed."""
        return self._daemon.stat()

    def connect(self, endpoint: str) -> None:
        """Has the daemon connect to a peer (multiaddr).

        Raises EndpointError if the endpoint is refused, StoreFailed if no connection comes about.
        """
        self._daemon.connect(parse_endpoint(endpoint, allow_private=self._allow_private))

    def _get(self, digest: bytes, limit: int, peers: Sequence[str], attempt: _Attempt) -> bytes:
        data = self._daemon.on_disk(digest, limit)
        if data is not None:
            return data
        errors: list[BlockError] = []
        data = self._from_gateways(digest, limit, peers, attempt, errors)
        if data is None:
            asked = len(errors)
            data = self._from_network(digest, limit, attempt, errors)
            if data is None:
                raise _verdict(digest, errors, asked)
        self._daemon.put(data)
        return data

    def _from_network(self, digest: bytes, limit: int, attempt: _Attempt, errors: list[BlockError]) -> bytes | None:
        """The daemon asks whomever it is connected to; None if nobody delivered, with one entry in `errors`."""
        source, seconds = self._daemon.api, attempt.left(self._timeout)
        if seconds <= 0 or attempt.is_out(source):
            errors.append(BlockUnavailable(f"{source}: its network was not asked, the time was over"))
            return None
        try:
            found = self._daemon.from_network(digest, limit, seconds)
        except (BlockUnavailable, BlockTooLarge) as error:
            if attempt.left(self._timeout) < seconds / 2:
                attempt.strike(source)
            errors.append(error)
            return None
        self._count_down(len(found))
        return found

    def _note_libp2p(self, endpoint: Endpoint, errors: list[BlockError]) -> None:
        """A libp2p peer cannot be asked for a block, only be connected to; `_from_network` then asks."""
        try:
            self._daemon.connect(endpoint)
        except (EndpointError, StoreFailed) as error:
            errors.append(BlockUnavailable(str(error)))


def _verdict(digest: bytes, errors: Sequence[BlockError], named: int | None = None) -> BlockError:
    """One error for all reasons. Its kind is that of the first `named` errors (what the peers asked by name did) if
    they agree, else BlockUnavailable; the others' "not here" says nothing against it."""
    reasons = "; ".join(str(error) for error in errors[:8]) or "nobody to ask: give endpoints of peers"
    kinds = {type(error) for error in errors[:named] or errors}
    kind = kinds.pop() if len(kinds) == 1 else BlockUnavailable
    return kind(f"block {cid(digest)} could not be fetched: {reasons}")
