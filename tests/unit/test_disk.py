"""A full disk ends a command with words, wherever it is noticed; other errors are not taken for one."""

import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from sapo_client import cli
from sapo_client.commands import status
from sapo_client.state.sqlite import disk_failure


def test_sqlite_says_that_its_disk_is_full(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "small.sqlite")) as db:
        db.execute("CREATE TABLE t (x)")
        db.execute("PRAGMA max_page_count = 3")
        with pytest.raises(sqlite3.OperationalError) as raised:
            db.execute("INSERT INTO t VALUES (zeroblob(100000))")
    words = disk_failure(raised.value)
    assert words is not None
    assert "make room" in words


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="this system has no /dev/full")
def test_the_system_says_that_its_disk_is_full() -> None:
    with pytest.raises(OSError) as raised, open("/dev/full", "wb", buffering=0) as file:
        file.write(b"x")
    words = disk_failure(raised.value)
    assert words is not None
    assert "No space left" in words


@pytest.mark.parametrize("error", [FileNotFoundError(2, "gone"), ConnectionRefusedError(111, "no")])
def test_other_errors_of_the_system_are_no_full_disk(error: OSError) -> None:
    assert disk_failure(error) is None


def test_a_wrong_statement_is_no_full_disk() -> None:
    with closing(sqlite3.connect(":memory:")) as db, pytest.raises(sqlite3.OperationalError) as raised:
        db.execute("SELECT x FROM nowhere")
    assert disk_failure(raised.value) is None


OPEN = """
import resource, sqlite3, sys
from pathlib import Path
from sapo_client.transactions.store import OutboxStore
from sapo_client.batches.pins import PinBook
from sapo_verifier.errors import SapoError
path = Path(sys.argv[2])
make = {"pins": lambda: PinBook(path), "outbox": lambda: OutboxStore(path, "me")}[sys.argv[1]]
make().close()
resource.setrlimit(resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))
try:
    make()
except SapoError as error:
    sys.exit(str(error))  # the words alone: a traceback quotes the source, and so whatever else it could say
"""


@pytest.mark.parametrize("name", ["pins", "outbox"])
def test_a_file_on_a_full_disk_is_not_called_broken(name: str, tmp_path: Path) -> None:
    """Whoever moves it away, as one does with a broken one, loses what it holds and pays for it."""
    done = subprocess.run(
        [sys.executable, "-c", OPEN, name, str(tmp_path / name)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert "make room" in done.stderr
    assert "move it away" not in done.stderr


def test_an_error_that_is_not_the_disk_s_is_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: object) -> int:
        raise ConnectionRefusedError(111, "no")

    monkeypatch.setattr(status, "run", fail)
    with pytest.raises(ConnectionRefusedError):
        cli.main(["status"])
