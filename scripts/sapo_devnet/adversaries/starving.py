"""A gateway that refuses one voter: the batch is honest, and whoever cannot look at it can only say void."""

import http.client
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from sapo_client.batches.publish import Batch
from sapo_client.state.settings import Settings
from sapo_devnet.adversaries.adversary import Adversary, HostileBatches
from sapo_devnet.adversaries.serving import name_endpoint
from sapo_verifier.cid import cid
from sapo_verifier.facts import BatchFacts
from sapo_verifier.ipfs import parse_endpoint

SECONDS = 10.0  # for the daemon behind it


class Server(ThreadingHTTPServer):
    """Between the voters and the node's own gateway. refused: the paths of which the next request gets nothing."""

    daemon_threads = True

    def __init__(self, gateway: str) -> None:
        """gateway: host and port of the daemon's."""
        super().__init__(("127.0.0.1", 0), Handler)
        self.gateway = gateway
        self.refused: set[str] = set()
        self._lock = threading.Lock()

    def refuses(self, path: str) -> bool:
        """Whether this is the request that gets nothing."""
        with self._lock:
            starved = next((name for name in self.refused if name in path), None)
            if starved is not None:
                self.refused.remove(starved)
            return starved is not None

    def handle_error(self, *_: object) -> None:
        """A client that hangs up is no trouble."""


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Server

    def do_GET(self) -> None:
        if self.server.refuses(self.path):
            self._answer(404, b"")
            return
        connection = http.client.HTTPConnection(self.server.gateway, timeout=SECONDS)
        try:
            connection.request("GET", self.path, headers={"Accept": self.headers.get("Accept", "*/*")})
            answer = connection.getresponse()
            self._answer(answer.status, answer.read())
        finally:
            connection.close()

    def _answer(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Not into the node's log."""


class Starver(Adversary):
    """Serves everybody but one voter of each batch. On loopback all voters have one address, so the one who is starved
    is whoever asks for the batch's manifest first: nobody else has a copy yet, and without it no other block has a
    name. What it hopes for is that one void sends the batch to stage 2, or costs the voter something."""

    _server: Server

    def prepare(self, home: Path) -> None:
        gateway = parse_endpoint(Settings.load(home).ipfs.gateway, allow_private=True)
        self._server = Server(gateway.host_header)
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        name_endpoint(home, self._server.server_port)

    def make(self, own: HostileBatches, facts: BatchFacts) -> Batch | None:
        batch = own.honest(facts)
        self._server.refused.add(cid(batch.facts.manifest))
        return batch
