"""What an outbox forgets is never sent again, nothing that is open is forgotten, and the file stays whole and small."""

import random
import re
import sqlite3
import subprocess
import sys
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from sapo_client.state.settings import LEAST_HISTORY
from sapo_client.transactions import history
from sapo_client.transactions.history import KINDS
from sapo_client.transactions.outbox import Outbox
from sapo_client.transactions.store import Attempt, Entry, OutboxStore
from sapo_client.transactions.turns import Turns, put_anew, put_once
from sapo_devnet.checkout import ROOT
from sapo_verifier.chain.contracts import Call

FIRST, BLOCKS = 100, 10  # the block of round 0, and those of a round
POKE = Call("rounds", "poke")


def block_of(round_: int) -> int:
    return FIRST + round_ * BLOCKS + 3


def opened(path: Path) -> OutboxStore:
    """Not forced to disk at every step: what a power failure would take is not what is tested."""
    store = OutboxStore(path, "me")
    store._db.execute("PRAGMA synchronous = OFF")
    return store


def outbox_on(store: OutboxStore) -> Outbox:
    """As far as it asks its file only."""
    made = Outbox.__new__(Outbox)
    made._store = store
    return made


def add(store: OutboxStore, key: str, nonce: int | None = None, **columns: Any) -> Entry:
    """An entry, signed if it has a nonce."""
    entry = store.add(key, POKE, 0, columns.pop("deadline", None))
    if nonce is not None:
        store.add_attempt(
            Attempt(nonce.to_bytes(32, "big"), entry.id, nonce, b"\2" * 600, 1, 2, 3, empty=False, block=FIRST)
        )
    if columns:
        store.update(entry, **columns)
    return entry


def compacted(store: OutboxStore, current: int, rounds: int = 100) -> bool:
    return store.compact(current, rounds, FIRST, BLOCKS)


# -- which entries go --


MINED = {"status": "mined", "nonce": 7, "block": block_of(10), "confirmed": 1}


@pytest.mark.parametrize("key", [f"{kind}/10/1" for kind in KINDS])
def test_what_was_mined_goes_with_its_transactions_when_it_is_old(tmp_path: Path, key: str) -> None:
    store = opened(tmp_path / "outbox")
    add(store, key, **MINED, deadline=10)
    compacted(store, 110)
    assert store.keys("") == [key], "not one round too early"
    compacted(store, 111)
    assert store.keys("") == []
    assert store._db.execute("SELECT count(*) FROM attempt").fetchone()[0] == 0
    store.close()


@pytest.mark.parametrize(
    ("key", "columns"),
    [
        ("commit/10", {"status": "intent", "nonce": None}),
        ("commit/10", {"status": "sent"}),
        ("commit/10", {"confirmed": 0}),
        ("commit/10", {"status": "failed", "confirmed": 0}),
        ("commit/10", {"status": "expired", "confirmed": 0}),
        ("commit/10", {"deadline": 900}),
        ("register/0", {}),
        ("exit/10", {}),
        ("commit", {}),
    ],
)
def test_what_is_open_and_what_is_of_another_kind_stays(tmp_path: Path, key: str, columns: dict[str, Any]) -> None:
    store = opened(tmp_path / "outbox")
    add(store, key, **(MINED | columns))
    for current in (500, 600, 700):
        compacted(store, current)
    assert store.keys("") == [key]
    store.close()


@pytest.mark.parametrize("status", ["failed", "expired"])
def test_what_was_never_mined_is_dated_when_it_is_found(tmp_path: Path, status: str) -> None:
    store = opened(tmp_path / "outbox")
    add(store, "close/3", status=status)
    compacted(store, 1000)
    compacted(store, 1100)
    assert store.keys("") == ["close/3"]
    compacted(store, 1101)
    assert store.keys("") == []
    store.close()


def test_what_starts_again_is_dated_anew(tmp_path: Path) -> None:
    store = opened(tmp_path / "outbox")
    entry = add(store, "claim/1,2", status="failed")
    compacted(store, 1000)
    store.restart(entry)
    store.update(entry, status="failed")
    compacted(store, 1101)
    assert store.keys("") == ["claim/1,2"]
    for status in ("sent", "failed"):
        store.update(entry, status=status)
    compacted(store, 1202)
    assert store.keys("") == ["claim/1,2"], "dated by this pass"
    store.close()


