"""A proxy on loopback before a chain's RPC whose answers a test can replace: a provider that limits, lags or fails."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, TypeVar
from urllib.request import Request, urlopen

Proxy = TypeVar("Proxy", bound="FaultyRpc")
Fault = Callable[[str, Any], dict[str, Any] | None]  # method and params → the error to answer; None: none


@dataclass
class FaultyRpc:
    """`fault` is asked about every call, those of a batch one by one, and `cap` about every batch; both may be set anew
    at any time.
    """

    target: str
    fault: Fault
    status: int = 200  # HTTP's, of answers that hold an error of `fault`
    url: str = ""
    cap: Callable[[list[Any]], tuple[int, Any] | None] = lambda calls: None  # its calls → HTTP status and answer
    rewrite: Callable[[dict[str, Any]], None] = lambda call: None  # changes a call before it is passed on
    requests: int = 0

    def answer(self, body: bytes) -> tuple[int, bytes]:
        """HTTP status and body."""
        self.requests += 1
        request = json.loads(body)
        if isinstance(request, list) and (capped := self.cap(request)):
            return capped[0], json.dumps(capped[1]).encode()
        calls = request if isinstance(request, list) else [request]
        for call in calls:
            self.rewrite(call)
        body = json.dumps(request).encode()
        faults = {call["id"]: error for call in calls if (error := self.fault(call["method"], call["params"]))}
        if not faults:
            return 200, self._ask(body)
        others = [call for call in calls if call["id"] not in faults]
        answers = json.loads(self._ask(json.dumps(others).encode())) if others else []
        answers += [{"jsonrpc": "2.0", "id": id_, "error": error} for id_, error in faults.items()]
        return self.status, json.dumps(answers if isinstance(request, list) else answers[0]).encode()

    def _ask(self, body: bytes) -> bytes:
        forwarded = Request(self.target, body, {"Content-Type": "application/json"})  # noqa: S310 - loopback
        with urlopen(forwarded, timeout=10) as reply:  # noqa: S310
            return bytes(reply.read())


@contextmanager
def faulty_rpc(target: str, fault: Fault, *, status: int = 200) -> Iterator[FaultyRpc]:
    """A proxy before the RPC at `target`, a URL."""
    with serving(FaultyRpc(target, fault, status)) as proxy:
        yield proxy


@contextmanager
def serving(proxy: Proxy) -> Iterator[Proxy]:
    """Its `url` answers while the block lasts."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = 1 << 16  # headers and body in one segment, or each answer waits for a delayed acknowledgement

        def do_POST(self) -> None:
            code, data = proxy.answer(self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(code)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    proxy.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield proxy
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
