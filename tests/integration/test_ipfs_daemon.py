"""The embedded daemon as a real process: Kubo's shapes, the gateway's rules, limits, and every way of dying."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import urllib3

from sapo_devnet.testkit.hostile_http import hostile
from sapo_devnet.testkit.ipfs_daemon import Daemon, daemon_command, ipfs_daemon, spawn
from sapo_verifier.cid import BLOCK_LIMIT, block_digest, cid

RAW = "application/vnd.ipld.raw"
HTTP = urllib3.PoolManager(maxsize=50, retries=False, timeout=urllib3.Timeout(total=20))
MISSING = cid(bytes(32))


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    with ipfs_daemon(tmp_path_factory.mktemp("daemon")) as running:
        yield running


def rpc(
    daemon: Daemon, command: str, *, headers: dict[str, str] | None = None, **query: str
) -> urllib3.BaseHTTPResponse:
    fields = {name.replace("_", "-"): value for name, value in query.items()}
    url = f"{daemon.api_url}/api/v0/{command}?" + "&".join(f"{k}={v}" for k, v in fields.items())
    return HTTP.request("POST", url, headers=headers or {})


def put(daemon: Daemon, data: bytes, **query: str) -> urllib3.BaseHTTPResponse:
    fields = {name.replace("_", "-"): value for name, value in query.items()}
    url = f"{daemon.api_url}/api/v0/block/put?" + "&".join(f"{k}={v}" for k, v in fields.items())
    return HTTP.request("POST", url, fields={"file": ("block", data, "application/octet-stream")})


def gateway(daemon: Daemon, path: str, method: str = "GET", **headers: str) -> urllib3.BaseHTTPResponse:
    return HTTP.request(method, f"{daemon.gateway_url}{path}", headers=headers)


def gateway_address(daemon: Daemon) -> tuple[str, int]:
    return "127.0.0.1", int(daemon.gateway_url.rsplit(":", 1)[1])


def is_error(response: urllib3.BaseHTTPResponse, words: str) -> bool:
    body = response.json()
    return response.status == 500 and body["Type"] == "error" and body["Code"] == 0 and words in body["Message"]


@pytest.mark.parametrize("size", [0, 1, 1000, BLOCK_LIMIT])
def test_put_get(daemon: Daemon, size: int) -> None:
    data = os.urandom(size)
    name = cid(block_digest(data))
    assert put(daemon, data, cid_codec="raw", mhtype="sha2-256", pin="true").json() == {"Key": name, "Size": size}
    assert rpc(daemon, "block/get", arg=name, offline="true").data == data
    assert rpc(daemon, "block/get", arg=f"/ipfs/{name}").data == data


def test_pins_and_collection(daemon: Daemon) -> None:
    kept, loose = cid(block_digest(b"kept")), cid(block_digest(b"loose"))
    put(daemon, b"kept", pin="true")
    put(daemon, b"loose")
    put(daemon, b"once pinned", pin="true")
    once = cid(block_digest(b"once pinned"))
    assert rpc(daemon, "pin/rm", arg=once).json() == {"Pins": [once]}
    for name in (once, loose, MISSING):
        assert is_error(rpc(daemon, "pin/rm", arg=name), "not pinned")
    collected = [json.loads(line)["Key"]["/"] for line in rpc(daemon, "repo/gc").data.splitlines()]
    assert {loose, once} <= set(collected)
    assert kept not in collected
    assert is_error(rpc(daemon, "block/get", arg=loose, offline="true"), "not found locally")


def test_what_is_on_disk(daemon: Daemon) -> None:
    before = rpc(daemon, "repo/stat").json()
    put(daemon, b"five!")
    after = rpc(daemon, "repo/stat").json()
    assert (after["NumObjects"], after["RepoSize"]) == (before["NumObjects"] + 1, before["RepoSize"] + 5)


@pytest.mark.parametrize(
    ("command", "query", "words"),
    [
        ("block/get", {}, "expected 1 `arg`"),
        ("block/get", {"arg": "QmdfTbBqBPQ7VNxZEYEj14VmRuZBkqFbiwReogJgS1zR1n"}, "not the CID"),
        ("block/get", {"arg": MISSING}, "no peers are connected"),
        ("block/get", {"arg": MISSING, "offline": "true"}, "offline"),
        ("block/put", {}, "multipart"),
        ("block/put", {"cid_codec": "dag-pb"}, "cid-codec='dag-pb' is not supported"),
        ("block/put", {"mhtype": "blake3"}, "mhtype='blake3' is not supported"),
        ("swarm/connect", {"arg": "nonsense"}, "not a multiaddr"),
        ("swarm/connect", {"arg": "/ip4/127.0.0.1/tcp/1/http"}, "failure"),
    ],
)
def test_errors_have_kubos_shape(daemon: Daemon, command: str, query: dict[str, str], words: str) -> None:
    assert is_error(rpc(daemon, command, **query), words)


def test_too_large_and_malformed_uploads(daemon: Daemon) -> None:
    assert is_error(put(daemon, bytes(BLOCK_LIMIT + 1)), "at most 1048576 bytes")
    url, kind = f"{daemon.api_url}/api/v0/block/put", "multipart/form-data; boundary=x"
    for body in (b"", b"--x", b"--x--\r\n", b"--y\r\n\r\nabc\r\n--y--\r\n", b"--x\r\nbad header\r\n\r\na\r\n--x--\r\n"):
        response = HTTP.request("POST", url, body=body, headers={"Content-Type": kind})
        assert response.status == 500, body
        assert response.json()["Type"] == "error", body


def test_the_rpc_is_not_for_browsers(daemon: Daemon) -> None:
    for headers in (
        {"Origin": "http://evil.example"},
        {"Referer": "http://evil.example/"},
        {"User-Agent": "Mozilla/5.0"},
    ):
        assert rpc(daemon, "repo/stat", headers=headers).status == 403
    for method in ("GET", "HEAD", "PUT", "OPTIONS"):
        assert HTTP.request(method, f"{daemon.api_url}/api/v0/repo/stat").status == 405
    assert HTTP.request("POST", f"{daemon.api_url}/api/v0/shutdown").status == 404
    assert HTTP.request("POST", f"{daemon.gateway_url}/api/v0/repo/stat").status == 404


def test_gateway_serves_raw_blocks(daemon: Daemon) -> None:
    data = os.urandom(5000)
    name = put(daemon, data).json()["Key"]
    before = rpc(daemon, "repo/stat").json()["GatewayBytesServed"]
    by_query, by_accept = gateway(daemon, f"/ipfs/{name}?format=raw"), gateway(daemon, f"/ipfs/{name}", Accept=RAW)
    for response in (by_query, by_accept):
        assert response.status == 200
        assert response.data == data
        assert response.headers["Content-Type"] == RAW
        assert response.headers["Content-Length"] == "5000"
        assert "immutable" in response.headers["Cache-Control"]
        assert response.headers["X-Content-Type-Options"] == "nosniff"
        assert response.headers["Etag"] == f'"{name}.raw"'
    head = gateway(daemon, f"/ipfs/{name}?format=raw", "HEAD")
    assert (head.status, head.headers["Content-Length"], head.data) == (200, "5000", b"")
    assert gateway(daemon, f"/ipfs/{name}?format=raw", **{"If-None-Match": f'"{name}.raw"'}).status == 304
    assert rpc(daemon, "repo/stat").json()["GatewayBytesServed"] == before + 10000


def test_gateway_refuses_everything_else(daemon: Daemon) -> None:
    name = put(daemon, b"refused").json()["Key"]
    assert gateway(daemon, f"/ipfs/{name}").status == 406
    assert gateway(daemon, f"/ipfs/{name}?format=car", Accept=RAW).status == 406
    assert gateway(daemon, f"/ipfs/{name}", Accept="text/html").status == 406
    assert gateway(daemon, f"/ipfs/{MISSING}?format=raw").status == 404
    assert gateway(daemon, "/ipfs/nonsense?format=raw").status == 400
    assert gateway(daemon, f"/ipfs/{name}/path?format=raw").status == 404
    assert gateway(daemon, f"/ipfs/{name}?format=raw", "POST").status == 405
    assert gateway(daemon, f"/ipfs/..%2f..%2f{name}?format=raw").status in (400, 404)


def test_a_truncated_block_file_is_never_served(daemon: Daemon) -> None:
    data = os.urandom(5000)
    digest = block_digest(data)
    put(daemon, data)
    file = daemon.repo / "blocks" / digest.hex()[:2] / digest.hex()
    file.write_bytes(data[:4000])
    assert gateway(daemon, f"/ipfs/{cid(digest)}?format=raw").status == 404
    assert is_error(rpc(daemon, "block/get", arg=cid(digest)), "could not find")
    put(daemon, data)
    assert gateway(daemon, f"/ipfs/{cid(digest)}?format=raw").data == data


def test_a_miss_is_fetched_from_connected_peers_but_never_for_strangers(tmp_path: Path, daemon: Daemon) -> None:
    data = os.urandom(BLOCK_LIMIT)
    name = put(daemon, data).json()["Key"]
    with ipfs_daemon(tmp_path) as other:
        assert rpc(other, "swarm/connect", arg=daemon.gateway).json() == {
            "Strings": [f"connect {daemon.gateway} success"]
        }
        served = rpc(daemon, "repo/stat").json()["GatewayBytesServed"]
        assert gateway(other, f"/ipfs/{name}?format=raw").status == 404
        assert is_error(rpc(other, "block/get", arg=name, offline="true"), "offline")
        assert rpc(daemon, "repo/stat").json()["GatewayBytesServed"] == served
        assert rpc(other, "block/get", arg=name).data == data
        assert rpc(daemon, "repo/stat").json()["GatewayBytesServed"] == served + BLOCK_LIMIT
        assert gateway(other, f"/ipfs/{name}?format=raw").data == data
        assert is_error(rpc(other, "block/get", arg=MISSING), "does not have")


def test_peers_of_the_command_line(tmp_path: Path, daemon: Daemon) -> None:
    name = put(daemon, b"from the command line").json()["Key"]
    with ipfs_daemon(tmp_path, peers=("/ip4/127.0.0.1/tcp/1/http", daemon.gateway)) as other:
        assert rpc(other, "block/get", arg=name).data == b"from the command line"
        assert rpc(other, "block/get", arg=name, offline="true").data == b"from the command line"


def test_private_peers_are_refused_without_permission(tmp_path: Path, daemon: Daemon) -> None:
    with ipfs_daemon(tmp_path, allow_private=False) as other:
        assert is_error(rpc(other, "swarm/connect", arg=daemon.gateway), "--allow-private")
    failed = subprocess.run(
        [*daemon_command(tmp_path / "x"), "--peer", daemon.gateway], capture_output=True, text=True, timeout=20
    )
    assert failed.returncode == 2
    assert "--allow-private" in failed.stderr


def test_a_second_daemon_on_one_repository_is_refused_in_words(daemon: Daemon) -> None:
    second = subprocess.run(daemon_command(daemon.repo), capture_output=True, text=True, timeout=20)
    assert second.returncode == 3
    assert f"used by another daemon (process {daemon.process.pid})" in second.stderr
    assert "Traceback" not in second.stderr


def test_an_address_in_use_is_refused_in_words(tmp_path: Path, daemon: Daemon) -> None:
    command = [*daemon_command(tmp_path / "x"), "--gateway", daemon.gateway_url.removeprefix("http://")]
    second = subprocess.run(command, capture_output=True, text=True, timeout=20)
    assert second.returncode == 3
    assert "Give another --gateway" in second.stderr


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signals_end_it_cleanly_even_with_open_connections(tmp_path: Path, number: signal.Signals) -> None:
    with ipfs_daemon(tmp_path) as daemon, socket.create_connection(gateway_address(daemon)) as idle:
        idle.sendall(b"GET /ipfs/")
        time.sleep(0.1)
        daemon.process.send_signal(number)
        assert daemon.process.wait(10) == 0


@pytest.mark.parametrize(
    "data", [b"\0\xff\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"GET / HTTP/1.1\r\nContent-Length: zz\r\n\r\n"]
)
def test_strangers_fill_no_log(tmp_path: Path, data: bytes) -> None:
    with ipfs_daemon(tmp_path) as daemon:
        for _ in range(5):
            with socket.create_connection(gateway_address(daemon), timeout=5) as stranger:
                stranger.sendall(data)
                assert stranger.recv(100).startswith(b"HTTP/1.0 400")
        daemon.process.terminate()
        assert daemon.process.wait(10) == 0
        assert daemon.process.stderr is not None
        assert daemon.process.stderr.read() == ""


def test_slow_peers_hold_up_neither_puts_nor_the_end(tmp_path: Path) -> None:
    def stall(_: socket.socket, over: threading.Event) -> None:
        over.wait(20)

    with (
        hostile(stall) as peer,
        ipfs_daemon(tmp_path, peers=(peer.endpoint(), peer.endpoint("/dns4/localhost"))) as daemon,
    ):
        digests = [bytes([i]) * 32 for i in range(40)]
        waiting = [threading.Thread(target=ignore_errors, args=(rpc, daemon, "block/get", cid(d))) for d in digests]
        for thread in waiting:
            thread.start()
        time.sleep(0.5)
        start = time.monotonic()
        name = put(daemon, b"urgent").json()["Key"]
        assert gateway(daemon, f"/ipfs/{name}?format=raw").data == b"urgent"
        assert time.monotonic() - start < 1.0
        daemon.process.terminate()
        assert daemon.process.wait(5) == 0
        for thread in waiting:
            thread.join()


def ignore_errors(function: Callable[..., object], daemon: Daemon, command: str, name: str) -> None:
    with contextlib.suppress(urllib3.exceptions.HTTPError):
        function(daemon, command, arg=name)


def test_it_ends_when_its_parent_is_killed(tmp_path: Path) -> None:
    script = (
        "import subprocess, sys, time\n"
        f"child = subprocess.Popen({daemon_command(tmp_path / 'r')!r}, stdin=subprocess.PIPE, stdout=subprocess.PIPE)\n"
        "child.stdout.readline(); print(child.pid, flush=True); time.sleep(60)\n"
    )
    parent = spawn([sys.executable, "-c", script])
    assert parent.stdout is not None
    child = int(parent.stdout.readline())
    parent.kill()
    parent.communicate()
    end = time.monotonic() + 10
    while Path(f"/proc/{child}/stat").exists() and "Z" not in Path(f"/proc/{child}/stat").read_text().split()[2]:
        assert time.monotonic() < end, "the daemon outlives its parent"
        time.sleep(0.05)


def test_kill_9_during_puts_loses_nothing_that_was_acknowledged(tmp_path: Path) -> None:
    acknowledged: list[bytes] = []
    with ipfs_daemon(tmp_path) as daemon:
        timer = threading.Timer(0.3, daemon.process.kill)
        timer.start()
        for i in range(10_000):
            data = i.to_bytes(4, "big") * 20_000
            try:
                if put(daemon, data, pin="true").status == 200:
                    acknowledged.append(data)
            except urllib3.exceptions.HTTPError:
                break
        timer.join()
        assert daemon.process.wait(10) == -signal.SIGKILL
    assert len(acknowledged) > 3
    with ipfs_daemon(tmp_path) as daemon:
        rpc(daemon, "repo/gc")  # their pins are there, too
        for data in acknowledged:
            assert rpc(daemon, "block/get", arg=cid(block_digest(data)), offline="true").data == data
        assert not any((daemon.repo / "damaged").iterdir())


def test_many_that_come_at_one_time_are_let_in_up_to_the_limit(tmp_path: Path) -> None:
    with ipfs_daemon(tmp_path, options=("--max-connections", "4")) as daemon:
        os.kill(daemon.process.pid, signal.SIGSTOP)  # so that all wait to be accepted
        crowd = [socket.create_connection(gateway_address(daemon)) for _ in range(60)]
        os.kill(daemon.process.pid, signal.SIGCONT)
        time.sleep(0.5)
        assert sum(is_open(each) for each in crowd) == 4
        for each in crowd:
            each.close()


def test_silent_and_slow_clients_lose_their_place(tmp_path: Path) -> None:
    options = ("--max-connections", "4", "--idle-seconds", "0.5", "--request-seconds", "1.0")
    with ipfs_daemon(tmp_path, options=options) as daemon:
        name = put(daemon, os.urandom(BLOCK_LIMIT)).json()["Key"]
        address = gateway_address(daemon)
        silent = [socket.create_connection(address) for _ in range(2)]
        half = socket.create_connection(address)
        half.sendall(b"GET /ipfs/x HTTP/1.1\r\nX-Slow: ")
        slow = socket.socket()
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        slow.connect(address)
        # Several requests at once, so that the answers exceed every buffer in between; none is read.
        slow.sendall(f"GET /ipfs/{name}?format=raw HTTP/1.1\r\nHost: x\r\n\r\n".encode() * 8)
        time.sleep(0.2)
        with socket.create_connection(address) as fifth:  # beyond the limit
            time.sleep(0.1)
            assert not is_open(fifth)
        for connection in [*silent, half]:
            connection.settimeout(3)
            assert_closed(connection)
        end = time.monotonic() + 4
        while True:  # the slow reader's place is free again when four others fit
            with_room = [socket.create_connection(address) for _ in range(4)]
            time.sleep(0.1)
            room = sum(is_open(c) for c in with_room)
            for connection in with_room:
                connection.close()
            if room == 4:
                break
            assert time.monotonic() < end, "the slow reader keeps its place"
            time.sleep(0.2)
        slow.close()


def is_open(connection: socket.socket) -> bool:
    connection.setblocking(False)
    try:
        return connection.recv(1) != b""
    except BlockingIOError:
        return True
    except ConnectionError:
        return False


def assert_closed(connection: socket.socket) -> None:
    with connection:
        try:
            while connection.recv(65536):
                continue
        except ConnectionError:
            return


def test_help_is_fast_and_imports_no_server() -> None:
    code = (
        "import sys\nfrom sapo_verifier.ipfs.daemon import serve\n"
        "try:\n    serve.main(['--help'])\nexcept SystemExit as end:\n    status = end.code\n"
        "assert status == 0 and 'aiohttp' not in sys.modules and 'ipfshttpclient' not in sys.modules\n"
    )
    process = spawn([sys.executable, "-c", code])
    output, errors = process.communicate(timeout=20)
    assert process.returncode == 0, errors
    assert "--exit-with-stdin" in output


@pytest.mark.parametrize("bad", ["5001", "host.example:1", "127.0.0.1:x", "127.0.0.1:70000", ":1"])
def test_bad_listen_addresses_are_refused_in_words(tmp_path: Path, bad: str) -> None:
    command = [*daemon_command(tmp_path), "--api", bad]
    failed = subprocess.run(command, capture_output=True, text=True, timeout=20)
    assert failed.returncode == 2
    assert "--api" in failed.stderr