def test_every_kind_of_key_is_known_here_and_is_asked_for_less_long_than_it_stays() -> None:
    """A kind that nobody has thought about stays for ever, which is safe, and fails here."""
    source = "".join(path.read_text() for path in (ROOT / "client" / "sapo_client").rglob("*.py"))
    found = set(re.findall(r'f?"([a-z-]+)/(?:\{|")', source)) - {"pocket", "blocks"}
    assert found == KINDS.keys() | {"register"}
    assert 1.5 * max(KINDS.values()) <= LEAST_HISTORY


# -- what follows from it --


class Player:
    """Asks for every kind of key as long as duties do, as they do; what comes of each is a matter of luck."""

    def __init__(self, path: Path, seed: int) -> None:
        self.store = opened(path)
        self.outbox = outbox_on(self.store)
        self.seed = seed
        self.decisions: list[tuple[int, Any]] = []
        self.nonce = 0

    def luck(self, *about: object) -> random.Random:
        return random.Random(f"{self.seed}/{about}")

    def play(self, current: int) -> None:
        before = set(self.store.keys(""))
        turns = Turns("me", self.outbox)
        for kind, within in KINDS.items():
            for about in {current - self.luck(kind, current, i).randint(0, within) for i in range(3)}:
                key, call = f"{kind}/{about}/1", self._call(kind, about, current)
                way = self.luck("way", kind).randrange(3)
                if kind in ("dispute", "absent") or way == 0:
                    turns.offer(key, call, crowd=1, needed=lambda: True, deadline_round=about + 3)
                elif way == 1:
                    put_anew(self.outbox, key, call)
                else:
                    put_once(self.outbox, key, call, deadline_round=about)
        turns.step(block_of(current))
        self.decisions.append((current, sorted(set(self.store.keys("")) - before)))
        sent = [key for kind in ("dispute/", "absent/") for key in self.outbox.keys(kind)]
        alive = [key for key in sent if self.outbox.state(key).status not in ("failed", "expired")]
        self.decisions.append((current, [key for key in alive if int(key.split("/")[1]) > current - 50]))
        self.decisions.append((current, self.outbox.pending()))
        held = [entry.nonce for entry in self.store.unconfirmed()]
        self.decisions.append((current, held))
        for entry in [*self.store.intents(), *self.store.in_flight(), *self.store.unconfirmed()]:
            self._go_on(entry.key, current)

    def _call(self, kind: str, about: int, current: int) -> Call:
        """The same for a thing, mostly: a reorganization can make it another one."""
        other = self.luck("call", kind, about, current).random() < 0.1
        return Call("disputes", "closeDispute", (about + 10**6 * other, about))

    def _go_on(self, key: str, current: int) -> None:
        entry, luck = self.store.get(key), self.luck("fate", key, current)
        assert entry is not None
        fate = luck.random()
        if key.endswith("3/1") and fate < 0.9:
            return  # some wait for very long
        if entry.status == "intent" and fate < 0.2:
            self.store.update(entry, status=luck.choice(["failed", "expired"]), reason="luck")
        elif entry.status == "intent":
            self.nonce += 1
            hash_ = self.nonce.to_bytes(32, "big")
            self.store.add_attempt(
                Attempt(hash_, entry.id, self.nonce, b"raw", 1, 2, 3, empty=False, block=block_of(current))
            )
        elif entry.status == "sent" and fate < 0.8:
            status = luck.choice(["mined", "mined", "mined", "failed", "expired"])
            self.store.update(entry, status=status, block=block_of(current))
        elif entry.status == "sent" and fate < 0.85:
            self.store.update(entry, status="intent", nonce=None)
        elif entry.status != "sent" and not entry.confirmed and fate < 0.7:
            self.store.update(entry, confirmed=1)
        elif entry.status != "sent" and not entry.confirmed and fate < 0.8:
            self.store.update(entry, status="sent", block=None)  # a reorganization


