"""The log in a file: as small as it was asked for, its owner's alone, and a full disk ends nothing but lines."""

import json
import logging
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from sapo_client.state.log_file import LogFile, logging_to
from sapo_client.state.settings import LogSettings
from sapo_verifier.errors import SapoError, UsageError

log = logging.getLogger("sapo.test.file")


@pytest.fixture(autouse=True)
def level() -> Iterator[None]:
    log.setLevel(logging.INFO)
    yield
    log.setLevel(logging.NOTSET)


@pytest.fixture
def no_umask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


def settings(**values: object) -> LogSettings:
    return LogSettings.model_validate({"file": "sapo.log", **values})


def files(folder: Path) -> dict[str, int]:
    return {path.name: path.stat().st_size for path in sorted(folder.iterdir())}


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


@pytest.mark.parametrize("form", ["text", "logfmt", "json"])
def test_rotation_bounds_the_bytes_and_loses_only_the_oldest(tmp_path: Path, form: str) -> None:
    with logging_to(tmp_path, settings(format=form, megabytes=0.004, files=3)):
        for number in range(2000):
            log.info("line %d is of some length, with ünïcode: %s", number, "ü" * (number % 40))
    sizes = files(tmp_path)
    assert list(sizes) == ["sapo.log", "sapo.log.1", "sapo.log.2"]
    assert max(sizes.values()) <= 4000
    assert sum(sizes.values()) > 6000, "what there is room for is kept"
    lines = [line for name in sorted(sizes, reverse=True) for line in (tmp_path / name).read_text().splitlines()]
    assert [f"line {2000 - len(lines) + i} is" in line for i, line in enumerate(lines)] == [True] * len(lines)


def test_a_line_longer_than_a_file_is_alone_in_it(tmp_path: Path) -> None:
    with logging_to(tmp_path, settings(megabytes=0.001, files=2)):
        for text in ("a", "b" * 5000, "c"):
            log.info(text)
    assert (tmp_path / "sapo.log").read_text().endswith("level=INFO c\n")
    assert "b" * 5000 in (tmp_path / "sapo.log.1").read_text()


@pytest.mark.usefixtures("no_umask")
def test_every_file_is_its_owner_s_alone(tmp_path: Path) -> None:
    """Also one that lies outside of the home, and one that was there with another mode."""
    outside, home = tmp_path / "logs", tmp_path / "home"
    for folder in (outside, home):
        folder.mkdir()
    (outside / "node.log").touch(0o644)
    with logging_to(home, settings(file=str(outside / "node.log"), megabytes=0.001)):
        for _ in range(50):
            log.info("x" * 50)
    assert {mode(path) for path in outside.iterdir()} == {0o600}
    assert len(files(outside)) == 5
    assert files(home) == {}


def test_standard_error_has_nothing_of_it_and_gets_it_back(tmp_path: Path) -> None:
    root, plain = logging.getLogger(), logging.StreamHandler(sys.stderr)
    root.addHandler(plain)
    try:
        with logging_to(tmp_path, settings()):
            assert plain not in root.handlers
        assert plain in root.handlers
        with logging_to(tmp_path, LogSettings(format="json")):
            json.loads(plain.format(logging.makeLogRecord({"msg": "x"})))
        assert plain.formatter is None
    finally:
        root.removeHandler(plain)


def test_what_ended_the_program_is_in_the_log(tmp_path: Path) -> None:
    for error in (SapoError("in words"), ZeroDivisionError("a fault")):
        with pytest.raises(type(error)), logging_to(tmp_path, settings(format="json")):
            raise error
    words, fault = map(json.loads, (tmp_path / "sapo.log").read_text().splitlines())
    assert (words["message"], "exception" in words) == ("the program ends: in words", False)
    assert fault["exception"].endswith("ZeroDivisionError: a fault")


def test_lines_are_added_to_what_is_there_and_a_cut_one_spoils_none(tmp_path: Path) -> None:
    (tmp_path / "sapo.log").write_text('{"message": "whole"}\n{"mess')
    with logging_to(tmp_path, settings(format="json")):
        log.info("next")
    first, cut, last = (tmp_path / "sapo.log").read_text().splitlines()
    assert (json.loads(first)["message"], cut, json.loads(last)["message"]) == ("whole", '{"mess', "next")


def test_a_log_that_was_removed_is_made_again(tmp_path: Path) -> None:
    with logging_to(tmp_path, settings()):
        log.info("one")
        (tmp_path / "sapo.log").unlink()
        log.info("two")
    assert (tmp_path / "sapo.log").read_text().endswith("two\n")


