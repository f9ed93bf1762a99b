"""Reports and the status file, also where a crash cut them short."""

import json
import os
import time
from pathlib import Path

from sapo_client.state.heartbeat import beating
from sapo_client.state.report import ROUNDS_FILE, STATUS_FILE, RoundReport, StatusFile, read_rounds, read_status
from sapo_devnet.testkit.alive import wait_until


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


def test_a_status_says_how_long_its_phase_lasts_and_when_the_node_got_on(tmp_path: Path) -> None:
    status = StatusFile(tmp_path)
    status.update(phase="training")
    since, progressed = status.get("phase_since"), status.get("progressed")
    time.sleep(0.02)
    status.beat()
    assert (status.get("phase_since"), status.get("progressed")) == (since, progressed)
    assert status.get("updated") > progressed
    status.update(phase="training")
    assert status.get("phase_since") == since
    assert status.get("progressed") > progressed
    status.update(phase="voting")
    assert status.get("phase_since") > since


def test_what_waits_is_known_since_it_was_first_seen_also_after_a_restart(tmp_path: Path) -> None:
    status = StatusFile(tmp_path)
    status.progress(["commit/1"])
    status.beat()
    first = (read_status(tmp_path) or {})["waiting"]["commit/1"]
    again = StatusFile(tmp_path)
    again.progress(["commit/1", "submit/1"])
    again.progress()
    again.beat()
    found = (read_status(tmp_path) or {})["waiting"]
    assert found["commit/1"] == first
    assert found["submit/1"] >= first
    again.progress([])
    again.beat()
    assert (read_status(tmp_path) or {})["waiting"] == {}


def test_a_status_is_renewed_while_the_node_waits(tmp_path: Path) -> None:
    status = StatusFile(tmp_path)
    status.update(phase="waiting for the beacon")
    before = status.get("updated")
    with beating(status, 0.02):
        wait_until("it is written anew", lambda: (read_status(tmp_path) or {})["updated"] > before, seconds=10)
        assert status.get("progressed") <= before, "which does not say that the node gets on"
    last = status.get("updated")
    time.sleep(0.1)
    assert status.get("updated") == last
