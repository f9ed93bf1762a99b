"""A disk that takes no more: what SQLite and the operating system say of it, in words."""

import errno
import sqlite3

ERRNOS = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EIO})
SQLITE = ("SQLITE_FULL", "SQLITE_IOERR", "SQLITE_READONLY", "SQLITE_CANTOPEN")


def disk_failure(error: OSError | sqlite3.Error) -> str | None:
    """What to do about it; None for an error that is not the disk's."""
    if isinstance(error, OSError):
        is_the_disk = error.errno in ERRNOS
    else:
        is_the_disk = getattr(error, "sqlite_errorname", "").startswith(SQLITE)
    if not is_the_disk:
        return None
    return (
        f"the disk took no more ({error}); make room, or see to its permissions, and run this again: it goes on from "
        "what was written whole"
    )
