"""The RPC of one's own daemon, `sapo ipfs` or Kubo: what a node has it do, and its failures in words.

This daemon is one's own, so its trouble (StoreFailed) is never a peer's. May be used from several threads.
"""

import functools
import io
import os
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from sapo_verifier.cid import BLOCK_LIMIT, block_digest, cid
from sapo_verifier.ipfs.endpoints import Endpoint
from sapo_verifier.ipfs.errors import BlockTooLarge, BlockUnavailable, StoreFailed

RETRIES = 2
"""More tries, after a failed connection only."""


class KuboClient:
    """`api`: the RPC's multiaddr. `timeout`: seconds for one command."""

    def __init__(self, api: str, *, timeout: float) -> None:
        self.api = api
        self._timeout = timeout
        self._lock = threading.Lock()
        self._thread = threading.local()
        self._clients: list[Any] = []

    def close(self) -> None:
        """Closes the connections of all threads."""
        with self._lock:
            for client in self._clients:
                client.close()
            self._clients.clear()

    def put(self, data: bytes) -> bytes:
        """Stores and pins a block; returns its digest. Raises BlockTooLarge above 1 MiB, StoreFailed."""
        if len(data) > BLOCK_LIMIT:
            raise BlockTooLarge(f"a block has at most {BLOCK_LIMIT} bytes, this one has {len(data)}; cut it")
        digest = block_digest(data)
        options = {"cid-codec": "raw", "mhtype": "sha2-256", "pin": "true"}
        answer = self._command("block/put", lambda client: client.block.put(io.BytesIO(data), opts=options))
        if answer["Key"] != cid(digest):
            raise StoreFailed(f"{self.api}: stored {cid(digest)} under {answer['Key']!r}; is this Kubo or `sapo ipfs`?")
        return digest

    def unpin(self, digest: bytes) -> None:
        """Lets the daemon forget the block at its next collection; nothing happens if it is not pinned."""
        self._command("pin/rm", lambda client: client.pin.rm(cid(digest)), but="not pinned")

    def collect(self) -> int:
        """Deletes all blocks without a pin; returns how many there were."""
        return len(self._command("repo/gc", lambda client: client.repo.gc()) or [])

    def stat(self) -> Mapping[str, Any]:
        """The daemon's repo/stat: NumObjects, RepoSize; of `sapo ipfs` also GatewayBytesServed."""
        return dict(self._command("repo/stat", lambda client: client.repo.stat()).as_json())

    def connect(self, endpoint: Endpoint) -> None:
        """Has the daemon connect to a peer. Raises EndpointError if it is refused, StoreFailed if it does not work."""
        try:
            # Checked addresses in place of a name, since the daemon would look it up again.
            is_libp2p = endpoint.scheme == "libp2p"
            targets = endpoint.libp2p_addresses(self._timeout) if is_libp2p else [endpoint.multiaddr]
        except BlockUnavailable as error:
            raise StoreFailed(str(error)) from error
        failure: StoreFailed | None = None
        for target in targets:
            try:
                self._command("swarm/connect", functools.partial(_connect, target))
            except StoreFailed as error:
                failure = error
            else:
                return
        raise failure or StoreFailed(f"{endpoint.multiaddr}: no address to connect to")

    def on_disk(self, digest: bytes, limit: int) -> bytes | None:
        """The block if the daemon holds it. Raises BlockTooLarge above `limit` bytes, StoreFailed."""
        data = self._command(
            "block/get",
            lambda client: client.block.get(cid(digest), opts={"offline": "true"}),
            but="not find|not found",
        )
        return None if data is None else self._checked(digest, bytes(data), limit)

    def from_network(self, digest: bytes, limit: int, seconds: float) -> bytes:
        """The block from whomever the daemon is connected to.

        Raises BlockUnavailable with the daemon's words, BlockTooLarge above `limit` bytes, StoreFailed.
        """
        options = {"timeout": f"{max(1, int(seconds * 1000))}ms"}
        data = self._ask(lambda client: client.block.get(cid(digest), opts=options, timeout=seconds + 1.0))
        return self._checked(digest, bytes(data), limit)

    def _checked(self, digest: bytes, data: bytes, limit: int) -> bytes:
        if len(data) > limit:
            raise BlockTooLarge(f"{cid(digest)} has {len(data)} bytes, more than the {limit} allowed; refused")
        if block_digest(data) != digest:
            raise StoreFailed(f"{self.api}: the daemon gave bytes that are not {cid(digest)}; check its disk")
        return data

    def _command(self, what: str, call: Callable[[Any], Any], *, but: str = "") -> Any:
        """One command to the own daemon; None if it answers with an error that has one of the words of `but`.

        Raises StoreFailed for every other failure.
        """
        try:
            return self._ask(call)
        except BlockUnavailable as error:
            if but and any(words in str(error) for words in but.split("|")):
                return None
            raise StoreFailed(f"{what} failed: {error}") from error

    def _ask(self, call: Callable[[Any], Any]) -> Any:
        """Raises BlockUnavailable with the daemon's own words, StoreFailed if it cannot be talked to."""
        exceptions = _library().exceptions
        for tried in range(RETRIES + 1):
            try:
                return call(self._client())
            except exceptions.ErrorResponse as error:
                raise BlockUnavailable(f"{self.api}: {error.args[0]}") from error
            except (exceptions.ConnectionError, exceptions.ProtocolError) as error:
                if tried == RETRIES:
                    raise StoreFailed(
                        f"the IPFS daemon at {self.api} does not answer; is it running? "
                        "Start `sapo ipfs`, or give the address of its RPC"
                    ) from error
                time.sleep(0.1 * (tried + 1))
            except exceptions.TimeoutError as error:
                raise StoreFailed(f"the IPFS daemon at {self.api} did not answer in time; see its log") from error
            except exceptions.Error as error:
                raise StoreFailed(
                    f"{self.api} does not answer like an IPFS RPC ({error}); check the address"
                ) from error
        raise AssertionError("the loop returns or raises")

    def _client(self) -> Any:
        """This thread's client: ipfshttpclient's sessions are not for several threads."""
        client = getattr(self._thread, "client", None)
        if client is None:
            # Client, not connect(): connect() compares versions and warns (VersionMismatch) about every Kubo since
            # 0.9, although the commands used here have not changed.
            client = _library().Client(self.api, timeout=self._timeout)
            # Requests would send the daemon's own traffic to a proxy of the environment.
            client._client._session_props["trust_env"] = False
            client.__enter__()
            self._thread.client = client
            with self._lock:
                self._clients.append(client)
        return client


def _library() -> Any:
    """ipfshttpclient, imported late: most commands never need it."""
    # Its patch of `requests` (for Unix sockets) makes urllib3 2 warn on every connection; this is its own switch.
    os.environ.setdefault("PY_IPFS_HTTP_CLIENT_PATCH_REQUESTS", "no")
    import ipfshttpclient

    return ipfshttpclient


def _connect(target: str, client: Any) -> Any:
    # Not client.swarm.connect(): 0.8.0a2 sends every letter of the address as an argument of its own.
    return client._client.request("/swarm/connect", (target,), decoder="json")
