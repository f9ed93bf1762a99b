"""Raw blocks on disk: what the embedded daemon keeps.

    repo/repo.lock            held by the one daemon that uses the repository
    repo/blocks/ab/<hex>      a block, named by its sha2-256 digest
    repo/blocks/ab/<hex>.pin  an empty file: this block stays
    repo/tmp/                 blocks being written; emptied at start
    repo/damaged/<hex>        files that did not have their digest any more

A block is written aside, synced, and renamed, so `kill -9` leaves the whole block or none.
"""

import os
import re
import threading
from collections.abc import Iterator
from pathlib import Path

from sapo_verifier.cid import BLOCK_LIMIT, block_digest
from sapo_verifier.files import lock_file, sync_folder, write_file
from sapo_verifier.ipfs.errors import BlockTooLarge, RepoError

_NAME = re.compile(r"[0-9a-f]{64}")


class BlockRepo:
    """A repository folder. Every method may be called from any thread."""

    def __init__(self, path: Path) -> None:
        """Opens or creates the repository and takes its lock. Raises RepoError if it is taken or not writable."""
        self.path = path
        self._lock = threading.RLock()
        self._counter = 0
        try:
            path.mkdir(parents=True, exist_ok=True)
            self._lock_file = _take(path)
            for name in ("blocks", "tmp", "damaged"):
                (path / name).mkdir(exist_ok=True)
            # Synced here, since whoever made these folders may have died before it did.
            self._shards = {folder.name for folder in (path / "blocks").iterdir()}
            sync_folder(path / "blocks")
            sync_folder(path)
            for leftover in (path / "tmp").iterdir():
                leftover.unlink()
            self._pins = set(_digests(path / "blocks", ".pin"))
            sizes = [(path / "blocks" / d.hex()[:2] / d.hex()).stat().st_size for d in _digests(path / "blocks")]
        except OSError as error:
            raise RepoError(f"block repository {path}: {error}; give a folder that can be written") from error
        self._count, self._bytes = len(sizes), sum(sizes)

    def close(self) -> None:
        """Gives the lock back."""
        os.close(self._lock_file)

    def put(self, data: bytes, *, pin: bool = False) -> bytes:
        """Stores a block durably; returns its digest. Raises BlockTooLarge above 1 MiB, OSError if the disk fails."""
        if len(data) > BLOCK_LIMIT:
            raise BlockTooLarge(f"a block has at most {BLOCK_LIMIT} bytes, this one has {len(data)}; cut it")
        digest = block_digest(data)
        with self._lock:  # garbage collection takes it too, so it never sees the block before its pin
            is_new = self.get(digest) is None
            if is_new:
                self._write(self._file(digest), data)
                self._count += 1
                self._bytes += len(data)
            if pin and digest not in self._pins:
                self._pin_file(digest).touch()
                self._pins.add(digest)
                is_new = True
            if is_new:
                sync_folder(self._file(digest).parent)  # once for both
        return digest

    def get(self, digest: bytes) -> bytes | None:
        """The block, or None if it is missing. A file with other bytes is moved aside and counts as missing."""
        file = self._file(digest)
        try:
            # One byte more than allowed shows a file that grew, without reading all of it.
            with file.open("rb") as stream:
                data = stream.read(BLOCK_LIMIT + 1)
        except FileNotFoundError:
            return None
        if block_digest(data) == digest:
            return data
        with self._lock:
            self._set_aside(digest)
        return None

    def delete(self, digest: bytes) -> bool:
        """Removes a block that is not pinned. Returns whether there was one. Raises RepoError if it is pinned."""
        with self._lock:
            if digest in self._pins:
                raise RepoError(f"block {digest.hex()} is pinned; remove the pin first")
            file = self._file(digest)
            if not file.exists():
                return False
            size = file.stat().st_size
            file.unlink()
            self._count -= 1
            self._bytes -= size
            return True

    def unpin(self, digest: bytes) -> bool:
        """Removes a pin. Returns whether there was one."""
        with self._lock:
            if digest not in self._pins:
                return False
            self._pin_file(digest).unlink(missing_ok=True)
            self._pins.discard(digest)
            return True

    def pins(self) -> set[bytes]:
        """The digests of all pinned blocks."""
        with self._lock:
            return set(self._pins)

    def collect(self) -> list[bytes]:
        """Deletes every block without a pin; returns their digests."""
        removed = []
        for digest in list(_digests(self.path / "blocks")):
            with self._lock:
                if digest not in self._pins and self.delete(digest):
                    removed.append(digest)
        return removed

    def totals(self) -> tuple[int, int]:
        """(number of blocks, their bytes)."""
        with self._lock:
            return self._count, self._bytes

    def _file(self, digest: bytes) -> Path:
        return block_file(self.path, digest)

    def _pin_file(self, digest: bytes) -> Path:
        return self._file(digest).with_suffix(".pin")

    def _write(self, target: Path, data: bytes) -> None:
        """The caller syncs the folder."""
        shard = target.parent
        if shard.name not in self._shards:
            shard.mkdir(exist_ok=True)
            sync_folder(shard.parent)
            self._shards.add(shard.name)
        self._counter += 1
        aside = self.path / "tmp" / f"{target.name}.{self._counter}"
        write_file(target, data, synced="data", aside=aside)

    def _set_aside(self, digest: bytes) -> None:
        file = self._file(digest)
        # Another thread may have repaired or moved it since it was read.
        if not file.exists():
            return
        with file.open("rb") as stream:
            if block_digest(stream.read(BLOCK_LIMIT + 1)) == digest:
                return
        size = file.stat().st_size
        file.replace(self.path / "damaged" / digest.hex())
        self._count -= 1
        self._bytes -= size


def block_file(repo: Path, digest: bytes) -> Path:
    """Where a repository keeps a block, if it has it."""
    return repo / "blocks" / digest.hex()[:2] / digest.hex()


def _take(path: Path) -> int:
    """Takes repo.lock and writes the process id into it; the kernel gives it back when the process dies."""
    lock = path / "repo.lock"
    descriptor = lock_file(lock)
    if descriptor is None:
        owner = lock.read_bytes()[:20].decode("ascii", "replace").strip() or "unknown"
        raise RepoError(
            f"block repository {path} is used by another daemon (process {owner}); stop it, or give another --repo"
        )
    os.ftruncate(descriptor, 0)
    os.write(descriptor, f"{os.getpid()}\n".encode())
    return descriptor


def _digests(folder: Path, suffix: str = "") -> Iterator[bytes]:
    for shard in sorted(folder.iterdir()):
        if not shard.is_dir():
            continue
        for file in sorted(shard.iterdir()):
            name = file.name.removesuffix(suffix)
            if file.name == name + suffix and _NAME.fullmatch(name) and name.startswith(shard.name):
                yield bytes.fromhex(name)
