"""The outbox's file: what an earlier version wrote is read on, what a later one wrote is refused."""

import sqlite3
from pathlib import Path

import pytest

from sapo_client.transactions.store import SCHEMA, VERSION, Attempt, OutboxError, OutboxStore
from sapo_verifier.chain.contracts import Call

POKE = Call("rounds", "poke")
NEW = ("confirmed INTEGER NOT NULL DEFAULT 0,", "beacon_round", "beacon BLOB")


def first_version() -> str:
    """The tables without what came with version 2."""
    lines = [line for line in SCHEMA.splitlines() if not line.strip().startswith(NEW[1:])]
    return "\n".join(lines).replace(NEW[0], NEW[0].rstrip(","))


def test_an_outbox_of_version_1_is_read_on(tmp_path: Path) -> None:
    """A node that is updated between two transactions must not lose the first one."""
    with sqlite3.connect(tmp_path / "outbox") as db:
        db.executescript(f"{first_version()} PRAGMA user_version = 1;")
        db.execute("INSERT INTO owner VALUES ('me')")
        row = ("submit/3", POKE.to_json(), "5", 7, "intent")
        db.execute("INSERT INTO entry (key, call, value, deadline, status) VALUES (?, ?, ?, ?, ?)", row)
    for _ in range(2):
        store = OutboxStore(tmp_path / "outbox", "me")
        (old,) = [entry for entry in store.intents() if entry.key == "submit/3"]
        assert (old.call, old.value, old.deadline, old.beacon_round, old.beacon) == (POKE, 5, 7, None, None)
        store.close()
    store = OutboxStore(tmp_path / "outbox", "me")
    new = store.add("submit/4", POKE, 0, None, (4, b"b" * 32))
    assert (new.beacon_round, new.beacon) == (4, b"b" * 32)
    assert store.keys("submit/") == ["submit/3", "submit/4"]
    assert store.keys("submit_") == []
    store.close()


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
