"""The other gateways that the embedded daemon asks when a block is not on its disk."""

import threading
import time

from sapo_verifier.cid import BLOCK_LIMIT, cid
from sapo_verifier.errors import SapoError
from sapo_verifier.ipfs.endpoints import Endpoint, parse_endpoint
from sapo_verifier.ipfs.errors import BlockUnavailable, EndpointError
from sapo_verifier.ipfs.gateway import fetch_block

MAX_PEERS = 64


class Peers:
    """Connected peers, the one that helped last first."""

    def __init__(self, *, allow_private: bool, timeout: float) -> None:
        self._allow_private = allow_private
        self._timeout = timeout
        self._lock = threading.Lock()
        self._endpoints: dict[str, Endpoint] = {}
        self._closed = False

    def close(self) -> None:
        """Starts no more fetches; those that run are for `net.abort_all` to end."""
        self._closed = True

    def add(self, multiaddr: str) -> Endpoint:
        """Remembers a peer. Raises EndpointError if it is refused, speaks libp2p, or there are too many."""
        endpoint = parse_endpoint(multiaddr, allow_private=self._allow_private)
        if endpoint.scheme == "libp2p":
            raise EndpointError(f"{multiaddr}: this daemon speaks HTTP only; use Kubo to reach libp2p peers")
        with self._lock:
            if multiaddr not in self._endpoints and len(self._endpoints) >= MAX_PEERS:
                raise EndpointError(
                    f"already {MAX_PEERS} peers, the most that are kept; start the daemon again to forget them"
                )
            self._endpoints[multiaddr] = endpoint
        return endpoint

    def remove(self, multiaddr: str) -> None:
        """Forgets a peer, if it is known."""
        with self._lock:
            self._endpoints.pop(multiaddr, None)

    def known(self) -> tuple[Endpoint, ...]:
        """All peers, in the order in which they would be asked."""
        with self._lock:
            return tuple(self._endpoints.values())

    def fetch(self, digest: bytes, timeout: float | None = None) -> bytes:
        """Asks the peers in turn, within one total time; each gets its share of what is left.

        Raises BlockUnavailable with everybody's reason.
        """
        end = time.monotonic() + min(timeout or self._timeout, self._timeout)
        reasons: list[str] = []
        endpoints = self.known()
        for position, endpoint in enumerate(endpoints):
            share = (end - time.monotonic()) / (len(endpoints) - position)
            if share <= 0 or self._closed:
                break
            try:
                data = fetch_block(endpoint, digest, limit=BLOCK_LIMIT, timeout=max(share, 0.1))
            except SapoError as error:
                reasons.append(str(error))
                continue
            with self._lock:
                if self._endpoints.pop(endpoint.multiaddr, None) is not None:
                    self._endpoints = {endpoint.multiaddr: endpoint, **self._endpoints}
            return data
        detail = "; ".join(reasons[:8]) or "no peers are connected"
        raise BlockUnavailable(f"ipld: could not find {cid(digest)} ({detail})")
