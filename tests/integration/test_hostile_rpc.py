"""Samples of `scripts/fuzz gateways` and `scripts/fuzz rpc`, and the faults that they found, each by itself."""

import gzip
import inspect
import json
import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from sapo_client.transactions.outbox import Outbox
from sapo_devnet.processes import resident_kib
from sapo_devnet.testkit.hostile_http import answer, hostile
from sapo_devnet.testkit.networks import Network, small_spec
from sapo_lab.sweeps import gateways, rpc
from sapo_lab.sweeps.hostile_rpc import request_body
from sapo_lab.sweeps.tally import reset_peak
from sapo_verifier.chain.contracts import Call
from sapo_verifier.chain.deployment import Contracts, Deployment
from sapo_verifier.chain.errors import ChainError, ChainMismatch, ChainUnavailable, HttpRefused
from sapo_verifier.chain.reader import ChainReader
from sapo_verifier.net import exchange

WORD = "0x" + "11" * 32


def test_hostile_gateways() -> None:
    tally = gateways.sweep(150, seed=1_000_000)
    print("\n" + tally.table())
    kinds = {name.split(": ")[1] for name in tally.outcomes}
    assert kinds >= {"the block", "BlockUnavailable", "BlockTooLarge", "BlockCorrupt"}, tally.outcomes


def test_hostile_rpcs() -> None:
    tally = rpc.sweep(150, seed=1_000_000)
    print("\n" + tally.table())
    kinds = {name.split(": ")[1] for name in tally.outcomes}
    assert kinds >= {"answered", "ChainUnavailable", "ChainError", "ChainMismatch", "Refused"}, tally.outcomes


# --- one by one ------------------------------------------------------------------------------------------------------


@pytest.fixture
def deployment() -> Deployment:
    spec = small_spec()
    contracts = Contracts(**dict.fromkeys(Contracts.model_fields, "0x" + "ab" * 20))
    return Deployment(
        chain_id=31337, block=1, block_hash=bytes(32), first_block=5, contracts=contracts,
        spec_digest=spec.digest(), spec=spec,
    )  # fmt: skip


@contextmanager
def asking(deployment: Deployment, script: Any, *, timeout: float = 5.0) -> Iterator[ChainReader]:
    """A reader whose RPC answers by the script, which gets the request's body if it takes three arguments."""

    def serve(connection: socket.socket, over: threading.Event) -> None:
        given = (connection, over, request_body(connection))
        script(*given[: len(inspect.signature(script).parameters)])

    with hostile(serve, read_request=False) as server:
        reader = ChainReader(f"http://127.0.0.1:{server.port}", deployment, timeout=timeout)
        yield reader
        reader.close()


def says(result: Any) -> Any:
    """A script: the same result for every single request, under the request's own id."""

    def script(connection: socket.socket, over: threading.Event, body: bytes) -> None:
        text = json.dumps({"jsonrpc": "2.0", "id": json.loads(body)["id"], "result": result}).encode()
        answer(text)(connection, over)

    return script


def trickle(connection: socket.socket, over: threading.Event) -> None:
    connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
    while not over.wait(0.05):
        connection.sendall(b" ")


def trickle_headers(connection: socket.socket, over: threading.Event) -> None:
    connection.sendall(b"HTTP/1.1 200 OK\r\nX: ")
    while not over.wait(0.05):
        connection.sendall(b"a")


