"""A drand of the devnet's own: one key that everybody knows, and a relay that signs by the chain's time, not by ours.

For tests only: whoever knows the key knows every beacon beforehand.
"""

import json
import re
import threading
from collections.abc import Callable
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, HTTPServer

from py_ecc.bls.hash_to_curve import hash_to_G1
from py_ecc.bls.point_compression import compress_G1, compress_G2
from py_ecc.optimized_bls12_381.optimized_curve import G2, multiply

from sapo_verifier.chain.reader import ChainReader
from sapo_verifier.drand import Drand

KEY = int.from_bytes(sha256(b"the devnet's drand").digest()) >> 2
DOMAIN = b"BLS_SIG_BLS12381G1_XMD:SHA-256_SSWU_RO_NUL_"
RULES = Drand(
    chain_hash=sha256(b"the devnet's drand: its chain").digest(),
    key=b"".join(half.to_bytes(48) for half in compress_G2(multiply(G2, KEY))),
    genesis=1_600_000_000,
    period=3,
    margin=36,
)
BLOCK_SECONDS = 12  # that the devnet's chain says to be between its blocks, however fast they come


def sign(drand_round: int) -> bytes:
    """The signature of a round, compressed: 48 bytes."""
    message = sha256(drand_round.to_bytes(8)).digest()
    point = hash_to_G1(message, DOMAIN, sha256)  # type: ignore[arg-type]
    return compress_G1(multiply(point, KEY)).to_bytes(48)


class Relay:
    """Answers as drand's HTTP relays do, in both styles. now: the time by which a round is signed or not.

    instead: of every answer, a status and a body, for tests. asked: the paths that were.
    """

    def __init__(self, now: Callable[[], float], rules: Drand = RULES) -> None:
        self.instead: tuple[int, bytes] | None = None
        self.asked: list[str] = []
        self._now, self._rules = now, rules
        chain = rules.chain_hash.hex()
        self._paths = re.compile(rf"/(?:{chain}/public|v2/chains/{chain}/rounds)/([1-9][0-9]{{0,15}})")
        relay = self

        class Handler(BaseHTTPRequestHandler):
            timeout = 10.0

            def do_GET(self) -> None:
                status, body = relay._answer(self.path)
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                """Not on anybody's output."""

        self._server = HTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    def _answer(self, path: str) -> tuple[int, bytes]:
        self.asked.append(path)
        if self.instead is not None:
            return self.instead
        found = self._paths.fullmatch(path)
        if found is None or self._now() < self._rules.signed_at(drand_round := int(found[1])):
            return 404, b""
        signature = sign(drand_round)
        document = {"round": drand_round, "randomness": sha256(signature).hexdigest(), "signature": signature.hex()}
        return 200, json.dumps(document).encode()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


class Waiting:
    """Whether a round waits for blocks: what it asked for is not signed yet by the chain's time."""

    def __init__(self, reader: ChainReader) -> None:
        """reader: used by nobody else."""
        self._reader = reader
        self._over = -1  # the last round that does not wait any more

    def __call__(self, round_: int) -> bool:
        drand = self._reader.deployment.drand
        if drand is None or round_ <= self._over or (target := self._reader.drand_round(round_)) is None:
            return False
        if self._reader.block_time() < drand.signed_at(target):
            return True
        self._over = round_
        return False
