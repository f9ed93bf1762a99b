"""`scripts/repeat`: what failed now and then is counted, and what was run already is not run again."""

from pathlib import Path

import pytest

from sapo_lab.sweeps import repeat

FLAKY = """
from pathlib import Path

def test_now_and_then():
    seen = Path({seen!r})
    seen.write_text(seen.read_text() + "x" if seen.exists() else "x")
    assert len(seen.read_text()) != 2, "the second | time"

def test_always():
    pass
"""


def test_each_run_is_a_row_and_a_failure_is_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, seen = tmp_path / "test_flaky.py", tmp_path / "seen"
    file.write_text(FLAKY.format(seen=str(seen)))
    words = [str(file), "--times", "3", "--at-once", "1", "--busy", "1", "--folder", str(tmp_path / "runs")]
    assert repeat.main([*words, "--page", str(tmp_path / "page.md")]) == 1
    written = (tmp_path / "page.md").read_text()
    assert "| `test_flaky::test_now_and_then` | 1 of 3 | AssertionError: the second \\| time |" in written
    rows = [line.split(" | ") for line in written.splitlines() if line.startswith(("| 1", "| 2", "| 3"))]
    assert [row[3] for row in rows] == ["2", "1", "2"]
    assert repeat.main(words) == 1, "from the files"
    assert len(seen.read_text()) == 3, "nothing was run again"
    capsys.readouterr()


def test_a_run_that_did_not_end_is_no_result(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="pytest ended with 4; see"):
        repeat.main([str(tmp_path / "absent.py"), "--times", "1", "--busy", "0", "--folder", str(tmp_path / "runs")])
    assert not list((tmp_path / "runs").glob("*.xml"))
