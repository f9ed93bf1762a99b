"""Old reports go, the others stay byte for byte; killed at any moment, the file is the old one or the new one."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sapo_client.state.report import ROUNDS_FILE, RoundReport, compact_rounds, read_rounds

KEEP = 5


def reported(home: Path, rounds: range) -> Path:
    for round_ in rounds:
        RoundReport(round=round_, reward=round_).append_to(home)
    return home / ROUNDS_FILE


def test_the_last_reports_stay_as_they_were_written(tmp_path: Path) -> None:
    path = reported(tmp_path, range(40))
    last = path.read_bytes().splitlines(keepends=True)[-KEEP:]
    compact_rounds(tmp_path, KEEP)
    assert path.read_bytes() == b"".join(last)
    before = path.stat()
    compact_rounds(tmp_path, KEEP)
    assert path.stat() == before, "nothing to do, nothing is written"
    assert [item.name for item in tmp_path.iterdir()] == [ROUNDS_FILE]


def test_nothing_is_made_where_nothing_was_reported(tmp_path: Path) -> None:
    compact_rounds(tmp_path, KEEP)
    assert list(tmp_path.iterdir()) == []


LINES = st.lists(
    st.one_of(
        st.integers(0, 30).map(lambda round_: json.dumps({"round": round_}).encode()),
        st.tuples(st.integers(0, 30), st.integers(0, 9)).map(
            lambda at: json.dumps({"round": at[0], "reward": at[1]}).encode()
        ),
        st.sampled_from([b"", b'{"round": 3', b"\xff\xfe", b'{"reward": 4}', b"[]"]),
    ),
    max_size=60,
)


@given(lines=LINES, whole=st.booleans(), keep=st.integers(1, 12))
def test_what_is_read_afterwards_is_the_end_of_what_was_read_before(
    tmp_path_factory: pytest.TempPathFactory, lines: list[bytes], whole: bool, keep: int
) -> None:
    """Whatever lines a crash has damaged, in whatever order rounds were reported, and reported again."""
    home = tmp_path_factory.mktemp("home")
    (home / ROUNDS_FILE).write_bytes(b"\n".join(lines) + b"\n" * whole)
    before = read_rounds(home)
    compact_rounds(home, keep)
    assert read_rounds(home)[-keep:] == before[-keep:]
    assert (home / ROUNDS_FILE).read_bytes().count(b"\n") <= keep


KILLED = """
import os, signal, sys
from pathlib import Path
from sapo_client.state import report
from sapo_verifier import files
home, moment = Path(sys.argv[1]), int(sys.argv[2])
left = [moment]
def dying(function):
    def called(*arguments, **options):
        left[0] -= 1
        if left[0] == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        done = function(*arguments, **options)
        left[0] -= 1
        if left[0] == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return done
    return called
for owner, name in ((os, "open"), (os, "fsync"), (os, "replace"), (Path, "replace"), (Path, "unlink")):
    setattr(owner, name, dying(getattr(owner, name)))
report.compact_rounds(home, 5)
os._exit(7)
"""


def test_killed_at_any_moment_it_is_the_old_file_or_the_new_one(tmp_path: Path) -> None:
    """Before and after each call that changes anything on the disk."""
    seen, moment = set(), 0
    while True:
        moment += 1
        home = tmp_path / str(moment)
        home.mkdir()
        path = reported(home, range(40))
        before = path.read_bytes()
        new = b"".join(before.splitlines(keepends=True)[-KEEP:])
        ended = subprocess.run([sys.executable, "-c", KILLED, str(home), str(moment)], timeout=60, check=False)
        if ended.returncode == 7:
            break
        assert ended.returncode == -9
        now = path.read_bytes()
        assert now in (before, new), moment
        seen.add(now)
        RoundReport(round=40).append_to(home)
        compact_rounds(home, KEEP)
        assert [report["round"] for report in read_rounds(home)] == [36, 37, 38, 39, 40]
        assert [item.name for item in home.iterdir()] == [ROUNDS_FILE], "nothing is left aside"
    assert moment > 8
    assert len(seen) == 2, "there were moments before and after"


FULL = """
import resource, sys
from pathlib import Path
from sapo_client.node.history import History
resource.setrlimit(resource.RLIMIT_FSIZE, (100, resource.RLIM_INFINITY))
History(Path(sys.argv[1]), None, 5).resume()
print("it goes on")
"""


def test_on_a_full_disk_the_old_file_stays_and_the_node_goes_on(tmp_path: Path) -> None:
    path = reported(tmp_path, range(40))
    before = path.read_bytes()
    done = subprocess.run([sys.executable, "-c", FULL, str(tmp_path)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "it goes on\n"), done.stderr
    assert "what is older than 5 rounds stays for now: [Errno 27]" in done.stderr
    assert path.read_bytes() == before
    assert [item.name for item in tmp_path.iterdir()] == [ROUNDS_FILE]
