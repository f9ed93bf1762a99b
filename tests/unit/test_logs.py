"""Lines of the log in three forms, read back: nothing is lost, and no message makes a second line or another field."""

import json
import logging
import re
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sapo_client.batches.auditing import AuditCounts
from sapo_client.batches.submitting import OwnRound
from sapo_client.node.loop import Node
from sapo_client.node.reporting import Stages
from sapo_client.state import logs
from sapo_client.state.logs import fields, formatter
from sapo_verifier.audit import Cost

PAIR = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)=("(?:[^"\\]|\\.)*"|[^" =\\]+)(?: |$)')
TEXTS = st.text(st.characters(), max_size=40)  # lone surrogates, too
VALUES = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), TEXTS)
NAMES = st.from_regex(r"\A[a-z][a-z_]{0,8}\Z").filter(lambda name: name not in logs.OWN)


def parsed(line: str) -> dict[str, str]:
    """A line of logfmt: every value as text."""
    found, at = {}, 0
    while at < len(line):
        pair = PAIR.match(line, at)
        assert pair is not None, f"{line!r} is no logfmt from {at} on"
        name, word = pair.groups()
        assert name not in found
        found[name] = str(json.loads(word)) if word.startswith('"') else word
        at = pair.end()
    return found


def record(message: str, *args: Any, level: int = logging.INFO, **values: Any) -> logging.LogRecord:
    made = logging.LogRecord("sapo.test", level, "", 0, message, args, None)
    vars(made).update(fields(**values))
    return made


@given(message=TEXTS, values=st.dictionaries(NAMES, VALUES, max_size=4))
def test_a_line_of_json_comes_back_as_it_went_in(message: str, values: dict[str, Any]) -> None:
    line = formatter("json").format(record("%s", message, **values))
    assert line.isascii()
    assert "\n" not in line
    found = json.loads(line)
    assert [found.pop(name) for name in ("level", "logger", "message")] == ["INFO", "sapo.test", message]
    del found["time"]
    odd = {name: value for name, value in values.items() if isinstance(value, float) and str(value)[-1] in "nf"}
    assert found == values | {name: str(value) for name, value in odd.items()}, "numbers are numbers"


@given(message=TEXTS, values=st.dictionaries(NAMES, VALUES, max_size=4))
def test_a_line_of_logfmt_comes_back_as_it_went_in(message: str, values: dict[str, Any]) -> None:
    line = formatter("logfmt").format(record("%s", message, **values))
    assert line.isascii()
    assert "\n" not in line
    found = parsed(line)
    assert list(found) == ["time", "level", "logger", "message", *values]
    assert found["message"] == message
    for name, value in values.items():
        assert found[name] == (json.dumps(value) if value is None or isinstance(value, bool) else str(value))


def test_words_are_quoted_only_where_they_must_be() -> None:
    line = formatter("logfmt").format(record("a b", plain="0xab/c:d", empty="", equals="a=b", quote='"', n=3, x=0.5))
    assert line.split("message=")[1] == r'"a b" plain=0xab/c:d empty="" equals="a=b" quote="\"" n=3 x=0.5'


@pytest.mark.parametrize("form", ["json", "logfmt"])
def test_the_time_is_that_of_utc(form: Any) -> None:
    line = formatter(form).format(record("now"))
    text = json.loads(line)["time"] if form == "json" else parsed(line)["time"]
    said = datetime.fromisoformat(text)
    assert said.utcoffset() == timedelta(0)
    assert abs(datetime.now(UTC) - said) < timedelta(seconds=10)


@pytest.mark.parametrize(("form", "read"), [("json", json.loads), ("logfmt", parsed)])
def test_a_traceback_is_one_field(form: Any, read: Callable[[str], dict[str, str]]) -> None:
    failed = record("it failed", level=logging.ERROR)
    try:
        raise ValueError("a\nb")
    except ValueError:
        failed.exc_info = sys.exc_info()
    line = formatter(form).format(failed)
    assert "\n" not in line
    assert read(line)["exception"].endswith("ValueError: a\nb")


def test_text_is_what_it_was() -> None:
    line = formatter("text").format(record("round=%d", 7, reward=3))
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} level=INFO round=7", line)


def test_a_field_cannot_stand_for_what_every_line_has() -> None:
    with pytest.raises(ValueError, match="level, message"):
        fields(message="x", level=3, round=1)


def test_the_line_of_a_round_has_its_numbers(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    parts: Any = SimpleNamespace(
        home=tmp_path,
        reader=SimpleNamespace(deployment=SimpleNamespace(spec=None)),
        blocks=SimpleNamespace(traffic=lambda: (5, 7)),
        auditor=SimpleNamespace(cost=lambda: Cost(load=0.5, passes=2.0)),
        learner=SimpleNamespace(trained=-1),
        status=None,
        poll_seconds=0.0,
        patience_minutes=0.0,
        daemon_patience_minutes=0.0,
    )
    stop: Any = None
    with caplog.at_level(logging.INFO):
        audited = AuditCounts(failures=["a sentence"])
        Node(parts, stop)._report(3, bytes(32), OwnRound([], skipped="too late"), audited, Stages(waiting=1.5))
    (said,) = caplog.records
    found = json.loads(formatter("json").format(said))
    assert found["message"].startswith("round=3 reward=0/0 ")
    expected = {"round": 3, "reward": 0, "bytes_up": 5, "bytes_down": 7, "seconds_waiting": 1.5, "skipped": "too late"}
    expected |= {"seconds_policy_load": 0.5, "seconds_policy_merge": 0.0, "seconds_policy_passes": 2.0}
    assert {name: found[name] for name in expected} == expected
    assert "failures" not in found