@pytest.mark.parametrize("seed", range(2))
def test_no_later_decision_depends_on_what_was_forgotten(tmp_path: Path, seed: int) -> None:
    """Two nodes with the same luck, one of which forgets; the shortest time that settings allow is far longer."""
    keeping, forgetting = (Player(tmp_path / name, seed) for name in ("keeps", "forgets"))
    rounds = 60
    for current in range(60, 200):
        for player in (keeping, forgetting):
            player.play(current)
        assert forgetting.decisions[-4:] == keeping.decisions[-4:]
        if current % 7 == seed:
            compacted(forgetting.store, current, rounds)
    columns = "key, status, nonce, block, hash, reason, deadline"
    kept, left = (
        {tuple(row) for row in player.store._db.execute(f"SELECT {columns} FROM entry")}  # noqa: S608
        for player in (keeping, forgetting)
    )
    assert left < kept
    assert len(left) < 0.7 * len(kept)
    assert any(int(key.split("/")[1]) < 120 for key in forgetting.outbox.pending()), "what is open stays"
    orphans = "SELECT count(*) FROM attempt WHERE entry NOT IN (SELECT id FROM entry)"
    assert forgetting.store._db.execute(orphans).fetchone()[0] == 0
    for player in (keeping, forgetting):
        player.store.close()


# -- the file --


