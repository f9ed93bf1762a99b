"""Files that are whole or not there, and locks: what keys, blocks and checkpoints rely on."""

import os
import stat
from pathlib import Path

import pytest

from sapo_verifier.files import Synced, lock_file, write_file


def test_a_file_is_replaced_and_nothing_else_stays(tmp_path: Path) -> None:
    path = tmp_path / "file"
    for data in (b"first", b"", b"third"):
        write_file(path, data)
        assert path.read_bytes() == data
    assert list(tmp_path.iterdir()) == [path]


def test_the_mode_is_there_before_the_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    modes: list[int] = []
    replace = Path.replace
    monkeypatch.setattr(Path, "replace", lambda a, b: (modes.append(stat.S_IMODE(a.stat().st_mode)), replace(a, b))[1])
    write_file(tmp_path / "file", b"data", mode=0o600)
    assert modes == [0o600]


def test_what_is_there_is_not_overwritten_where_that_is_forbidden(tmp_path: Path) -> None:
    path = tmp_path / "file"
    write_file(path, b"first", overwrite=False)
    with pytest.raises(FileExistsError):
        write_file(path, b"second", overwrite=False)
    assert path.read_bytes() == b"first"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    ("synced", "events"),
    [("all", ["file", "name", "folder"]), ("data", ["file", "name"]), ("nothing", ["name"])],
)
def test_data_is_on_disk_before_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, synced: Synced, events: list[str]
) -> None:
    seen: list[str] = []
    fsync, replace = os.fsync, Path.replace

    def note(descriptor: int) -> None:
        seen.append("folder" if stat.S_ISDIR(os.fstat(descriptor).st_mode) else "file")
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", note)
    monkeypatch.setattr(Path, "replace", lambda self, to: (seen.append("name"), replace(self, to))[1])
    write_file(tmp_path / "file", b"data", synced=synced)
    assert seen == events


@pytest.mark.parametrize("overwrite", [True, False])
def test_a_full_disk_leaves_what_was_there_and_no_half(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, overwrite: bool
) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"before")

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        write_file(path, b"after", overwrite=overwrite)
    assert path.read_bytes() == b"before"
    assert list(tmp_path.iterdir()) == [path]


def test_what_a_killed_writer_left_aside_is_written_over(tmp_path: Path) -> None:
    aside = tmp_path / "aside"
    aside.write_bytes(b"half of something longer")
    write_file(tmp_path / "file", b"data", aside=aside)
    assert (tmp_path / "file").read_bytes() == b"data"
    assert not aside.exists()


def test_one_exclusive_holder_or_several_that_share(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    held = lock_file(path)
    assert held is not None
    assert lock_file(path) is None
    assert lock_file(path, shared=True) is None
    os.close(held)
    looking = [lock_file(path, shared=True) for _ in range(2)]
    assert None not in looking
    assert lock_file(path) is None
    for descriptor in looking:
        assert descriptor is not None
        os.close(descriptor)
    held = lock_file(path)
    assert held is not None
    os.close(held)


def test_a_refused_lock_leaves_no_descriptor(tmp_path: Path) -> None:
    held = lock_file(tmp_path / "lock")
    assert held is not None
    before = len(os.listdir("/proc/self/fd"))
    assert lock_file(tmp_path / "lock") is None
    assert len(os.listdir("/proc/self/fd")) == before
    os.close(held)
