"""Opens a node's small SQLite files: what was committed stays, and what a power failure broke is said in words."""

import sqlite3
from pathlib import Path

from sapo_client.state.disk import disk_failure
from sapo_verifier.errors import SapoError, UnableError


class DatabaseBrokenError(SapoError):
    """A file that is no whole SQLite database any more."""


def open_database(path: Path, table: str, remedy: str) -> sqlite3.Connection:
    """table: what `CREATE TABLE IF NOT EXISTS` takes. remedy: what to do about a broken file, and what that costs.

    Every page is looked at now rather than in the middle of a round. Raises DatabaseBrokenError, or SapoError where the
    disk is at fault and not the file.
    """
    db = sqlite3.connect(path)
    try:
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("PRAGMA synchronous = FULL")
        found = db.execute("PRAGMA quick_check(1)").fetchone()[0]
        if found != "ok":
            raise sqlite3.DatabaseError(found)
        db.execute(f"CREATE TABLE IF NOT EXISTS {table}")
        db.commit()
    except sqlite3.DatabaseError as error:
        db.close()
        if (words := disk_failure(error)) is not None:
            raise UnableError(f"{path}: {words}") from error
        raise DatabaseBrokenError(f"{path} cannot be read ({error}); {remedy}") from error
    return db
