"""The form of a program's log: text for people, or key=value or JSON for machines, with numbers as numbers.

Needs the standard library alone, and little of it: `--help` loads it.
"""

import json
import logging
import math
import re
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Literal

Format = Literal["text", "logfmt", "json"]

TEXT = "%(asctime)s level=%(levelname)s %(message)s"
OWN = ("time", "level", "logger", "message", "exception")  # of every line; no field may be called so

_NAME = "sapo_fields"  # in a LogRecord
_BARE = re.compile(r"[!#-<>-\[\]-~]+")  # printable ASCII without blanks, quotes, equals signs and backslashes


def begin() -> None:
    """Log as text to standard error, as every command does until its settings say otherwise."""
    logging.basicConfig(level=logging.INFO, format=TEXT, stream=sys.stderr)


def fields(**values: Any) -> dict[str, Any]:
    """What a line says, as values of their own: `log.info("round=%d", 7, extra=fields(round=7))`.

    Raises ValueError for a name that every line has already.
    """
    if taken := sorted(values.keys() & set(OWN)):
        raise ValueError(f"a line of the log has {', '.join(taken)} already")
    return {_NAME: values}


def formatter(form: Format) -> logging.Formatter:
    """What makes lines of that form; each is one line but for text, which may hold what a message holds."""
    return {"text": logging.Formatter(TEXT), "logfmt": LogfmtFormatter(), "json": JsonFormatter()}[form]


class JsonFormatter(logging.Formatter):
    """One object a line."""

    def format(self, record: logging.LogRecord) -> str:
        return json.dumps(self.document(record), allow_nan=False)

    def document(self, record: logging.LogRecord) -> dict[str, Any]:
        """What a line holds: strings, numbers, truth values and None."""
        made: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        found: Mapping[str, Any] = getattr(record, _NAME, {})
        made |= {name: _plain(value) for name, value in found.items()}
        if record.exc_info:
            made["exception"] = self.formatException(record.exc_info)
        return made


class LogfmtFormatter(JsonFormatter):
    """key=value, apart by blanks. A value with anything but printable ASCII in it, or with a blank, a quote, an equals
    sign or a backslash, is a JSON string, and so is an empty one."""

    def format(self, record: logging.LogRecord) -> str:
        return " ".join(f"{name}={_word(value)}" for name, value in self.document(record).items())


def _plain(value: Any) -> Any:
    """As JSON can say it: what is no string, number, truth value or None is put into words."""
    if value is None or isinstance(value, bool | int | str) or (isinstance(value, float) and math.isfinite(value)):
        return value
    return str(value)


def _word(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value)
    return text if _BARE.fullmatch(text) else json.dumps(text)
