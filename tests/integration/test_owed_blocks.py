"""Blocks that vanish from a real daemon, whoever did it: they are put again, or it is said that they cannot be."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from sapo_client.batches.kept import KeptBlocks
from sapo_client.batches.pins import PinBook
from sapo_client.batches.spares import Spares
from sapo_devnet.testkit.ipfs_daemon import Daemon, ipfs_daemon
from sapo_devnet.testkit.ipfs_proxy import ipfs_proxy
from sapo_verifier.cid import block_digest, cid
from sapo_verifier.ipfs import BlockStore, StoreFailed
from sapo_verifier.schedule import KEEP_AFTER


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    with ipfs_daemon(tmp_path_factory.mktemp("daemon")) as running:
        yield running


@pytest.fixture(params=["external", "embedded"])
def kept(daemon: Daemon, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[KeptBlocks]:
    """Copies of its own, or other names of the daemon's files."""
    repo = daemon.repo if request.param == "embedded" else tmp_path / "none"
    pins = PinBook(tmp_path / "pins.sqlite")
    with BlockStore(daemon.api, allow_private=True) as store:
        yield KeptBlocks(store, pins, Spares(tmp_path / "owed", repo))
    pins.close()


def lot(count: int = 3) -> dict[bytes, bytes]:
    return {block_digest(block): block for block in (os.urandom(500) for _ in range(count))}


def wipe(daemon: Daemon, digests: dict[bytes, bytes]) -> None:
    for digest in digests:
        (daemon.repo / "blocks" / digest.hex()[:2] / digest.hex()).unlink()


def test_what_is_owed_is_put_again_until_it_is_owed_no_more(daemon: Daemon, kept: KeptBlocks, tmp_path: Path) -> None:
    first, second = lot(), lot()
    kept.keep(first.values(), 5)
    kept.keep(second.values(), 7)
    assert kept.look_after(6) == ""
    wipe(daemon, first)
    words = kept.look_after(6)
    assert "in round 6 the IPFS daemon had lost 3 blocks that this node owes: 3 are put again" in words
    assert all(kept.store.get(digest) == block for digest, block in first.items())
    assert kept.look_after(7) == ""
    kept.drop_old(5 + KEEP_AFTER + 1)
    assert not any(kept.store.has(digest) for digest in first)
    assert all(kept.store.has(digest) for digest in second)
    assert kept.look_after(15) == "", "the first lot is owed no more"
    assert [path.name for path in (tmp_path / "owed").iterdir()] == [next(iter(second)).hex()]


def test_a_lot_that_is_kept_again_is_owed_until_the_later_round(daemon: Daemon, kept: KeptBlocks) -> None:
    blocks = lot()
    kept.keep(blocks.values(), 1)
    kept.keep(blocks.values(), 4)
    kept.drop_old(1 + KEEP_AFTER + 1)
    wipe(daemon, blocks)
    assert "3 are put again" in kept.look_after(10)


def test_what_cannot_be_had_any_more_is_said(daemon: Daemon, kept: KeptBlocks, tmp_path: Path) -> None:
    blocks = lot()
    kept.keep(blocks.values(), 5)
    wipe(daemon, blocks)
    *_, torn, gone = (tmp_path / "owed" / next(iter(blocks)).hex() / digest.hex() for digest in blocks)
    torn.write_bytes(b"half")
    gone.unlink()
    words = kept.look_after(6)
    assert "had lost 2 blocks" in words, "what is not here is not known"
    assert "1 are put again" in words
    assert "The copies of 1 are broken, too: peers cannot fetch them" in words
    kept.keep(blocks.values(), 5)
    wipe(daemon, blocks)
    assert "3 are put again" in kept.look_after(7), "made again, it is whole again"


def test_a_lot_that_nobody_noted_goes(kept: KeptBlocks, tmp_path: Path) -> None:
    """The book was moved away, or the node was killed between the two."""
    blocks = lot(1)
    kept.keep(blocks.values(), 5)
    kept.pins.forget(*blocks)
    assert kept.look_after(6) == ""
    assert not list((tmp_path / "owed").iterdir())


def test_a_daemon_that_takes_blocks_and_has_none_is_refused_in_words(daemon: Daemon, tmp_path: Path) -> None:
    """Before anything is promised on chain; and bounded."""
    block = b"taken, and gone"
    pins = PinBook(tmp_path / "pins.sqlite")
    with ipfs_proxy(daemon.api_url) as proxy, BlockStore(proxy.api, allow_private=True) as store:
        kept = KeptBlocks(store, pins, Spares(tmp_path / "owed", tmp_path))
        name = cid(block_digest(block))
        proxy.instead = (200, {"Content-Type": "application/json"}, f'{{"Key": "{name}", "Size": 15}}'.encode())
        proxy.not_instead = ("block/stat",)
        with pytest.raises(StoreFailed, match="took 1 blocks and does not have 1 of them"):
            kept.keep([block], 3)
        assert [command for command, _ in proxy.asked] == ["block/put", "block/stat"] * 2
    pins.close()
