"""The outbox's file: what an earlier version wrote is read on, what a later one wrote is refused."""

import re
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from sapo_client.transactions.store import SCHEMA, VERSION, Attempt, OutboxError, OutboxStore
from sapo_verifier.chain.contracts import Call

POKE = Call("rounds", "poke")
NEW = {2: ("beacon_round INTEGER", "beacon BLOB"), 3: ("settled INTEGER", "CREATE INDEX entry_settled")}
MINED = ("commit/3", POKE.to_json(), "0", 2, "mined", 12, 7, b"h" * 32, 1)


def tables_of(version: int) -> str:
    """The tables without what later versions brought."""
    later = tuple(start for number, starts in NEW.items() if number > version for start in starts)
    lines = [line for line in SCHEMA.splitlines() if not line.strip().startswith(later)]
    bare = [re.sub(r"\s*--.*", "", line) for line in lines]
    return re.sub(r",\s*\)", ")", "\n".join(bare))


def written(path: Path, version: int) -> None:
    """As a client of that version left it: a call that is not signed, and one that was mined."""
    with closing(sqlite3.connect(path)) as db, db:
        db.executescript(f"{tables_of(version)} PRAGMA user_version = {version};")
        db.execute("INSERT INTO owner VALUES ('me')")
        row = ("submit/3", POKE.to_json(), "5", 7, "intent")
        db.execute("INSERT INTO entry (key, call, value, deadline, status) VALUES (?, ?, ?, ?, ?)", row)
        columns = "(key, call, value, deadline, status, nonce, block, hash, confirmed)"
        db.execute(f"INSERT INTO entry {columns} VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", MINED)  # noqa: S608


@pytest.mark.parametrize("version", [1, 2])
def test_an_outbox_of_an_earlier_version_is_read_on(tmp_path: Path, version: int) -> None:
    """A node that is updated between two transactions must not lose the first one."""
    written(tmp_path / "outbox", version)
    for _ in range(2):
        store = OutboxStore(tmp_path / "outbox", "me")
        (old,) = [entry for entry in store.intents() if entry.key == "submit/3"]
        assert (old.call, old.value, old.deadline, old.beacon_round, old.beacon) == (POKE, 5, 7, None, None)
        mined = store.get("commit/3")
        assert mined is not None
        assert (mined.status, mined.nonce, mined.hash, mined.settled) == ("mined", 12, b"h" * 32, None)
        store.close()
    store = OutboxStore(tmp_path / "outbox", "me")
    new = store.add("submit/4", POKE, 0, None, (4, b"b" * 32))
    assert (new.beacon_round, new.beacon) == (4, b"b" * 32)
    assert store.keys("submit/") == ["submit/3", "submit/4"]
    assert store.keys("submit_") == []
    store.compact(103, 100, 0, 5)
    assert store.keys("commit/") == [], "what was mined before the update is dated by its block"
    store.close()


@pytest.mark.parametrize("version", [1, 2])
def test_tables_that_were_brought_up_to_date_are_those_of_a_new_file(tmp_path: Path, version: int) -> None:
    written(tmp_path / "old", version)
    for name in ("old", "new"):
        OutboxStore(tmp_path / name, "me").close()
    found = []
    for name in ("old", "new"):
        with closing(sqlite3.connect(tmp_path / name)) as db:
            tables = {table: db.execute(f"PRAGMA table_info({table})").fetchall() for table in ("entry", "attempt")}
            indices = {row[0] for row in db.execute("SELECT name FROM sqlite_master WHERE type = 'index'")}
            found.append((tables, indices, db.execute("PRAGMA user_version").fetchone()))
    assert found[0] == found[1]


KILLED = """
import os, signal, sys
from pathlib import Path
from sapo_client.transactions import store
number, real = int(sys.argv[2]), store.open_checked
def opened(path, prepare, *more):
    def told(db):
        left = [number]
        def count(_):
            left[0] -= 1
            if left[0] == 0:
                os.kill(os.getpid(), signal.SIGKILL)
        db.set_trace_callback(count)
        prepare(db)
    return real(path, told, *more)
store.open_checked = opened
store.OutboxStore(Path(sys.argv[1]), "me")
"""


def test_killed_while_it_is_brought_up_to_date_it_is_one_version_or_the_other(tmp_path: Path) -> None:
    ends = []
    for number in range(1, 12):
        path = tmp_path / str(number)
        written(path, 1)
        ended = subprocess.run([sys.executable, "-c", KILLED, str(path), str(number)], timeout=60, check=False)
        with closing(sqlite3.connect(path)) as db:
            version = db.execute("PRAGMA user_version").fetchone()[0]
            columns = [row[1] for row in db.execute("PRAGMA table_info(entry)")]
        assert (version, "settled" in columns, "beacon" in columns) in ((1, False, False), (VERSION, True, True))
        store = OutboxStore(path, "me")
        assert store.keys("") == ["submit/3", "commit/3"]
        store.close()
        ends.append((ended.returncode, version))
    assert {(-9, 1), (-9, VERSION), (0, VERSION)} == set(ends)


def test_an_outbox_of_a_later_version_is_refused_in_words(tmp_path: Path) -> None:
    OutboxStore(tmp_path / "outbox", "me").close()
    with sqlite3.connect(tmp_path / "outbox") as db:
        db.execute(f"PRAGMA user_version = {VERSION + 1}")
    with pytest.raises(OutboxError, match=f"is of version {VERSION + 1}"):
        OutboxStore(tmp_path / "outbox", "me")


def test_what_was_signed_before_a_call_was_begun_anew_stays_the_key_s_own(tmp_path: Path) -> None:
    store = OutboxStore(tmp_path / "outbox", "me")
    entry = store.add("register/0", POKE, 0, None)
    first, second = (Attempt(hash_ * 32, entry.id, 4, b"raw", 1, 2, 1, False, 7) for hash_ in (b"a", b"b"))
    for attempt in (first, second, first):
        store.add_attempt(attempt)
    assert store.attempts([entry])[entry.id] == [first, second], "the same bytes are one transaction"
    store.restart(entry)
    assert store.attempts([entry])[entry.id] == []
    assert store.signed(4) == [(4, first.hash, 7), (4, second.hash, 7)]
    assert store.signed(5) == []
    store.add_attempt(second)  # the same call, nonce and fees give the same bytes
    assert store.attempts([entry])[entry.id] == [second]
    store.close()
