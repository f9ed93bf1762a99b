"""What an operator asked of a node: steps on chain that its one sender is to make, and a pause. One SQLite file in the
home, written by commands and by the node side by side; what was asked stays asked until it is settled.
"""

import secrets
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sapo_client.state.sqlite import beside, open_checked
from sapo_verifier.chain.contracts import Call

ASKED, PUT, DONE, REFUSED = "asked", "put", "done", "refused"
PAUSED = "paused by its operator"  # how the reason begins why such a round has no batch
KEPT = 100  # settled requests
REMEDY = "move it away: what was asked and is not on chain yet has to be asked again, and a pause is over"

REQUESTS = """CREATE TABLE IF NOT EXISTS request (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    kind TEXT NOT NULL,               -- of steps.py
    key TEXT NOT NULL,                -- its name in the outbox
    call TEXT,                        -- Call.to_json; NULL: the node only takes note of it
    value TEXT NOT NULL,              -- wei
    argument TEXT NOT NULL,           -- for people
    state TEXT NOT NULL,
    words TEXT NOT NULL DEFAULT '',
    hash BLOB                         -- of the mined transaction
)"""
PAUSES = """CREATE TABLE IF NOT EXISTS pause (
    id INTEGER PRIMARY KEY CHECK (id = 1), first INTEGER NOT NULL, until INTEGER NOT NULL
)"""


@dataclass(frozen=True)
class Request:
    """One step.

    state: asked: nobody has taken it. put: it is in the outbox. done: mined, or there was nothing to do. refused: it
    will never be. words: what it waits for, or what became of it.
    """

    id: int
    kind: str
    key: str
    call: Call | None  # None: the node only takes note of `argument`
    value: int  # wei
    argument: str
    state: str
    words: str
    hash: bytes | None

    @property
    def settled(self) -> bool:
        return self.state in (DONE, REFUSED)

    @property
    def title(self) -> str:
        """As it was typed."""
        return f"{self.kind} {self.argument}".strip()


@dataclass(frozen=True)
class Pause:
    """Rounds first … until − 1, in which nothing new is promised."""

    first: int
    until: int

    def covers(self, round_: int) -> bool:
        return self.first <= round_ < self.until


class RequestBook:
    """Of one home. Every write is on disk when its method returns; several processes may write."""

    def __init__(self, path: Path) -> None:
        """Raises as open_checked does."""
        self._db = open_checked(path, _prepare, REMEDY, str(path))

    def ask(self, kind: str, key: str, call: Call | None, value: int, argument: str) -> Request:
        """A new request, behind those that are open. The last open one of its kind instead, where that asks for the
        same: then only one is sent. key: of the outbox; a trailing "/" gets a number that nothing else has."""
        stored = call.to_json() if call else None
        with self._db:
            self._db.execute("BEGIN IMMEDIATE")  # two commands at once are one after the other
            last = self._found("kind = ? AND state IN ('asked', 'put') ORDER BY id DESC", kind)
            if last and (last[0].call, last[0].value, last[0].argument) == (call, value, argument):
                return last[0]
            name = key + secrets.token_hex(8) if key.endswith("/") else key
            made = self._db.execute(
                "INSERT INTO request (kind, key, call, value, argument, state) VALUES (?, ?, ?, ?, ?, 'asked')",
                (kind, name, stored, str(value), argument),
            ).lastrowid
            self._db.execute(
                "DELETE FROM request WHERE state IN ('done', 'refused') AND id <= ?", ((made or 0) - KEPT,)
            )
        return self.get(made or 0)

    def get(self, number: int) -> Request:
        return self._found("id = ?", number)[0]

    def open(self) -> list[Request]:
        """All that are not settled, in order."""
        return self._found("state IN ('asked', 'put') ORDER BY id")

    def note(self, request: Request, state: str, words: str = "", hash_: bytes | None = None) -> None:
        """What has become of it."""
        if (request.state, request.words, request.hash) != (state, words, hash_):
            with self._db:
                self._db.execute(
                    "UPDATE request SET state = ?, words = ?, hash = ? WHERE id = ?", (state, words, hash_, request.id)
                )

    def pause(self, current: int, rounds: int) -> Pause:
        """From round `current` on for so many rounds; instead of a pause that goes on, of which the beginning stays."""
        before = self.paused()
        first = before.first if before is not None and before.covers(current) else current
        made = Pause(first, current + rounds)
        with self._db:
            self._db.execute("INSERT OR REPLACE INTO pause VALUES (1, ?, ?)", (made.first, made.until))
        return made

    def resume(self, current: int) -> bool:
        """End the pause in round `current`. False if there was none."""
        with self._db:
            ended = self._db.execute("UPDATE pause SET until = ? WHERE first <= ? AND until > ?", (current,) * 3)
        return ended.rowcount > 0

    def paused(self) -> Pause | None:
        """The last pause, also one that is over."""
        row = self._db.execute("SELECT first, until FROM pause").fetchone()
        return Pause(*row) if row else None

    def close(self) -> None:
        self._db.close()

    def _found(self, condition: str, *values: Any) -> list[Request]:
        return _requests(self._db, condition, *values)


def read_requests(path: Path) -> tuple[Pause | None, Sequence[Request], bool]:
    """The last pause, what is open, and whether an exit was ever asked for; read beside the node. Nothing where there
    is no file, or none that can be read (`sapo run` says what is wrong with it)."""
    if not path.exists():
        return None, [], False
    try:
        with beside(path) as db:
            row = db.execute("SELECT first, until FROM pause").fetchone()
            left = bool(db.execute("SELECT 1 FROM request WHERE kind = 'exit' AND state != 'refused'").fetchone())
            return Pause(*row) if row else None, _requests(db, "state IN ('asked', 'put') ORDER BY id"), left
    except sqlite3.Error:
        return None, [], False


def _prepare(db: sqlite3.Connection) -> None:
    with db:
        db.execute(REQUESTS)
        db.execute(PAUSES)


def _requests(db: sqlite3.Connection, condition: str, *values: Any) -> list[Request]:
    columns = "id, kind, key, call, value, argument, state, words, hash"
    rows = db.execute(f"SELECT {columns} FROM request WHERE {condition}", values)  # noqa: S608 - constants of this file
    return [
        Request(id_, kind, key, Call.from_json(call) if call else None, int(value), *rest)
        for id_, kind, key, call, value, *rest in rows
    ]
