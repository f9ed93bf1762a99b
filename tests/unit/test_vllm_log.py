"""The log of a process that writes as long as it runs: small all the same, and the last one's is kept beside it."""

import subprocess
import sys
from pathlib import Path

import pytest

from sapo_client.generation.vllm import child_log

MODE = 0o777


def test_the_last_process_s_words_are_kept_beside(tmp_path: Path) -> None:
    log = tmp_path / "engine.log"
    for words in (b"first", b"second", b"third"):
        with child_log.begun(log) as file:
            file.write(words)
    assert (log.read_bytes(), child_log.older(log).read_bytes()) == (b"third", b"second")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["engine.log", "engine.log.1"]
    assert {path.stat().st_mode & MODE for path in tmp_path.iterdir()} == {0o600}


def test_a_long_log_is_cut_while_its_process_writes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(child_log, "MOST_BYTES", 1000)
    log = tmp_path / "engine.log"
    program = "import sys\nfor line in sys.stdin:\n sys.stderr.write(line * 10); sys.stderr.flush(); print(flush=True)"
    with child_log.begun(log) as errors:
        process = subprocess.Popen(
            [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True
        )
    assert process.stdin is not None
    assert process.stdout is not None
    for number in range(50):
        process.stdin.write(f"line {number:03d}\n")
        process.stdin.flush()
        process.stdout.readline()
        child_log.bound(log)
        assert log.stat().st_size <= 1000
        assert log.stat().st_blocks * 512 <= 8192, "cut, and no hole before what follows"
    process.communicate()
    assert log.read_text().endswith("line 049\n")
    assert child_log.older(log).stat().st_size <= 1100


def test_a_log_that_somebody_removed_bounds_itself(tmp_path: Path) -> None:
    child_log.bound(tmp_path / "engine.log")
    assert list(tmp_path.iterdir()) == []