def test_what_cannot_be_a_log_is_refused_in_words_and_left_as_it_is(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo", 0o644)
    (tmp_path / "folder").mkdir(0o755)
    for name, words in (
        ("fifo", "no regular file"),
        ("folder", "directory"),
        ("missing/sapo.log", "No such file"),
        ("/dev/null", "no regular file"),
    ):
        chosen = settings(file=name)
        with pytest.raises(UsageError, match=f"cannot be the log: .*{words}"), logging_to(tmp_path, chosen):
            raise AssertionError("it was taken")
    assert mode(Path("/dev/null")) == 0o666
    assert mode(tmp_path / "fifo") == 0o644 & ~_umask()


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_in_which_nothing_can_be_rotated_is_refused(tmp_path: Path) -> None:
    (tmp_path / "sapo.log").touch()
    tmp_path.chmod(0o500)
    try:
        with pytest.raises(UsageError, match="could never be rotated"), logging_to(tmp_path, settings()):
            raise AssertionError("it was taken")
    finally:
        tmp_path.chmod(0o700)


FULL = """
import logging, resource, sys
from pathlib import Path
from sapo_client.state.log_file import logging_to
from sapo_client.state.settings import LogSettings
logging.getLogger().setLevel(logging.INFO)
with logging_to(Path(sys.argv[1]), LogSettings(file="sapo.log", format="json")):
    logging.info("before")
    resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]), resource.RLIM_INFINITY))
    for number in range(30):
        logging.info("lost %d", number)
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    logging.info("after")
print("went on")
"""


@pytest.mark.parametrize("room", [0, 150, 1000])
def test_a_full_disk_loses_lines_and_says_so_once(tmp_path: Path, room: int) -> None:
    done = subprocess.run(
        [sys.executable, "-c", FULL, str(tmp_path), str(room)], capture_output=True, text=True, check=True
    )
    assert done.stdout == "went on\n"
    assert done.stderr.count("\n") == 1, done.stderr
    assert f"the log {tmp_path / 'sapo.log'} takes no lines" in done.stderr
    lines = [json.loads(line)["message"] for line in (tmp_path / "sapo.log").read_text().splitlines()]
    assert (lines[0], lines[-1]) == ("before", "after")
    written = [line for line in lines if line.startswith("lost")]
    assert lines[-2] == f"{30 - len(written)} lines could not be written here"


OPENED_FULL = """
import logging, resource, sys
from pathlib import Path
from sapo_client.state import log_file
from sapo_client.state.settings import LogSettings
real, left = log_file.os.open, [3]
def full(*arguments):
    left[0] -= 1
    if left[0] >= 0:
        raise OSError(28, "No space left on device")
    return real(*arguments)
log_file.os.open = full
logging.getLogger().setLevel(logging.INFO)
with log_file.logging_to(Path(sys.argv[1]), LogSettings(file="sapo.log")):
    for number in range(5):
        logging.info("line %d", number)
"""


def test_a_disk_that_is_full_at_the_start_is_no_reason_not_to_start(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", OPENED_FULL, str(tmp_path)], capture_output=True, text=True, check=True
    )
    assert "No space left" in done.stderr
    lines = (tmp_path / "sapo.log").read_text().splitlines()
    assert [line.split("level=")[1] for line in lines] == [
        "WARNING 2 lines could not be written here",
        "INFO line 2",
        "INFO line 3",
        "INFO line 4",
    ]


def test_rotation_that_fails_writes_no_more_than_was_allowed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = LogFile(tmp_path / "sapo.log", 1000, 2)
    file.setFormatter(logging.Formatter("%(message)s"))

    def refused(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    with monkeypatch.context() as patch:
        patch.setattr(os, "rename", refused)
        for _ in range(100):
            file.emit(logging.makeLogRecord({"msg": "x" * 99}))
    assert files(tmp_path) == {"sapo.log": 1000}
    assert capsys.readouterr().err.count("takes no lines") == 1
    file.emit(logging.makeLogRecord({"msg": "y"}))
    file.close()
    assert (tmp_path / "sapo.log").read_text() == "90 lines could not be written here\ny\n"
    assert files(tmp_path)["sapo.log.1"] == 1000


def test_a_record_that_cannot_be_made_into_a_line_ends_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = LogFile(tmp_path / "sapo.log", 1000, 2)
    for words, arguments in (("%d", ("no number",)), ("next", ())):
        file.emit(logging.LogRecord("x", logging.INFO, "", 0, words, arguments, None))
    file.close()
    assert (tmp_path / "sapo.log").read_text() == "next\n"
    assert "Logging error" in capsys.readouterr().err
