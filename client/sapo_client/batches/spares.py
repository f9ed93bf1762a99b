"""Copies of the blocks that a node owes, beside its daemon, to be put again where that has lost them.

    owed/<hex>/         a lot: what was kept together, by the digest of its first block, its root
    owed/<hex>/<hex>    one of its blocks

A daemon's blocks can go without the node's doing: somebody unpins them and Kubo collects, or its store is a new one.
With the embedded daemon a copy is another name of the daemon's own file, and takes no room.
"""

import os
import re
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path

from sapo_verifier.cid import block_digest

_NAME = re.compile(r"[0-9a-f]{64}")


class Spares:
    """folder: of the lots. repo: of the embedded daemon, if it is the one."""

    def __init__(self, folder: Path, repo: Path) -> None:
        self._folder = folder
        self._repo = repo

    def add(self, blocks: Mapping[bytes, bytes]) -> None:
        """Blocks by their digests that were put together, the root first, as one lot; not synced, since a copy that is
        torn is none. Raises OSError."""
        lot = self._lot(next(iter(blocks)))
        lot.mkdir(parents=True, exist_ok=True)
        for digest, block in blocks.items():
            file = lot / digest.hex()
            if _whole(file, digest) is not None:
                continue
            file.unlink(missing_ok=True)
            try:
                os.link(self._repo / "blocks" / digest.hex()[:2] / digest.hex(), file)
            except OSError:  # another daemon's, elsewhere or on another disk
                file.write_bytes(block)

    def roots(self) -> list[bytes]:
        """Of all lots."""
        return _digests(self._folder) if self._folder.exists() else []

    def blocks(self, root: bytes) -> Iterator[tuple[bytes, bytes | None]]:
        """A lot's blocks by their digests, the root first; None for one that is no longer whole here, either."""
        for digest in dict.fromkeys([root, *_digests(self._lot(root))]):
            yield digest, _whole(self._lot(root) / digest.hex(), digest)

    def drop(self, root: bytes) -> None:
        """The lot is owed no more; nothing happens if the digest is no lot's."""
        shutil.rmtree(self._lot(root), ignore_errors=True)

    def _lot(self, root: bytes) -> Path:
        return self._folder / root.hex()


def _digests(folder: Path) -> list[bytes]:
    return [bytes.fromhex(path.name) for path in sorted(folder.iterdir()) if _NAME.fullmatch(path.name)]


def _whole(file: Path, digest: bytes) -> bytes | None:
    try:
        data = file.read_bytes()
    except FileNotFoundError:
        return None
    return data if block_digest(data) == digest else None
