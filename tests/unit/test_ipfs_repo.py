import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from sapo_verifier.cid import BLOCK_LIMIT, block_digest
from sapo_verifier.ipfs.daemon.repo import BlockRepo
from sapo_verifier.ipfs.errors import BlockTooLarge, RepoError


@pytest.fixture
def repo(tmp_path: Path) -> Iterator[BlockRepo]:
    repo = BlockRepo(tmp_path / "repo")
    yield repo
    repo.close()


def file_of(repo: BlockRepo, digest: bytes) -> Path:
    return repo.path / "blocks" / digest.hex()[:2] / digest.hex()


@pytest.mark.parametrize("data", [b"", b"x", os.urandom(BLOCK_LIMIT)])
def test_put_and_get(repo: BlockRepo, data: bytes) -> None:
    digest = repo.put(data)
    assert digest == block_digest(data)
    assert repo.get(digest) == data
    assert repo.totals() == (1, len(data))
    assert repo.put(data) == digest
    assert repo.totals() == (1, len(data))
    assert list((repo.path / "tmp").iterdir()) == []


def test_missing_block(repo: BlockRepo) -> None:
    digest = bytes(32)
    assert repo.get(digest) is None
    assert not repo.delete(digest)
    assert not repo.unpin(digest)


def test_blocks_above_the_limit_are_refused(repo: BlockRepo) -> None:
    with pytest.raises(BlockTooLarge, match="1048577"):
        repo.put(bytes(BLOCK_LIMIT + 1))
    assert repo.totals() == (0, 0)


def test_everything_is_there_after_reopening(tmp_path: Path) -> None:
    first = BlockRepo(tmp_path)
    pinned, loose = first.put(b"pinned", pin=True), first.put(b"loose")
    first.close()
    (tmp_path / "tmp" / "half").write_bytes(b"half")
    second = BlockRepo(tmp_path)
    assert second.totals() == (2, 11)
    assert second.pins() == {pinned}
    assert second.get(loose) == b"loose"
    assert list((tmp_path / "tmp").iterdir()) == []
    second.close()


@pytest.mark.parametrize("damage", ["truncate", "empty", "flip", "grow"])
def test_a_damaged_file_is_missing_moved_aside_and_can_be_put_again(repo: BlockRepo, damage: str) -> None:
    data = bytes(range(256)) * 100
    digest = repo.put(data, pin=True)
    broken = {"truncate": data[:-1], "empty": b"", "flip": data[:-1] + b"\0", "grow": data + bytes(2 * BLOCK_LIMIT)}
    file_of(repo, digest).write_bytes(broken[damage])
    assert repo.get(digest) is None
    assert not file_of(repo, digest).exists()
    assert (repo.path / "damaged" / digest.hex()).read_bytes() == broken[damage]
    assert repo.totals()[0] == 0
    repo.put(data)
    assert repo.get(digest) == data
    assert repo.totals()[0] == 1


def test_putting_a_block_repairs_its_damaged_file(repo: BlockRepo) -> None:
    digest = repo.put(b"whole")
    file_of(repo, digest).write_bytes(b"who")
    repo.put(b"whole")
    assert repo.get(digest) == b"whole"


def test_pins_keep_blocks(repo: BlockRepo) -> None:
    kept, loose = repo.put(b"kept", pin=True), repo.put(b"loose")
    with pytest.raises(RepoError, match="pinned"):
        repo.delete(kept)
    assert repo.collect() == [loose]
    assert repo.get(kept) == b"kept"
    assert repo.unpin(kept)
    assert repo.collect() == [kept]
    assert repo.totals() == (0, 0)


def test_a_second_user_of_one_repository_is_refused_in_words(repo: BlockRepo) -> None:
    with pytest.raises(RepoError, match=rf"used by another daemon \(process {os.getpid()}\)"):
        BlockRepo(repo.path)


def test_a_folder_that_cannot_be_one_is_refused_in_words(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(RepoError, match="can be written"):
        BlockRepo(tmp_path / "file")


def test_a_full_disk_leaves_nothing_behind(repo: BlockRepo, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        repo.put(b"data", pin=True)
    monkeypatch.undo()
    assert repo.totals() == (0, 0)
    assert repo.pins() == set()
    assert list((repo.path / "tmp").iterdir()) == []


def test_many_threads_on_the_same_blocks(repo: BlockRepo) -> None:
    blocks = [bytes([i]) * 1000 for i in range(8)]
    with ThreadPoolExecutor(8) as pool:
        digests = list(pool.map(lambda i: repo.put(blocks[i % 8], pin=i % 2 == 0), range(80)))
        pool.map(lambda _: repo.collect(), range(4))
    assert repo.pins() == {digests[i] for i in range(0, 8, 2)}
    for i in range(0, 8, 2):
        assert repo.get(digests[i]) == blocks[i]
