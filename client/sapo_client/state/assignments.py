"""Settings by section and name, as the command line gives them: `--set section.key=value`."""

import tomllib
from collections.abc import Mapping, Sequence
from typing import Any

from sapo_verifier.errors import UsageError


def assigned(texts: Sequence[str]) -> dict[str, Any]:
    """A document with each `section.key=value`; the last of several for one key counts.

    A value is what TOML reads, and a string where TOML reads nothing (`cuda:1`). Raises UsageError for what has no key
    or no value.
    """
    document: dict[str, Any] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        keys = name.strip().split(".")
        if not equals or not all(keys):
            raise UsageError(f"--set {text}: give section.key=value, such as sapo.own_groups=8")
        change: Any = _value(value.strip())
        for key in reversed(keys):
            change = {key: change}
        document = merged(document, change, f"--set {text}")
    return document


def _value(text: str) -> Any:
    try:
        found = tomllib.loads(f"value = {text}")
    except tomllib.TOMLDecodeError:
        return text
    return found["value"] if len(found) == 1 else text


def merged(document: Mapping[str, Any], changes: Mapping[str, Any], where: str) -> dict[str, Any]:
    """The document with the changes, section by section. Raises UsageError where a plain setting is used as a section.

    where: what the changes were read from.
    """
    made = dict(document)
    for key, change in changes.items():
        if isinstance(change, Mapping):
            section = made.get(key, {})
            if not isinstance(section, Mapping):
                raise UsageError(f"{where}: {key} is a setting and no section; give {key}=value")
            made[key] = merged(section, change, where)
        else:
            made[key] = change
    return made
