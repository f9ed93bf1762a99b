"""One setting of node.toml changed by a command: everything else in the file, comments too, stays as it was written."""

import json
import re
import tomllib
from pathlib import Path

from sapo_client.state.assignments import merged
from sapo_client.state.settings import FILE_NAME
from sapo_verifier.errors import UsageError
from sapo_verifier.files import write_file


def change_setting(home: Path, section: str, key: str, value: str) -> bool:
    """Whether the file had another value. Durable when it returns.

    Raises UsageError, with what to write, where the file is written in a way that this cannot change safely.
    """
    path = (home / FILE_NAME).resolve()
    before = path.read_text(encoding="utf-8")
    document = tomllib.loads(before)
    wanted = merged(document, {section: {key: value}}, str(path))
    if wanted == document:
        return False
    line = f"{key} = {json.dumps(value, ensure_ascii=False)}"
    after = _with_line(before, section, key, line)
    if not _holds(after, wanted):
        raise UsageError(f"{path} could not be changed without touching more of it: write `{line}` under [{section}]")
    write_file(path, after.encode(), mode=0o600, aside=path.with_suffix(".tmp"))
    return True


def _with_line(text: str, section: str, key: str, line: str) -> str:
    """The text with the line in the section's table: instead of the key's own, or first in it."""
    lines = text.splitlines(keepends=True)
    heads = [number for number, each in enumerate(lines) if re.match(r"\s*\[", each)]
    start = next((n for n in heads if re.fullmatch(rf"\s*\[\s*{section}\s*\]\s*(#.*)?", lines[n].strip())), None)
    if start is None:
        return text.rstrip("\n") + f"\n\n[{section}]\n{line}\n"
    end = next((number for number in heads if number > start), len(lines))
    for number in range(start + 1, end):
        if found := re.fullmatch(rf"(\s*){key}\s*=\s*(?:\"[^\"]*\"|'[^']*')(\s*(?:#.*)?\n?)", lines[number]):
            lines[number] = found[1] + line + found[2]
            return "".join(lines)
    head = lines[start] if lines[start].endswith("\n") else lines[start] + "\n"
    return "".join([*lines[:start], head, line + "\n", *lines[start + 1 :]])


def _holds(text: str, wanted: dict[str, object]) -> bool:
    try:
        return tomllib.loads(text) == wanted
    except tomllib.TOMLDecodeError:
        return False
