"""Writes TOML; Python's own library only reads it."""

import json
import re
from collections.abc import Mapping
from typing import Any

_BARE = re.compile(r"[A-Za-z0-9_-]+")


def toml_of(document: Mapping[str, Any]) -> str:
    """A document of strings, numbers, booleans, lists and sections; what is deeper stands inline, in one line."""
    plain = [f"{_key(name)} = {_value(value)}" for name, value in document.items() if not isinstance(value, Mapping)]
    tables = [
        "\n".join([f"\n[{_key(name)}]", *(f"{_key(key)} = {_value(value)}" for key, value in table.items())])
        for name, table in document.items()
        if isinstance(table, Mapping)
    ]
    return "\n".join([*plain, *tables]) + "\n"


def _key(name: str) -> str:
    return name if _BARE.fullmatch(name) else _value(name)


def _value(value: Any) -> str:
    """As JSON writes it, which TOML reads the same, but for objects, surrogate pairs and a bare DEL."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_key(name)} = {_value(each)}" for name, each in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_value, value)) + "]"
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