def endless(connection: socket.socket, over: threading.Event) -> None:
    connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n[")
    while not over.is_set():
        connection.sendall(b"[]," * 20_000)


@pytest.mark.parametrize("script", [trickle, trickle_headers])
def test_an_rpc_that_trickles_ends_at_the_time_out(deployment: Deployment, script: Any) -> None:
    started = time.monotonic()
    with asking(deployment, script, timeout=0.4) as reader, pytest.raises(ChainUnavailable, match="in time"):
        reader.block_number()
    assert time.monotonic() - started < 3 * 0.4 + 1.5, "three tries"


def test_over_tls_too(deployment: Deployment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between handshake and body, an exchange is cut from outside; and an honest one is not."""
    key, certificate = tmp_path / "key.pem", tmp_path / "cert.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
         "-keyout", key, "-out", certificate, "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"],
        check=True, capture_output=True,
    )  # fmt: skip
    monkeypatch.setattr(exchange, "_tls_context", lambda: ssl.create_default_context(cafile=certificate))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    slow = False

    def serve(connection: socket.socket, over: threading.Event) -> None:
        with context.wrap_socket(connection, server_side=True) as tls:
            body = request_body(tls)
            trickle(tls, over) if slow else says("0x7")(tls, over, body)

    with hostile(serve, read_request=False) as server:
        reader = ChainReader(f"https://localhost:{server.port}", deployment, timeout=1.0)
        assert reader.block_number() == 7
        slow = True
        started = time.monotonic()
        with pytest.raises(ChainUnavailable, match="in time"):
            reader.block_number()
        assert time.monotonic() - started < 3 * 1.0 + 1.5, "three tries"
        reader.close()


def test_an_endless_answer_is_cut_off(deployment: Deployment) -> None:
    before = reset_peak()
    with asking(deployment, endless) as reader, pytest.raises(HttpRefused, match="more than 8388608 bytes") as caught:
        reader.block_number()
    assert caught.value.status == 413, "so that logs are asked for in smaller pieces"
    assert resident_kib("VmHWM") - before < 60 * 1024


def test_a_bomb_is_not_opened(deployment: Deployment) -> None:
    bomb = gzip.compress(bytes(200 << 20))
    before = reset_peak()
    script = answer(bomb, "Content-Encoding: gzip")
    with asking(deployment, script) as reader, pytest.raises(ChainUnavailable, match="compressed"):
        reader.block_number()
    assert resident_kib("VmHWM") - before < 60 * 1024


def test_redirects_are_not_followed(deployment: Deployment) -> None:
    with hostile(answer(b"{}")) as other:
        for status in ("301 Moved", "302 Found", "307 Temporary", "308 Permanent"):
            script = answer(b"", f"Location: http://127.0.0.1:{other.port}/", status=status)
            with (
                asking(deployment, script) as reader,
                pytest.raises(HttpRefused, match="give the URL that it redirects"),
            ):
                reader.block_number()
    assert other.requests == []


@pytest.mark.parametrize("result", [None, 7, -1, "7", "0x", "0x-7", "0xzz", "0x" + "f" * 16, [], {}, True, 0.5])
def test_a_block_number_is_a_number(deployment: Deployment, result: Any) -> None:
    with asking(deployment, says(result)) as reader, pytest.raises(ChainUnavailable, match="no Ethereum RPC"):
        reader.block_number()


@pytest.mark.parametrize("result", ["0x", "0x00", "0x" + "ff" * 64, "0x" + "00" * 31 + "20" + "ff" * 32])
def test_contract_answers_that_are_cut_short_or_point_nowhere(deployment: Deployment, result: str) -> None:
    with asking(deployment, says(result)) as reader, pytest.raises(ChainMismatch, match="was it reset"):
        reader.round_at(1)


def test_an_answer_cannot_send_us_elsewhere(deployment: Deployment) -> None:
    """EIP-3668: web3 follows an OffchainLookup revert to any URL by itself."""
    with hostile(answer(b"{}")) as other:
        from eth_abi.abi import encode

        url = f"http://127.0.0.1:{other.port}/{{sender}}/{{data}}"
        kinds = ["address", "string[]", "bytes", "bytes4", "bytes"]
        data = encode(kinds, ["0x" + "ab" * 20, [url], b"", b"abcd", b""]).hex()
        error = {"code": 3, "message": "execution reverted", "data": "0x556f1830" + data}
        script = answer(json.dumps({"jsonrpc": "2.0", "id": 0, "error": error}).encode())
        with asking(deployment, script) as reader, pytest.raises(ChainError, match="does not know"):
            reader.batch_count()
    assert other.requests == []


def test_a_round_of_impossibly_many_batches_is_not_read(deployment: Deployment) -> None:
    words = [0, 2**200, 1, 1, 5]
    result = "0x" + b"".join(word.to_bytes(32, "big") for word in words).hex()
    started = time.monotonic()
    with asking(deployment, says(result)) as reader, pytest.raises(ChainError, match="Is this RPC honest"):
        reader.batches_of(1)
    assert time.monotonic() - started < 5


def test_an_answer_to_another_request_is_not_taken(deployment: Deployment) -> None:
    for id_ in (5, "0", None, False):
        script = answer(json.dumps({"jsonrpc": "2.0", "id": id_, "result": "0x7"}).encode())
        with asking(deployment, script) as reader, pytest.raises(ChainUnavailable, match="another request"):
            reader.block_number()


def test_connections_are_given_back(deployment: Deployment) -> None:
    open_ = Path("/proc/self/fd")
    with asking(deployment, says("0x7")) as reader:
        reader.block_number()
        before = len(list(open_.iterdir()))
        for _ in range(20):
            assert reader.block_number() == 7
        assert len(list(open_.iterdir())) <= before + 2
    for script in (answer(b"x"), answer(b"{}", length=50), trickle):
        with asking(deployment, script, timeout=0.2) as reader:
            for _ in range(3):
                with pytest.raises(ChainUnavailable):
                    reader.block_number()
    assert len(list(open_.iterdir())) <= before + 2


def test_an_outbox_survives_an_rpc_that_names_another_hash(network: Network, tmp_path: Path) -> None:
    """It took the transaction: the receipt shows it, whatever was said."""
    network.chain.rpc("evm_setAutomine", False)
    reader = network.reader()
    outbox = Outbox(tmp_path / "outbox.sqlite", reader, network.chain.account(1))
    eth: Any = outbox._wire.sender.eth
    real = eth.send_raw_transaction
    eth.send_raw_transaction = lambda raw: real(raw) and bytes.fromhex(WORD[2:])
    outbox.put("register", Call("nodes", "register", ("0x" + "22" * 20, "/ip4/10.0.0.1/tcp/80/http")), value=10**18)
    outbox.pump()
    assert "another hash" in outbox.state("register").reason
    network.chain.mine()
    outbox.pump()
    assert outbox.state("register").status == "mined"
    outbox.close()
