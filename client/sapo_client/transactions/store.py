"""The outbox's memory: what is to be sent, and every transaction that was ever signed for it. SQLite, one process."""

import os
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sapo_client.state.sqlite import open_checked
from sapo_client.transactions import history
from sapo_verifier.chain.contracts import Call
from sapo_verifier.errors import UNABLE, SapoError
from sapo_verifier.files import lock_file

VERSION = 3
REMEDY = "move it away to start anew: transactions in flight are found again by their effects on chain"

SCHEMA = """
CREATE TABLE owner (identity TEXT NOT NULL);
CREATE TABLE entry (
    id INTEGER PRIMARY KEY,
    key TEXT NOT NULL UNIQUE,
    call TEXT,                        -- Call.to_json; NULL: an empty transaction that only fills a nonce
    value TEXT NOT NULL,              -- wei; text, as SQLite's integers end at 2^63
    deadline INTEGER,                 -- the last round in which it may be sent
    status TEXT NOT NULL,
    reason TEXT NOT NULL DEFAULT '',
    nonce INTEGER,                    -- of its newest transaction; NULL if there is none
    block INTEGER,                    -- in which it was mined
    hash BLOB,                        -- of the transaction that was mined
    confirmed INTEGER NOT NULL DEFAULT 0,
    beacon_round INTEGER,             -- sent only while the chain has this beacon for that round; NULL: always
    beacon BLOB,
    settled INTEGER                   -- the round of its end, once nothing changes it any more (history.py)
);
CREATE TABLE attempt (
    hash BLOB PRIMARY KEY,
    entry INTEGER NOT NULL REFERENCES entry (id),
    nonce INTEGER NOT NULL,
    raw BLOB NOT NULL,
    gas INTEGER NOT NULL,
    max_fee TEXT NOT NULL,            -- wei per gas
    tip TEXT NOT NULL,                -- wei per gas
    empty INTEGER NOT NULL,           -- 1: does nothing but use up the nonce
    block INTEGER NOT NULL            -- the latest block when it was signed
);
CREATE INDEX entry_status ON entry (status);
CREATE INDEX entry_unconfirmed ON entry (nonce) WHERE confirmed = 0;
CREATE INDEX attempt_entry ON attempt (entry);
CREATE INDEX entry_settled ON entry (settled);
"""

# What makes a version's tables those of the next one.
MIGRATIONS = {
    1: "ALTER TABLE entry ADD COLUMN beacon_round INTEGER; ALTER TABLE entry ADD COLUMN beacon BLOB;",
    2: "ALTER TABLE entry ADD COLUMN settled INTEGER; CREATE INDEX entry_settled ON entry (settled);",
}


class OutboxError(SapoError):
    """The outbox cannot be used as asked: in use, of another account, or a key that means something else already."""

    exit_status = UNABLE


@dataclass(frozen=True)
class Entry:
    """One call that has to reach the chain once."""

    id: int
    key: str
    call: Call | None  # None: an empty transaction that only fills a nonce
    value: int  # wei
    deadline: int | None
    status: str  # intent, sent, mined, failed or expired
    reason: str
    nonce: int | None
    block: int | None
    hash: bytes | None
    confirmed: bool
    beacon_round: int | None  # sent only while the chain has this beacon for that round; None: always
    beacon: bytes | None
    settled: int | None  # the round of its end, once nothing changes it any more (history.py)


@dataclass(frozen=True)
class Attempt:
    """One signed transaction. An entry has several where fees were raised or its nonce was lost."""

    hash: bytes
    entry: int
    nonce: int
    raw: bytes
    gas: int
    max_fee: int  # wei per gas
    tip: int  # wei per gas
    empty: bool
    block: int


