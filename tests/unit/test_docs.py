"""What the documents say can be followed: links and anchors lead somewhere, commands and their options exist."""

import argparse
import re
import shlex
from collections.abc import Iterator
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import pytest
from pydantic import BaseModel

from sapo_client import cli
from sapo_client.state.settings import Settings
from sapo_devnet import command
from sapo_devnet.checkout import ROOT
from sapo_verifier import cli as verify

PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
NAMES = [str(page.relative_to(ROOT)) for page in PAGES]
PROGRAMS = {"sapo": cli.PROGRAM, "sapo-verify": verify.PROGRAM}
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#{1,6} +(.+?) *#*$", re.MULTILINE)
FENCED = re.compile(r"^```[^\n]*\n(.*?)^```", re.MULTILINE | re.DOTALL)
INDENTED = re.compile(r"(?:^ {4,}\S.*(?:\n|\Z))+", re.MULTILINE)
SPAN = re.compile(r"`([^`]+)`")
CALL = re.compile(r"(?:^|[\s'(]|bin/)(sapo(?:-verify)?) +([^|;>]*)")
CHAINED = re.compile(r"&&|\$\(|`")


def slug(heading: str) -> str:
    """The anchor that GitHub makes of a heading."""
    words = re.sub(r"[`*]|\[([^\]]*)\]\([^)]*\)", r"\1", heading).strip().lower()
    return re.sub(r"[^\w\- ]", "", words).replace(" ", "-")


@cache
def anchors(page: Path) -> frozenset[str]:
    return frozenset(map(slug, HEADING.findall(FENCED.sub("", page.read_text(encoding="utf-8")))))


def broken_links(page: Path, text: str) -> Iterator[str]:
    """Of a page's text: links to files that are not there, and to headings that their page does not have."""
    for target in LINK.findall(FENCED.sub("", text)):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        file = page if not path else (page.parent / path).resolve()
        if not file.exists() or (anchor and file.suffix == ".md" and anchor not in anchors(file)):
            yield target


def shown(text: str) -> Iterator[str]:
    """Lines of a page that are code, continued ones in one, and spans of code."""
    outside = FENCED.sub("", text)
    for block in [*FENCED.findall(text), *INDENTED.findall(outside)]:
        for line in re.sub(r"\\\n\s*", " ", block).splitlines():
            yield line.split(" # ")[0].split("  #")[0].strip()
    for span in SPAN.findall(INDENTED.sub("", outside)):
        yield " ".join(span.split())


def calls(line: str) -> Iterator[tuple[str, list[str]]]:
    """Program and words, where a line calls one of ours."""
    for part in CHAINED.split(line):
        for program, rest in CALL.findall(part):
            if part.startswith("pip ") or " pip install" in part:
                continue
            try:
                words = shlex.split(rest)
            except ValueError:  # a quote that ends in another part of the line
                words = rest.replace("'", " ").split()
            if words and re.fullmatch(r"(--)?[a-z][a-z-]*", words[0]):
                yield program, words


@cache
def parser_of(program: str) -> argparse.ArgumentParser:
    parser = PROGRAMS[program].parser()
    if program == "sapo" and "devnet" not in steps_of(parser):  # else the installed package has brought it
        command.add_command(next(a for a in parser._actions if isinstance(a, argparse._SubParsersAction)))
    return parser


def steps_of(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    """By name; {} for a command that has none."""
    return next((a.choices for a in parser._actions if isinstance(a, argparse._SubParsersAction)), {})


def unknown(program: str, words: list[str]) -> Iterator[str]:
    """What of a call its parser does not have: a command, a step, an option."""
    parser = parser_of(program)
    for word in words:
        if word.startswith("--"):
            if word.rstrip("…,.").partition("=")[0] not in parser._option_string_actions:
                yield word
        elif word != "…" and (steps := steps_of(parser)):
            if word not in steps:
                yield word
                return
            parser = steps[word]


@pytest.mark.parametrize("name", NAMES)
def test_every_link_leads_somewhere(name: str) -> None:
    page = ROOT / name
    assert list(broken_links(page, page.read_text(encoding="utf-8"))) == []


@pytest.mark.parametrize("name", [name for name in NAMES if name != "CHANGELOG.md"])
def test_every_command_and_option_exists(name: str) -> None:
    lines = list(shown((ROOT / name).read_text(encoding="utf-8")))
    wrong = {line: found for line in lines for call in calls(line) if (found := list(unknown(*call)))}
    assert wrong == {}
    for line in lines:
        for script in re.findall(r"(?:^|[\s/])scripts/([a-z-]+)(?=$|\s)", line):
            assert (ROOT / "scripts" / script).exists(), line
        for module in re.findall(r"-m (sapo_[\w.]+)", line):
            assert find_spec(module) is not None, line


def test_what_is_wrong_would_be_seen() -> None:
    page = ROOT / "docs" / "operators.md"
    text = "[a](nowhere.md) [b](#no-such-heading) [c](networks.md#no-such) [d](networks.md#deploying) [e](https://x)"
    assert list(broken_links(page, text)) == ["nowhere.md", "#no-such-heading", "networks.md#no-such"]
    code = (
        "Text with `sapo\nstatus --jsn`.\n\n    sapo init \\\n        --nowhere x   # a comment\n    sapo move away f\n"
    )
    found = [word for line in shown(code) for call in calls(line) for word in unknown(*call)]
    assert sorted(found) == ["--jsn", "--nowhere", "away"]


def test_the_documents_have_calls() -> None:
    """Else the test above could find nothing wrong because it finds nothing."""
    text = (ROOT / "docs" / "operators.md").read_text(encoding="utf-8")
    named = {words[0] for line in shown(text) for program, words in calls(line) if program == "sapo"}
    assert {"init", "run", "status", "doctor", "exit", "withdraw", "move", "restore"} <= named


def settings_named(model: type[BaseModel], section: str = "") -> Iterator[tuple[str, str]]:
    for name, field in model.model_fields.items():
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            yield from settings_named(field.annotation, name)
        else:
            yield section, name


def test_every_setting_has_a_line_in_a_table() -> None:
    rows: dict[str, str] = {}
    for page in ("settings.md", "watching.md"):
        section = ""
        for line in (ROOT / "docs" / page).read_text(encoding="utf-8").splitlines():
            if not line.startswith("|"):
                section = ""
                continue
            first = line.split("|")[1]
            found = re.findall(r"\[(\w+)\]", first)
            section = found[0] if found else section
            rows[section] = rows.get(section, "") + first
    asked = list(settings_named(Settings))
    assert len(asked) > 50
    missing = [(section, name) for section, name in asked if not re.search(rf"[` ]{name}`", rows.get(section, ""))]
    assert missing == []
