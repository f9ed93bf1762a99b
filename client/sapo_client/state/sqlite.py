"""Opens a node's SQLite files: what was committed stays, and a broken file or a full disk is said in words."""

import errno
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from sapo_verifier.errors import SapoError, UnableError

DISK_ERRNOS = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EIO})
BESIDE_SECONDS = 2.0  # for a writer to let one read
DISK_ERRORS = ("SQLITE_FULL", "SQLITE_IOERR", "SQLITE_READONLY", "SQLITE_CANTOPEN")


class DatabaseBrokenError(SapoError):
    """A file that is no whole SQLite database any more."""


def open_database(path: Path, table: str, remedy: str) -> sqlite3.Connection:
    """A file with one table. table: what `CREATE TABLE IF NOT EXISTS` takes. Remedy and errors: see open_checked."""

    def prepare(db: sqlite3.Connection) -> None:
        db.execute(f"CREATE TABLE IF NOT EXISTS {table}")
        db.commit()

    return open_checked(path, prepare, remedy, str(path))


def open_checked(
    path: Path, prepare: Callable[[sqlite3.Connection], None], remedy: str, name: str
) -> sqlite3.Connection:
    """prepare: makes the tables, or refuses those that it finds, with an error of its own; the file is closed then.

    Every page is looked at now rather than in the middle of a round. remedy: what to do about a broken file, and what
    that costs. name: the file, in errors. Raises DatabaseBrokenError, or UnableError where the disk is at fault and not
    the file.
    """
    try:
        db = sqlite3.connect(path)
        try:
            db.execute("PRAGMA journal_mode = WAL")
            db.execute("PRAGMA synchronous = FULL")
            found = db.execute("PRAGMA quick_check(1)").fetchone()[0]
            if found != "ok":
                raise sqlite3.DatabaseError(found)
            prepare(db)
        except BaseException:
            db.close()
            raise
    except sqlite3.DatabaseError as error:
        if (words := disk_failure(error)) is not None:
            raise UnableError(f"{name}: {words}") from error
        raise DatabaseBrokenError(f"{name} cannot be read ({error}); {remedy}") from error
    return db


@contextmanager
def beside(path: Path) -> Iterator[sqlite3.Connection]:
    """To read beside whoever writes. Raises sqlite3.Error where there is no database, or none that can be read now."""
    with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True, timeout=BESIDE_SECONDS)) as db:
        yield db


def disk_failure(error: OSError | sqlite3.Error) -> str | None:
    """What to do about a disk that takes no more; None for an error that is not the disk's."""
    if isinstance(error, OSError):
        is_the_disk = error.errno in DISK_ERRNOS
    else:
        is_the_disk = getattr(error, "sqlite_errorname", "").startswith(DISK_ERRORS)
    if not is_the_disk:
        return None
    return (
        f"the disk took no more ({error}); make room, or see to its permissions, and run this again: it goes on from "
        "what was written whole"
    )
