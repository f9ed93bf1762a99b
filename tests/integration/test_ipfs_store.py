"""BlockStore and GatewayReader against real daemons and hostile gateways."""

import os
import shutil
import time
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from sapo_devnet.testkit.hostile_http import answer, hostile
from sapo_devnet.testkit.ipfs_daemon import Daemon, ipfs_daemon
from sapo_verifier.cid import BLOCK_LIMIT, block_digest
from sapo_verifier.ipfs import (
    BlockCorrupt,
    BlockStore,
    BlockTooLarge,
    BlockUnavailable,
    EndpointError,
    GatewayReader,
    StoreFailed,
)

NOWHERE = "/ip4/127.0.0.1/tcp/1/http"


@pytest.fixture(scope="module")
def publisher(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    with ipfs_daemon(tmp_path_factory.mktemp("publisher")) as daemon:
        yield daemon


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    with ipfs_daemon(tmp_path_factory.mktemp("own")) as daemon:
        yield daemon


@pytest.fixture
def theirs(publisher: Daemon) -> Iterator[BlockStore]:
    with BlockStore(publisher.api, allow_private=True) as store:
        yield store


@pytest.fixture
def mine(own: Daemon) -> Iterator[BlockStore]:
    with BlockStore(own.api, allow_private=True, timeout=2.0) as store:
        yield store


def stall(connection: object, over: object) -> None:
    over.wait(10)  # type: ignore[attr-defined]


@pytest.mark.parametrize("size", [0, 1, BLOCK_LIMIT])
def test_put_and_get(mine: BlockStore, size: int) -> None:
    data = os.urandom(size)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # neither VersionMismatch nor anything else reaches the user
        digest = mine.put(data)
        assert digest == block_digest(data)
        assert mine.get(digest) == data
    assert mine.has(digest)
    assert mine.bytes_down == 0


def test_a_block_above_the_limit_is_not_even_sent(mine: BlockStore) -> None:
    with pytest.raises(BlockTooLarge, match="cut it"):
        mine.put(bytes(BLOCK_LIMIT + 1))


def test_what_a_peer_delivered_is_kept_and_pinned(mine: BlockStore, theirs: BlockStore, publisher: Daemon) -> None:
    data = os.urandom(3000)
    digest = theirs.put(data)
    assert not mine.has(digest)
    assert mine.get(digest, peers=[NOWHERE, publisher.gateway]) == data
    assert mine.bytes_down == 3000
    assert mine.get(digest) == data
    assert mine.bytes_down == 3000
    mine.collect()
    assert mine.has(digest)
    mine.unpin(digest)
    mine.unpin(digest)
    assert mine.collect() == 1
    assert not mine.has(digest)


def test_the_limit_holds_for_own_blocks_and_for_peers(mine: BlockStore, theirs: BlockStore, publisher: Daemon) -> None:
    data = os.urandom(3000)
    digest = theirs.put(data)
    with pytest.raises(BlockTooLarge):
        mine.get(digest, limit=2999, peers=[publisher.gateway])
    assert mine.get(digest, limit=3000, peers=[publisher.gateway]) == data
    with pytest.raises(BlockTooLarge, match="more than the 2999"):
        mine.get(digest, limit=2999)


def test_connected_peers_are_asked_last(mine: BlockStore, theirs: BlockStore, publisher: Daemon) -> None:
    data = os.urandom(3000)
    digest = theirs.put(data)
    with pytest.raises(BlockUnavailable, match="no peers are connected"):
        mine.get(digest)
    mine.connect(publisher.gateway)
    assert mine.get(digest) == data
    assert mine.bytes_down == 3000
    with pytest.raises(StoreFailed, match="failure"):
        mine.connect(NOWHERE)


def test_every_reason_is_in_the_message(mine: BlockStore, publisher: Daemon) -> None:
    libp2p = "/ip4/127.0.0.1/tcp/4001/p2p/12D3KooWGzxzKZYveHXtpG6AsrUJBcWxHBFS2HsEoGTxrMLvKXtf"
    with pytest.raises(BlockUnavailable) as caught:
        mine.get(bytes(32), peers=[publisher.gateway, NOWHERE, libp2p, "nonsense"])
    for words in (publisher.gateway, "does not have", NOWHERE, "use Kubo", "not a multiaddr"):
        assert words in str(caught.value)


def test_a_liar_does_not_hide_an_honest_peer(mine: BlockStore, theirs: BlockStore, publisher: Daemon) -> None:
    data = os.urandom(3000)
    digest = theirs.put(data)
    with hostile(answer(b"lies")) as liar:
        assert mine.get(digest, peers=[liar.endpoint(), publisher.gateway]) == data


def test_one_kind_of_trouble_is_reported_as_that_kind() -> None:
    with hostile(answer(b"lies")) as liar, GatewayReader(allow_private=True) as reader:
        with pytest.raises(BlockCorrupt, match="report this node"):
            reader.get(bytes(32), peers=[liar.endpoint()])
        with pytest.raises(BlockUnavailable, match="running and reachable"):
            reader.get(bytes(32), peers=[liar.endpoint(), NOWHERE])


def test_private_endpoints_are_refused(own: Daemon, publisher: Daemon) -> None:
    with BlockStore(own.api, allow_private=False) as store:
        with pytest.raises(BlockUnavailable, match="--allow-private"):
            store.get(bytes(32), peers=[publisher.gateway])
        with pytest.raises(EndpointError, match="--allow-private"):
            store.connect(publisher.gateway)


def test_failed_connections_are_tried_three_times_and_bad_answers_once() -> None:
    with hostile(lambda *_: None) as server, GatewayReader(allow_private=True) as reader:
        with pytest.raises(BlockUnavailable):
            reader.get(bytes(32), peers=[server.endpoint()])
        assert len(server.requests) == 3
    with hostile(answer(b"lies")) as server, GatewayReader(allow_private=True) as reader:
        with pytest.raises(BlockCorrupt):
            reader.get(bytes(32), peers=[server.endpoint()])
        assert len(server.requests) == 1


def test_many_at_once(mine: BlockStore, theirs: BlockStore, publisher: Daemon) -> None:
    blocks = {theirs.put(data): data for data in (os.urandom(50_000) for _ in range(30))}
    missing = bytes(32)
    small = next(iter(blocks))
    wants = [(digest, BLOCK_LIMIT) for digest in blocks] + [(missing, 100), (small, 10)]
    found = mine.get_many(wants, [publisher.gateway], deadline=20)
    assert set(found) == {*blocks, missing}
    assert isinstance(found[missing], BlockUnavailable)
    assert isinstance(found[small], BlockTooLarge)
    assert all(found[digest] == data for digest, data in blocks.items() if digest != small)
    assert mine.bytes_down == 29 * 50_000
    assert mine.get_many([], [publisher.gateway]) == {}


def test_a_stalling_peer_does_not_eat_the_time_of_all(theirs: BlockStore, publisher: Daemon) -> None:
    blocks = {theirs.put(data): data for data in (os.urandom(100) for _ in range(40))}
    start = time.monotonic()
    with hostile(stall) as staller, GatewayReader(allow_private=True, timeout=0.5, workers=4) as reader:
        peers = [staller.endpoint(), publisher.gateway]
        assert reader.get_many([(digest, 100) for digest in blocks], peers, deadline=10) == blocks
    assert time.monotonic() - start < 3.0


def test_the_deadline_for_all_holds() -> None:
    wants = [(bytes([i]) * 32, 100) for i in range(20)]
    start = time.monotonic()
    with hostile(stall) as a, hostile(stall) as b, GatewayReader(allow_private=True, timeout=5.0, workers=4) as reader:
        found = reader.get_many(wants, [a.endpoint(), b.endpoint()], deadline=0.7)
    assert time.monotonic() - start < 2.5
    assert len(found) == 20
    assert all(isinstance(error, BlockUnavailable) for error in found.values())


def test_threads_share_one_store(mine: BlockStore) -> None:
    blocks = [os.urandom(2000) for _ in range(40)]
    with ThreadPoolExecutor(8) as pool:
        digests = list(pool.map(mine.put, blocks))
        assert list(pool.map(mine.get, digests)) == blocks
    assert mine.bytes_down == 0


def test_own_daemons_trouble_is_told_apart(tmp_path: Path, publisher: Daemon) -> None:
    with ipfs_daemon(tmp_path) as daemon, BlockStore(daemon.api, allow_private=True, timeout=2.0) as store:
        digest = store.put(b"before")
        daemon.process.kill()
        daemon.process.wait()
        for action in (lambda: store.put(b"x"), lambda: store.get(digest, peers=[publisher.gateway])):
            with pytest.raises(StoreFailed, match="is it running"):
                action()
        shutil.rmtree(daemon.repo)
    with (
        BlockStore(publisher.gateway, allow_private=True) as store,
        pytest.raises(StoreFailed, match="check the address"),
    ):
        store.put(b"not an RPC")
    with BlockStore("nonsense", allow_private=True) as store, pytest.raises(StoreFailed, match="check the address"):
        store.put(b"no address")


def test_a_connection_that_the_daemon_closed_is_made_again(tmp_path: Path) -> None:
    idle = ("--idle-seconds", "0.2")
    with ipfs_daemon(tmp_path, options=idle) as daemon, BlockStore(daemon.api, allow_private=True) as store:
        for i in range(3):
            assert store.get(store.put(bytes([i]))) == bytes([i])
            time.sleep(0.4)


def test_a_proxy_of_the_environment_is_not_used(own: Daemon, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    with BlockStore(own.api, allow_private=True) as store:
        assert store.get(store.put(b"direct"), peers=[own.gateway]) == b"direct"


def test_an_auditor_reads_from_gateways_alone(theirs: BlockStore, publisher: Daemon) -> None:
    data = os.urandom(500)
    digest = theirs.put(data)
    with GatewayReader([NOWHERE, publisher.gateway], allow_private=True) as reader:
        assert reader.get(digest) == data
        assert reader.bytes_down == 500
    with GatewayReader(allow_private=True) as reader, pytest.raises(BlockUnavailable, match="nobody to ask"):
        reader.get(digest)
