"""HTTP to a chain's RPC, with everything bounded: time in all, bytes, no redirects, nothing compressed.

`requests` counts its time-outs from the last byte, reads bodies without end, unpacks what is compressed, and follows
redirects; an RPC that is hostile or broken could so hold a node for ever, or take its memory.
"""

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator
from http.client import HTTPException
from typing import Any

import requests
from requests.adapters import HTTPAdapter
from urllib3 import HTTPConnectionPool, HTTPSConnectionPool
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.exceptions import HTTPError
from web3._utils.http_session_manager import HTTPSessionManager
from web3.exceptions import BadResponseFormat

MAX_ANSWER_BYTES = 8 << 20  # parsed JSON takes about thirty times as much; logs are asked for in chunks
_CHUNK = 1 << 16


class AnswerTooLarge(requests.RequestException):
    """The answer is longer than MAX_ANSWER_BYTES."""


class BoundedSessions(HTTPSessionManager):
    """What web3's HTTPProvider sends through. One session; not for several threads at once."""

    def __init__(self) -> None:
        self._twins = _Twins()
        self._session = requests.Session()
        for scheme in ("http://", "https://"):
            self._session.mount(scheme, _Adapter(self._twins))
        super().__init__(explicit_session=self._session)

    def make_post_request(self, endpoint_uri: Any, data: Any, **kwargs: Any) -> bytes:
        """The body of the answer. `timeout` is the time in all, in seconds.

        Raises requests' exceptions: HTTPError for every status but 2xx, Timeout, AnswerTooLarge, and others; and
        BadResponseFormat for an answer that is compressed although nobody asked for it.
        """
        seconds = kwargs.pop("timeout")
        headers = {**kwargs.pop("headers", {}), "Accept-Encoding": "identity"}
        with self._twins.cut_after(seconds) as was_cut:
            try:
                body = self._post(endpoint_uri, data, headers, seconds)
            except requests.RequestException as error:
                if was_cut():
                    raise requests.Timeout(f"no whole answer within {seconds} s") from error
                raise
            # What requests lets through of urllib3 and http.client, such as ValueError for a negative length.
            except (ValueError, HTTPError, HTTPException, OSError) as error:
                raise requests.ConnectionError(f"malformed HTTP: {error}") from error
            if was_cut():  # a body without a length ends quietly with its connection
                raise requests.Timeout(f"no whole answer within {seconds} s")
        return body

    def close(self) -> None:
        self._session.close()
        self._twins.close()
        self.session_pool.shutdown(wait=False)

    def _post(self, url: str, data: Any, headers: dict[str, str], seconds: float) -> bytes:
        with self._session.post(
            url, data=data, headers=headers, timeout=seconds, stream=True, allow_redirects=False
        ) as response:
            if not 200 <= response.status_code < 300:
                raise requests.HTTPError(f"status {response.status_code}", response=response)
            if response.headers.get("Content-Encoding", "identity").strip().lower() not in ("", "identity"):
                raise BadResponseFormat("the answer is compressed")
            body = bytearray()
            for chunk in response.iter_content(_CHUNK):
                body += chunk
                if len(body) > MAX_ANSWER_BYTES:
                    raise AnswerTooLarge(f"more than {MAX_ANSWER_BYTES} bytes")
            return bytes(body)


class _Twins:
    """A second descriptor of every open connection: it can be cut from outside, whatever TLS did to the first."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._by_connection: dict[HTTPConnection, socket.socket] = {}

    def keep(self, connection: HTTPConnection, sock: socket.socket) -> None:
        with self._lock:
            older = self._by_connection.pop(connection, None)
            self._by_connection[connection] = sock.dup()
        if older is not None:
            older.close()

    @contextlib.contextmanager
    def cut_after(self, seconds: float) -> Iterator[Callable[[], bool]]:
        """Ends all exchanges then, unless the block is left before. Gives a function that says whether it did."""
        fired, over = threading.Event(), False

        def cut() -> None:
            with self._lock:
                if over:
                    return
                fired.set()
                for twin in self._by_connection.values():
                    with contextlib.suppress(OSError):  # the peer was faster
                        twin.shutdown(socket.SHUT_RDWR)

        timer = threading.Timer(seconds, cut)
        timer.daemon = True
        timer.start()
        try:
            yield fired.is_set
        finally:
            with self._lock:
                over = True
            timer.cancel()
            self._drop_closed()

    def close(self) -> None:
        with self._lock:
            for twin in self._by_connection.values():
                twin.close()
            self._by_connection.clear()

    def _drop_closed(self) -> None:
        with self._lock:
            for connection in [each for each in self._by_connection if each.sock is None]:
                self._by_connection.pop(connection).close()


class _Adapter(HTTPAdapter):
    """requests over connections that `twins` knows."""

    def __init__(self, twins: _Twins) -> None:
        class Plain(HTTPConnection):
            def _new_conn(self) -> socket.socket:
                made = super()._new_conn()
                twins.keep(self, made)
                return made

        class Tls(HTTPSConnection):
            def _new_conn(self) -> socket.socket:
                made = super()._new_conn()
                twins.keep(self, made)
                return made

        class PlainPool(HTTPConnectionPool):
            ConnectionCls = Plain

        class TlsPool(HTTPSConnectionPool):
            ConnectionCls = Tls

        self._pools = {"http": PlainPool, "https": TlsPool}
        super().__init__()

    def init_poolmanager(self, *args: Any, **kwargs: Any) -> None:
        super().init_poolmanager(*args, **kwargs)
        self.poolmanager.pool_classes_by_scheme = self._pools

    def proxy_manager_for(self, proxy: Any, **kwargs: Any) -> Any:
        made = super().proxy_manager_for(proxy, **kwargs)
        made.pool_classes_by_scheme = self._pools
        return made