def filled(path: Path, entries: int, raw: int = 600) -> None:
    """A file with so many confirmed entries of rounds 0 to 9, a young one, and one in flight with two attempts."""
    store = opened(path)
    with store._db as db:
        for i in range(entries):
            row = (f"commit/{i}", POKE.to_json(), block_of(i * 10 // entries), i)
            db.execute(
                "INSERT INTO entry (key, call, value, status, block, nonce, confirmed) "
                "VALUES (?, ?, '0', 'mined', ?, ?, 1)",
                row,
            )
            db.execute(
                "INSERT INTO attempt VALUES (?, last_insert_rowid(), ?, ?, 1, '2', '3', 0, 1)",
                (i.to_bytes(32, "big"), i, b"\1" * raw),
            )
    add(store, "commit/young", nonce=10**6, block=block_of(190), status="mined", confirmed=1)
    add(store, "commit/open", nonce=10**6 + 1)
    open_ = store.get("commit/open")
    assert open_ is not None
    for i in (9, 8):  # not in the order of their hashes
        store.add_attempt(Attempt(bytes([i]) * 32, open_.id, 10**6 + 1, b"raw", 1, 2, 3, empty=False, block=1))
    store.close()


def size(path: Path) -> int:
    return sum(each.stat().st_size for each in path.parent.iterdir() if each.name.startswith(path.name))


def test_the_file_shrinks_and_what_is_left_is_what_it_was(tmp_path: Path) -> None:
    path = tmp_path / "outbox"
    filled(path, 4000)
    before = size(path)
    store = opened(path)
    open_ = store.get("commit/open")
    assert open_ is not None
    attempts = store.attempts([open_])
    with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM entry").fetchone()  # `sapo status` looks meanwhile
        assert not compacted(store, 200)
    assert store.keys("") == ["commit/young", "commit/open"]
    assert store.get("commit/open") == open_
    assert store.attempts([open_]) == attempts, "in the same order"
    compacted(store, 200)
    store.close()
    assert before > 3_000_000
    assert size(path) < 100_000


def test_a_pass_is_bounded_and_says_that_there_is_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history, "MOST", 30)
    filled(tmp_path / "outbox", 100)
    store = opened(tmp_path / "outbox")
    passes = 1
    while compacted(store, 200):
        passes += 1
        assert passes < 10
    assert passes == 4
    assert store.keys("") == ["commit/young", "commit/open"]
    store.close()


def test_a_file_that_grows_and_forgets_is_not_written_anew_each_time(tmp_path: Path) -> None:
    store = opened(tmp_path / "outbox")
    said: list[str] = []
    store._db.set_trace_callback(said.append)
    sizes = []
    for round_ in range(1000):
        with store._db as db:
            for i in range(8):
                columns = "(key, call, value, status, block, nonce, confirmed)"
                row = (f"commit/{round_}/{i}", POKE.to_json(), block_of(round_), 8 * round_ + i)
                db.execute(f"INSERT INTO entry {columns} VALUES (?, ?, '0', 'mined', ?, ?, 1)", row)  # noqa: S608
                attempt = ((8 * round_ + i).to_bytes(32, "big"), 8 * round_ + i, b"\1" * 600)
                db.execute("INSERT INTO attempt VALUES (?, last_insert_rowid(), ?, ?, 1, '2', '3', 0, 1)", attempt)
        if round_ % 50 == 0:
            compacted(store, round_)
            sizes.append((tmp_path / "outbox").stat().st_size)
    assert "VACUUM" not in said
    assert max(sizes[10:]) <= 1.05 * max(sizes[5:10]), "flat once the first rounds go"
    store.close()


KILLED = """
import os, signal, sys
from pathlib import Path
from sapo_client.transactions.store import OutboxStore
store = OutboxStore(Path(sys.argv[1]), "me")
left = [int(sys.argv[3])]
def told(*_):
    left[0] -= 1
    if left[0] == 0:
        os.kill(os.getpid(), signal.SIGKILL)
if sys.argv[2] == "statements":
    store._db.set_trace_callback(told)
else:
    store._db.set_progress_handler(told, 20)  # instructions of SQLite's machine
store.compact(200, 100, 100, 10)
print(-left[0], flush=True)
os._exit(7)
"""


def state(path: Path) -> tuple[list[str], list[int]]:
    """Opening it also looks at every page."""
    store = OutboxStore(path, "me")
    attempts = [row[0] for row in store._db.execute("SELECT entry FROM attempt ORDER BY entry")]
    entries = [row[0] for row in store._db.execute("SELECT id FROM entry")]
    assert set(attempts) == set(entries)
    keys = store.keys("")
    store.close()
    return keys, attempts


@pytest.mark.parametrize(("what", "last"), [("statements", range(8)), ("instructions", (1, 8, 16, 24, 32, 60))])
def test_killed_at_any_moment_everything_old_is_there_or_nothing(
    tmp_path: Path, what: str, last: Iterable[int]
) -> None:
    """Before each statement, the commit and VACUUM among them, and in the middle of them."""
    filled(tmp_path / "outbox", 300, raw=9000)
    whole = state(tmp_path / "outbox")
    (tmp_path / "copy").write_bytes((tmp_path / "outbox").read_bytes())
    command = [sys.executable, "-c", KILLED, str(tmp_path / "copy"), what, "0"]
    total = int(subprocess.run(command, capture_output=True, timeout=60, check=False).stdout)
    moments = [1, 2, total // 2, *(total - back for back in last), 10 * total]
    ends = set()
    for moment in moments:
        path = tmp_path / str(moment) / "outbox"
        path.parent.mkdir()
        path.write_bytes((tmp_path / "outbox").read_bytes())
        command = [sys.executable, "-c", KILLED, str(path), what, str(moment)]
        ended = subprocess.run(command, timeout=60, check=False)
        now = state(path)
        assert now == whole or now[0] == ["commit/young", "commit/open"], moment
        ends.add((ended.returncode, now == whole))
        store = OutboxStore(path, "me")
        compacted(store, 200)
        store.close()
        assert state(path)[0] == ["commit/young", "commit/open"]
    assert ends == {(-9, True), (-9, False), (7, False)}, "before the commit, after it, and never killed"


FULL = """
import resource, sys
from pathlib import Path
from types import SimpleNamespace
from sapo_client.node.history import History
from sapo_client.transactions.store import OutboxStore
store = OutboxStore(Path(sys.argv[1]), "me")
outbox = SimpleNamespace(compact=lambda rounds, current: store.compact(current, rounds, 100, 10))
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]), resource.RLIM_INFINITY))
History(Path(sys.argv[1]).parent, outbox, 100).forget(200)
print(len(store.keys("")))
"""


def test_on_a_full_disk_everything_stays_and_the_node_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "outbox"
    filled(path, 2000)
    before = state(path)
    done = subprocess.run([sys.executable, "-c", FULL, str(path), "4096"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "2002\n"), done.stderr
    assert "what is older than 100 rounds stays for now: " in done.stderr
    assert state(path) == before
