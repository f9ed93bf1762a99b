"""A child that speaks JSON lines: whatever it does, its parent hears of it in time, and nothing of it stays."""

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest

from sapo_verifier.child_process import ChildLostError, ChildProcess

LIMIT = 1 << 20
ECHO = "for line in sys.stdin: print(line, end='', flush=True)"
Start = Callable[..., ChildProcess]


@pytest.fixture
def start() -> Iterator[Start]:
    made: list[ChildProcess] = []

    def run(script: str, **options: Any) -> ChildProcess:
        values: dict[str, Any] = {
            "name": "the child",
            "env": {},
            "max_reply_bytes": LIMIT,
            "end_seconds": 2.0,
        } | options
        made.append(ChildProcess([sys.executable, "-c", f"import os, sys, time\n{script}"], **values))
        return made[-1]

    yield run
    for child in made:
        with suppress(ChildProcessError):
            if child.running:
                child.kill()


def gone(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rsplit(")", 1)[1].split()[0] == "Z"
    except FileNotFoundError:
        return True


def test_messages_of_any_length_come_back_in_order(start: Start) -> None:
    child = start(ECHO)
    for size in (0, 1, 70_000, LIMIT - 100, 3):
        assert child.ask({"text": "ä" * (size // 6)}, 10) == {"text": "ä" * (size // 6)}
    assert child.running
    child.end()


def test_what_it_says_first_and_more_than_one_line(start: Start) -> None:
    child = start('print(\'{"first": 1}\\n{"second": 2}\', flush=True)\ninput()\nprint(\'{"third": 3}\', flush=True)')
    assert [child.receive(10), child.receive(10), child.ask({}, 10)] == [{"first": 1}, {"second": 2}, {"third": 3}]
    child.end()


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("input(); sys.exit(7)", "the child ended with exit status 7"),
        ("input(); os.kill(os.getpid(), 9)", "the child ended with exit status -9"),
        ("input(); os.close(1); time.sleep(60)", "the child closed its pipe"),
        ("input(); time.sleep(60)", r"the child gave no reply within 0\.5 s"),
        ("input(); print('{' * 70_000, flush=True); time.sleep(60)", "is beyond 1000 bytes"),
        ("input(); print('{' * 70_000, end='', flush=True); time.sleep(60)", "is beyond 1000 bytes"),
    ],
)
def test_a_reply_that_does_not_come_is_said(start: Start, script: str, words: str) -> None:
    child = start(script, end_seconds=0.3, max_reply_bytes=1000)
    with pytest.raises(ChildLostError, match=words):
        child.ask({}, 0.5 if "within" in words else 10)
    child.kill()
    assert gone(child.pid)


def test_a_request_that_nobody_reads_ends_in_time(start: Start) -> None:
    child = start("time.sleep(60)")
    begun = time.monotonic()
    with pytest.raises(ChildLostError, match="no reply within 1 s"):
        child.ask({"text": "x" * LIMIT}, 1)
    assert time.monotonic() - begun < 10
    child.kill()


def test_a_request_to_a_dead_child_says_how_it_ended(start: Start) -> None:
    child = start("sys.exit(3)")
    while child.running:
        time.sleep(0.02)
    with pytest.raises(ChildLostError, match="ended with exit status 3"):
        child.ask({}, 10)
    child.kill()


@pytest.mark.parametrize("how", ["end", "kill"])
def test_what_it_started_ends_with_it(start: Start, how: str) -> None:
    """A grandchild has the pipes too, so that it would hold a parent that waits for their end."""
    child = start(
        "import subprocess\n"
        "grandchild = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])\n"
        "print('{\"pid\": %d}' % grandchild.pid, flush=True)\n" + ECHO
    )
    grandchild = child.receive(10)["pid"]
    assert not gone(grandchild)
    getattr(child, how)()
    deadline = time.monotonic() + 5
    while not gone(grandchild) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert gone(child.pid)
    assert gone(grandchild)


def test_it_may_end_by_itself_before_it_is_killed(start: Start, tmp_path: Any) -> None:
    child = start(f"{ECHO}\nopen({str(tmp_path / 'done')!r}, 'w').close()")
    child.ask({}, 10)
    child.end()
    assert (tmp_path / "done").exists()


def test_nothing_of_it_stays_open(start: Start) -> None:
    before = len(os.listdir("/proc/self/fd"))
    for how in ("end", "kill"):
        getattr(start(ECHO), how)()
    assert len(os.listdir("/proc/self/fd")) == before
