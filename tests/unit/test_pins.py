"""Which blocks stay, and until when."""

import sqlite3
from pathlib import Path

from sapo_client.batches.pins import PinBook

A, B = b"a" * 32, b"b" * 32


def test_a_block_expires_after_its_last_round(tmp_path: Path) -> None:
    pins = PinBook(tmp_path / "pins.sqlite")
    pins.keep([A], 5)
    assert pins.expired(5) == []
    assert pins.expired(6) == [A]
    pins.close()


def test_the_later_round_counts_in_either_order(tmp_path: Path) -> None:
    pins = PinBook(tmp_path / "pins.sqlite")
    pins.keep([A, A, B], 5)
    pins.keep([A], 9)
    pins.keep([B], 2)
    assert pins.expired(6) == [B]
    assert sorted(pins.expired(10)) == [A, B]
    pins.close()


def test_what_is_forgotten_is_gone_and_may_come_back(tmp_path: Path) -> None:
    pins = PinBook(tmp_path / "pins.sqlite")
    pins.keep([A], 1)
    pins.forget(A)
    pins.forget(B)
    assert pins.expired(100) == []
    pins.keep([A], 3)
    assert pins.expired(4) == [A]
    pins.close()


def test_pins_are_on_disk_when_keep_returns(tmp_path: Path) -> None:
    path = tmp_path / "pins.sqlite"
    first = PinBook(path)
    first.keep(iter([A]), 7)
    # Another connection sees it, though the first was never closed: a kill would lose nothing.
    assert sqlite3.connect(path).execute("SELECT digest, until FROM pins").fetchall() == [(A, 7)]
    second = PinBook(path)
    assert second.expired(8) == [A]
    second.close()
    first.close()


def test_the_book_is_as_large_as_what_is_kept(tmp_path: Path) -> None:
    """However many rounds it has seen: what is dropped leaves its place to others."""
    path = tmp_path / "pins.sqlite"
    pins = PinBook(path)
    sizes = []
    for round_ in range(60):
        pins.keep((f"{round_}/{i}".encode().ljust(32) for i in range(20)), round_ + 8)
        for digest in pins.expired(round_):
            pins.forget(digest)
        sizes.append(pins._db.execute("PRAGMA page_count").fetchone()[0])
    pins.close()
    assert path.stat().st_size < 60_000
    assert max(sizes) == max(sizes[:30])
