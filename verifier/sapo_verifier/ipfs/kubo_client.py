"""The RPC of one's own daemon, `sapo ipfs` or Kubo: what a node has it do, and its failures in words.

This daemon is one's own, so its trouble (StoreFailed) is never a peer's. May be used from several threads.
"""

import io
import os
import re
import threading
import time
from collections.abc import Mapping
from typing import Any

from sapo_verifier.cid import BLOCK_LIMIT, block_digest, cid
from sapo_verifier.ipfs.answers import AnswerCheck, shown
from sapo_verifier.ipfs.credentials import Credentials
from sapo_verifier.ipfs.endpoints import Endpoint
from sapo_verifier.ipfs.errors import BlockTooLarge, BlockUnavailable, DaemonAway, StoreFailed

RETRIES = 2
"""More tries, after a failed connection only."""

_MISSING = "not find|not found"  # in Kubo's words for a block that is not on disk


class KuboClient:
    """`api`: the RPC's multiaddr. `timeout`: seconds for one command. `credentials`: if the RPC asks for some."""

    def __init__(self, api: str, *, timeout: float, credentials: Credentials | None = None) -> None:
        self.api = api
        self._timeout = timeout
        self._credentials = credentials
        self._check = AnswerCheck(api, credentials)
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
        key = self._check.document(self._command("block/put", options=options, upload=data) or b"", "Key")["Key"]
        if key != cid(digest):
            name = shown(str(key).encode())
            raise StoreFailed(f"{self.api}: stored {cid(digest)} under {name}; is this Kubo or `sapo ipfs`?")
        return digest

    def unpin(self, digest: bytes) -> None:
        """Lets the daemon forget the block at its next collection; nothing happens if it is not pinned."""
        self._command("pin/rm", cid(digest), but="not pinned")

    def collect(self) -> int:
        """Deletes all blocks without a pin; returns how many there were."""
        return len((self._command("repo/gc") or b"").splitlines())

    def stat(self) -> Mapping[str, Any]:
        """The daemon's repo/stat: NumObjects, RepoSize; of `sapo ipfs` also GatewayBytesServed."""
        return self._check.document(self._command("repo/stat") or b"", "NumObjects", "RepoSize")

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
                self._command("swarm/connect", target)
            except StoreFailed as error:
                failure = error
            else:
                return
        raise failure or StoreFailed(f"{endpoint.multiaddr}: no address to connect to")

    def holds(self, digest: bytes) -> bool:
        """Whether the block is on the daemon's disk; it is not sent. Raises StoreFailed."""
        answer = self._command("block/stat", cid(digest), options={"offline": "true"}, but=_MISSING)
        return answer is not None and self._check.document(answer, "Key", "Size")["Key"] == cid(digest)

    def on_disk(self, digest: bytes, limit: int) -> bytes | None:
        """The block if the daemon holds it. Raises BlockTooLarge above `limit` bytes, StoreFailed."""
        data = self._command("block/get", cid(digest), options={"offline": "true"}, but=_MISSING)
        return None if data is None else self._checked(digest, data, limit)

    def from_network(self, digest: bytes, limit: int, seconds: float) -> bytes:
        """The block from whomever the daemon is connected to.

        Raises BlockUnavailable with the daemon's words, BlockTooLarge above `limit` bytes, StoreFailed.
        """
        options = {"timeout": f"{max(1, int(seconds * 1000))}ms"}
        return self._checked(digest, self._ask("block/get", cid(digest), options=options, timeout=seconds + 1), limit)

    def _checked(self, digest: bytes, data: bytes, limit: int) -> bytes:
        if len(data) > limit:
            raise BlockTooLarge(f"{cid(digest)} has {len(data)} bytes, more than the {limit} allowed; refused")
        if block_digest(data) != digest:
            raise StoreFailed(
                f"{self.api}: the daemon gave bytes that are not {cid(digest)}, beginning with {shown(data)}; check "
                "its disk, and the address"
            )
        return data

    def _command(
        self,
        command: str,
        *arguments: str,
        options: Mapping[str, str] | None = None,
        upload: bytes | None = None,
        but: str = "",
    ) -> bytes | None:
        """What the own daemon answers; None if it is an error that has one of the words of `but`.

        Raises StoreFailed for every other failure.
        """
        try:
            return self._ask(command, *arguments, options=options, upload=upload)
        except BlockUnavailable as error:
            if but and re.search(but, str(error)):
                return None
            raise StoreFailed(f"{command} failed: {error}") from error

    def _ask(
        self,
        command: str,
        *arguments: str,
        options: Mapping[str, str] | None = None,
        upload: bytes | None = None,
        timeout: float | None = None,
    ) -> bytes:
        """Raises BlockUnavailable with the daemon's own words, DaemonAway if it cannot be talked to, and StoreFailed
        for what is no daemon's answer."""
        library, broken = _library(), _broken()
        for tried in range(RETRIES + 1):
            try:
                return self._exchange(command, arguments, options or {}, upload, timeout)
            except library.exceptions.ErrorResponse as error:
                raise BlockUnavailable(f"{self.api}: {str(error.args[0])[:1000]}") from error
            except (library.exceptions.ConnectionError, library.exceptions.ProtocolError, *broken) as error:
                if tried == RETRIES:
                    raise DaemonAway(
                        f"the IPFS daemon at {self.api} does not answer; is it running? "
                        "Start `sapo ipfs`, or give the address of its RPC"
                    ) from error
                time.sleep(0.1 * (tried + 1))
            except library.exceptions.TimeoutError as error:
                raise DaemonAway(f"the IPFS daemon at {self.api} did not answer in time; see its log") from error
            except library.exceptions.Error as error:
                raise StoreFailed(
                    f"{self.api} does not answer like an IPFS RPC ({error}); check the address"
                ) from error
        raise AssertionError("the loop returns or raises")

    def _exchange(
        self,
        command: str,
        arguments: tuple[str, ...],
        options: Mapping[str, str],
        upload: bytes | None,
        timeout: float | None,
    ) -> bytes:
        # The library's own methods assert what a daemon answers; its bytes are read here instead.
        data, headers = None, None
        if upload is not None:
            from ipfshttpclient.multipart import stream_files

            data, headers = stream_files(io.BytesIO(upload))
        http = self._client()._client
        with http.request(
            f"/{command}", arguments, opts=options, data=data, headers=headers, timeout=timeout, stream=True
        ) as chunks:
            return self._check.whole(chunks)

    def _client(self) -> Any:
        """This thread's client: ipfshttpclient's sessions are not for several threads."""
        client = getattr(self._thread, "client", None)
        if client is None:
            # Client, not connect(): connect() compares versions and warns (VersionMismatch) about every Kubo since
            # 0.9, although the commands used here have not changed.
            sign = self._credentials.sign if self._credentials else None
            client = _library().Client(self.api, timeout=self._timeout, auth=sign)
            properties = client._client._session_props
            # Requests would send the daemon's own traffic to a proxy of the environment, with passwords from ~/.netrc.
            properties["trust_env"] = False
            properties["hooks"] = {"response": [self._check.status]}
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


def _broken() -> tuple[type[Exception], ...]:
    """What `requests` raises where a connection breaks in the middle of an answer."""
    from requests.exceptions import ChunkedEncodingError, ConnectionError, ContentDecodingError

    return ChunkedEncodingError, ConnectionError, ContentDecodingError