class OutboxStore:
    """Every write is on disk when its method returns (WAL, synchronous=FULL)."""

    def __init__(self, path: Path, identity: str) -> None:
        """identity: whose transactions these are.

        Raises OutboxError if the file is in use or of somebody else, and as open_checked where it cannot be read.
        """
        path.parent.mkdir(parents=True, exist_ok=True)
        self.path = path
        self._lock: int | None = lock_file(path.with_name(path.name + ".lock"))
        if self._lock is None:
            raise OutboxError(
                f"the outbox {path} is in use by another process: one node per key. Stop the other one first"
            )
        try:
            self._db = open_checked(path, lambda db: self._open(db, identity), REMEDY, f"the outbox {path}")
        except BaseException:
            self._unlock()
            raise
        self._db.row_factory = sqlite3.Row

    def _open(self, db: sqlite3.Connection, identity: str) -> None:
        """Makes or updates the tables. Raises OutboxError for a later version's, and for another identity's."""
        version = db.execute("PRAGMA user_version").fetchone()[0]
        if version == 0:
            # One transaction, so that a crash leaves either no table or all of them.
            db.executescript(f"BEGIN; {SCHEMA} PRAGMA user_version = {VERSION}; COMMIT;")
        elif version in MIGRATIONS:
            steps = " ".join(MIGRATIONS[number] for number in range(version, VERSION))
            db.executescript(f"BEGIN; {steps} PRAGMA user_version = {VERSION}; COMMIT;")
        elif version != VERSION:
            raise OutboxError(f"the outbox {self.path} is of version {version}; this client reads {VERSION}")
        with db:
            found = db.execute("SELECT identity FROM owner").fetchone()
            if found is None:
                db.execute("INSERT INTO owner VALUES (?)", (identity,))
            elif found[0] != identity:
                raise OutboxError(
                    f"the outbox {self.path} belongs to {found[0]}, not to {identity}; use another file for each "
                    "account and network (after a chain's reset: a new one)"
                )

    def close(self) -> None:
        """May be called twice."""
        self._db.close()
        self._unlock()

    def _unlock(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    # -- entries --

    def add(
        self,
        key: str,
        call: Call | None,
        value: int,
        deadline: int | None,
        beacon: tuple[int, bytes] | None = None,
    ) -> Entry:
        with self._db:
            self._db.execute(
                "INSERT INTO entry (key, call, value, deadline, status, beacon_round, beacon) "
                "VALUES (?, ?, ?, ?, 'intent', ?, ?)",
                (key, call.to_json() if call else None, str(value), deadline, *(beacon or (None, None))),
            )
        found = self.get(key)
        assert found is not None
        return found

    def get(self, key: str) -> Entry | None:
        row = self._db.execute("SELECT * FROM entry WHERE key = ?", (key,)).fetchone()
        return _entry(row) if row else None

    def keys(self, prefix: str) -> list[str]:
        """All keys that begin so, oldest first."""
        rows = self._db.execute("SELECT key FROM entry WHERE substr(key, 1, ?) = ? ORDER BY id", (len(prefix), prefix))
        return [row[0] for row in rows]

    def intents(self) -> list[Entry]:
        """Not signed yet, oldest first."""
        return self._entries("status = 'intent' ORDER BY id")

    def in_flight(self) -> list[Entry]:
        """Signed and not mined, by nonce."""
        return self._entries("status = 'sent' ORDER BY nonce")

    def unconfirmed(self) -> list[Entry]:
        """Everything that has a nonce and is not yet deep enough in the chain, by nonce."""
        return self._entries("nonce IS NOT NULL AND confirmed = 0 ORDER BY nonce")

    def _entries(self, condition: str) -> list[Entry]:
        rows = self._db.execute(f"SELECT * FROM entry WHERE {condition}")  # noqa: S608 - constants of this file
        return [_entry(row) for row in rows]

    def update(self, entry: Entry, **values: Any) -> None:
        """Sets columns of an entry. Whoever sets it back to an earlier state makes it unsettled."""
        if values.get("status") in ("intent", "sent"):
            values["settled"] = None
        columns = ", ".join(f"{name} = ?" for name in values)
        with self._db:
            self._db.execute(f"UPDATE entry SET {columns} WHERE id = ?", (*values.values(), entry.id))  # noqa: S608

    def restart(self, entry: Entry) -> None:
        """As if it had just been put: its old transactions are of no entry any more, and are still the key's own."""
        with self._db:
            self._db.execute("UPDATE attempt SET entry = 0 WHERE entry = ?", (entry.id,))
            self._db.execute(
                "UPDATE entry SET status = 'intent', reason = '', nonce = NULL, block = NULL, hash = NULL, "
                "confirmed = 0, settled = NULL WHERE id = ?",
                (entry.id,),
            )

    def compact(self, current: int, rounds: int, first_block: int, round_blocks: int) -> bool:
        """See Outbox.compact. first_block: of round 0."""
        return history.compact(self._db, current, rounds, first_block, round_blocks)

    # -- attempts --

    def add_attempt(self, attempt: Attempt) -> None:
        """Stores a signed transaction and marks its entry as sent, both or neither."""
        a = attempt
        row = (a.hash, a.entry, a.nonce, a.raw, a.gas, str(a.max_fee), str(a.tip), int(a.empty), a.block)
        with self._db:
            # The same bytes may be signed again, also for an entry that was restarted.
            self._db.execute(
                "INSERT INTO attempt VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) "
                "ON CONFLICT (hash) DO UPDATE SET entry = excluded.entry",
                row,
            )
            self._db.execute(
                "UPDATE entry SET status = 'sent', reason = '', nonce = ? WHERE id = ?", (attempt.nonce, attempt.entry)
            )

    def attempts(self, entries: Sequence[Entry]) -> dict[int, list[Attempt]]:
        """By the entry's id, oldest first."""
        found: dict[int, list[Attempt]] = {}
        for entry in entries:
            rows = self._db.execute("SELECT * FROM attempt WHERE entry = ? ORDER BY rowid", (entry.id,))
            found[entry.id] = [_attempt(row) for row in rows]
        return found

    def signed(self, low: int) -> list[tuple[int, bytes, int]]:
        """Nonce, hash and block of every attempt from that nonce on, also of entries that were restarted."""
        rows = self._db.execute("SELECT nonce, hash, block FROM attempt WHERE nonce >= ?", (low,))
        return [tuple(row) for row in rows]


def _entry(row: sqlite3.Row) -> Entry:
    values = dict(row)
    values["call"] = Call.from_json(values["call"]) if values["call"] else None
    values["value"] = int(values["value"])
    values["confirmed"] = bool(values["confirmed"])
    return Entry(**values)


def _attempt(row: sqlite3.Row) -> Attempt:
    values = dict(row)
    values |= {"max_fee": int(values["max_fee"]), "tip": int(values["tip"]), "empty": bool(values["empty"])}
    return Attempt(**values)
