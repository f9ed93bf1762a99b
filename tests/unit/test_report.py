"""Reports and the status file, also where a crash cut them short."""

import json
import os
from pathlib import Path

from sapo_client.state.report import ROUNDS_FILE, STATUS_FILE, RoundReport, StatusFile, read_rounds, read_status


def test_reports_come_back_in_the_order_of_rounds(tmp_path: Path) -> None:
    assert read_rounds(tmp_path) == []
    for round_ in (2, 0, 1):
        RoundReport(round=round_, reward=round_).append_to(tmp_path)
    assert [(report["round"], report["reward"]) for report in read_rounds(tmp_path)] == [(0, 0), (1, 1), (2, 2)]


def test_the_last_report_of_a_round_counts(tmp_path: Path) -> None:
    RoundReport(round=3, reward=1).append_to(tmp_path)
    RoundReport(round=3, reward=5).append_to(tmp_path)
    assert [report["reward"] for report in read_rounds(tmp_path)] == [5]


def test_a_line_cut_short_spoils_no_other(tmp_path: Path) -> None:
    RoundReport(round=0).append_to(tmp_path)
    path = tmp_path / ROUNDS_FILE
    whole = path.read_text()
    RoundReport(round=1).append_to(tmp_path)
    for length in (1, 20, len(whole) - 2):
        path.write_text(whole + path.read_text()[len(whole) :][:length])
        RoundReport(round=2, reward=7).append_to(tmp_path)
        assert [(r["round"], r["reward"]) for r in read_rounds(tmp_path)] == [(0, 0), (2, 7)]


def test_a_report_is_one_line_whatever_it_says(tmp_path: Path) -> None:
    RoundReport(round=0, failures=["a\nb\u2028c\x85d"], skipped="ünï\r\n").append_to(tmp_path)
    (found,) = read_rounds(tmp_path)
    assert found["failures"] == ["a\nb\u2028c\x85d"]
    assert (tmp_path / ROUNDS_FILE).read_text().count("\n") == 1


def test_the_status_file_gathers_values_and_names_the_process(tmp_path: Path) -> None:
    assert read_status(tmp_path) is None
    status = StatusFile(tmp_path)
    status.update(phase="training", round=4)
    status.update(phase="auditing")
    found = read_status(tmp_path)
    assert found is not None
    assert (found["phase"], found["round"], found["pid"]) == ("auditing", 4, os.getpid())
    assert status.get("round") == 4
    assert found["updated"] >= found["started"]
    assert [path.name for path in tmp_path.iterdir()] == [STATUS_FILE], "nothing is left aside"


def test_a_status_that_a_crash_emptied_is_none(tmp_path: Path) -> None:
    for content in ("", '{"pid": 1'):
        (tmp_path / STATUS_FILE).write_text(content)
        assert read_status(tmp_path) is None


def test_readers_never_see_half_a_status(tmp_path: Path) -> None:
    """Replaced by a rename: a reader that has opened the old one reads the old one."""
    status = StatusFile(tmp_path)
    status.update(phase="a" * 5000)
    with (tmp_path / STATUS_FILE).open() as reader:
        status.update(phase="b")
        assert json.load(reader)["phase"] == "a" * 5000
