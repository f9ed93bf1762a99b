"""The same store against real Kubo: runs where an `ipfs` binary is on PATH."""

import json
import os
import shutil
import subprocess
import time
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest
import urllib3

from sapo_devnet.testkit.ipfs_daemon import ipfs_daemon
from sapo_verifier.cid import BLOCK_LIMIT, block_digest
from sapo_verifier.ipfs import BlockStore, BlockUnavailable

pytestmark = [
    pytest.mark.kubo,
    pytest.mark.skipif(shutil.which("ipfs") is None, reason="no `ipfs` (Kubo) on PATH"),
]


def start(folder: Path) -> tuple["subprocess.Popen[bytes]", str, str, str]:
    """A Kubo daemon without the public network: (process, RPC multiaddr, gateway multiaddr, libp2p multiaddr)."""
    environment = {**os.environ, "IPFS_PATH": str(folder)}

    def ipfs(*words: str) -> None:
        subprocess.run(["ipfs", *words], env=environment, check=True, capture_output=True, timeout=60)

    ipfs("init", "--profile=test")  # loopback, free ports, no bootstrap
    process = subprocess.Popen(["ipfs", "daemon"], env=environment, stdout=subprocess.DEVNULL)
    end = time.monotonic() + 60
    while not ((folder / "api").exists() and (folder / "gateway").exists()):
        assert process.poll() is None, "Kubo did not start"
        assert time.monotonic() < end, "Kubo is not ready after 60 s"
        time.sleep(0.1)
    api = (folder / "api").read_text().strip()
    gateway = (folder / "gateway").read_text().strip().removeprefix("http://").split(":")
    host, port = api.split("/")[2], api.split("/")[4]
    identity = json.loads(urllib3.request("POST", f"http://{host}:{port}/api/v0/id").data)
    swarm = next(a for a in identity["Addresses"] if a.startswith("/ip4/127.0.0.1/tcp/") and "/ws" not in a)
    return process, f"{api}/http", f"/ip4/{gateway[0]}/tcp/{gateway[1]}/http", swarm


@pytest.fixture(scope="module")
def kubos(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[tuple[str, str, str]]]:
    started = []
    try:
        for name in ("a", "b"):
            started.append(start(tmp_path_factory.mktemp(name)))
        yield [entry[1:] for entry in started]
    finally:
        for process, *_ in started:
            process.terminate()
            process.wait(30)


def test_put_get_unpin(kubos: list[tuple[str, str, str]]) -> None:
    with BlockStore(kubos[0][0], allow_private=True) as store, warnings.catch_warnings():
        warnings.simplefilter("error")
        for size in (0, 1000, BLOCK_LIMIT):
            data = os.urandom(size)
            digest = store.put(data)
            assert digest == block_digest(data)
            assert store.get(digest) == data
            assert store.has(digest)
            store.unpin(digest)
            store.unpin(digest)
        assert store.collect() >= 2
        assert not store.has(block_digest(b"nobody's"))
        assert "RepoSize" in store.stat()


def test_kubos_gateway_serves_our_reader(kubos: list[tuple[str, str, str]], tmp_path: Path) -> None:
    with BlockStore(kubos[0][0], allow_private=True) as kubo, ipfs_daemon(tmp_path) as daemon:
        digest = kubo.put(b"from Kubo's gateway")
        with BlockStore(daemon.api, allow_private=True) as store:
            assert store.get(digest, peers=[kubos[0][1]]) == b"from Kubo's gateway"


def test_libp2p_peers(kubos: list[tuple[str, str, str]]) -> None:
    with BlockStore(kubos[0][0], allow_private=True) as one, BlockStore(kubos[1][0], allow_private=True) as two:
        data = os.urandom(BLOCK_LIMIT)
        digest = one.put(data)
        assert two.get(digest, peers=[kubos[0][2]]) == data
        assert two.bytes_down == BLOCK_LIMIT


def test_a_block_that_nobody_has_costs_only_the_time_out(kubos: list[tuple[str, str, str]]) -> None:
    with BlockStore(kubos[0][0], allow_private=True, timeout=2.0) as store:
        begin = time.monotonic()
        with pytest.raises(BlockUnavailable):
            store.get(bytes(32))
        assert time.monotonic() - begin < 5.0
