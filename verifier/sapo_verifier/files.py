"""Files that are whole or not there, and locks that the kernel lets go of however their holder ends."""

import fcntl
import os
import secrets
from pathlib import Path
from typing import Literal

# How much of a file is on the disk itself, safe from a power failure, when `write_file` returns.
Synced = Literal["all", "data", "nothing"]


def write_file(
    path: Path,
    data: bytes,
    *,
    mode: int = 0o666,
    overwrite: bool = True,
    synced: Synced = "all",
    aside: Path | None = None,
) -> None:
    """Writes a file aside, then gives it its name: whoever looks finds all of it, or what was there before.

    mode: from its first byte on, less the umask. overwrite: False raises FileExistsError where the name is taken.
    synced: "data" leaves the name to the caller's `sync_folder`, once for several files. aside: where it is written,
    on the same disk, by one writer at a time; a random name beside `path` if None.
    Raises OSError; what a full disk took of the file is removed.
    """
    fresh = os.O_EXCL if aside is None else os.O_TRUNC  # a killed writer may have left something under a fixed name
    aside = aside or path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    descriptor = os.open(aside, os.O_WRONLY | os.O_CREAT | fresh, mode)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            if synced != "nothing":
                file.flush()
                os.fsync(file.fileno())
        if overwrite:
            aside.replace(path)
        else:
            os.link(aside, path)  # which, unlike a rename, fails where the name is taken
    finally:
        aside.unlink(missing_ok=True)
    if synced == "all":
        sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Forces the folder's names to disk: a file that was made, renamed or removed may be forgotten before."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def lock_file(path: Path, *, shared: bool = False) -> int | None:
    """Locks a file, which is made if need be, without waiting. None if another holder is in the way.

    The lock is the returned descriptor's: it ends with os.close, and with the process, whatever ends it.
    shared: only an exclusive lock is in the way.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    return descriptor
