"""docs/protocol.md says what the code does: its names exist, and the vectors that it shows are the committed ones."""

import importlib
import json
import re
from pathlib import Path

import pytest

from sapo_verifier.catalogue import CALENDAR_TASKS
from sapo_verifier.spec import Spec
from sapo_verifier.tasks import CATALOGUE, COMPACT_ALPHABET, instruction, readings
from sapo_verifier.tasks.compact import _PAYLOADS
from vectors import VECTORS

READING = r"^\| (\w+) \| ([\w ]+) \| (?:`(.+)`|all but the empty text) \| the same "
ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "protocol.md").read_text(encoding="utf-8")
MODULES = (
    "bases",
    "canonical",
    "catalogue",
    "checks",
    "cid",
    "folders",
    "intervals",
    "objects",
    "proofs",
    "protocol",
    "spec",
    "spots",
    "tasks",
)
CONTRACTS = {
    "Protocol": ROOT / "contracts" / "src" / "libraries" / "Protocol.sol",
    "Nodes": ROOT / "contracts" / "src" / "Nodes.sol",
    "Rounds": ROOT / "contracts" / "src" / "Rounds.sol",
    "Audits": ROOT / "contracts" / "src" / "Audits.sol",
    "Disputes": ROOT / "contracts" / "src" / "Disputes.sol",
    "Proofs": ROOT / "contracts" / "src" / "Proofs.sol",
    "Rewards": ROOT / "contracts" / "src" / "Rewards.sol",
}
BLOCKS = re.findall(r"^```\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
SHOWN = [
    shown for block in BLOCKS for shown in re.findall(r"^(\w+)\[(\d+)\](.*?)(?=^\w+\[\d+\]|\Z)", block, re.M | re.S)
]


def test_every_name_on_the_page_exists():
    names = re.findall(r"`(\w+)\.(\w+)`", PAGE)
    for module, name in names:
        if module in MODULES:
            assert hasattr(importlib.import_module(f"sapo_verifier.{module}"), name), f"{module}.{name}"
        elif module in CONTRACTS:
            assert f"function {name}(" in CONTRACTS[module].read_text(encoding="utf-8"), f"{module}.{name}"
    assert {module for module, _ in names} >= {*MODULES, *CONTRACTS}


@pytest.mark.parametrize(("section", "i", "text"), SHOWN, ids=[f"{section}-{i}" for section, i, _ in SHOWN])
def test_every_vector_on_the_page_is_a_committed_one(section, i, text):
    case = VECTORS[section][int(i)]
    held = json.dumps(case) + bytes.fromhex(case.get("bytes", "")[2:]).decode(errors="replace")
    for digits in re.findall(r"0x[0-9a-f]{8,}|bafkrei\w+", text):
        assert digits in held
    if "out" in case:
        out = case["out"]
        said = {"None": "no answer", "[]": "none"}.get(str(out), json.dumps(out) if section == "extract" else str(out))
        assert f"→ {said}" in text or f"position {said}" in text


def test_every_list_of_vectors_is_on_the_page():
    lists = {name for name, cases in VECTORS.items() if isinstance(cases, list)}
    assert {section for section, *_ in SHOWN} | {"tolerances", "records_block_refused"} >= lists
    for case in VECTORS["tolerances"]:
        assert f"{case['name']} {case['out']}" in PAGE


def test_the_page_lists_what_may_pay_and_how_it_is_read():
    listed = re.search(r"as\s+it is read, is right: ([\w,\s]+)\.", PAGE)
    assert listed is not None
    assert re.findall(r"\w+", listed[1]) == list(CATALOGUE)
    rows = {name: (of, pattern.replace("\\|", "|")) for name, of, pattern in re.findall(READING, PAGE, re.MULTILINE)}
    assert rows.keys() == set(CATALOGUE.values())
    for dataset, read in CATALOGUE.items():
        assert rows[read][0] == (dataset if read != "text" else "every other dataset")
    parts = dict(re.findall(r"^([NFDIB])   (.*)$", PAGE, re.MULTILINE))
    for name in ("decimal", "fraction", "numbers"):
        assert _bare(_whole(rows[name][1], parts)) == _bare(getattr(readings, name.upper()).pattern)
    assert ", ".join(CALENDAR_TASKS) in " ".join(PAGE.split())


def _whole(pattern, parts):
    """A pattern of the page with the parts that its capital letters stand for."""
    while found := re.search(r"[NFDIB]", pattern):
        pattern = pattern.replace(found[0], f"({parts[found[0]]})")
    return pattern


def _bare(pattern):
    """Without groups and needless escapes: what is left says which characters may come in which order."""
    return re.sub(r"\(\?:|[()]", "", pattern).replace('\\"', '"')


def test_the_page_has_the_texts_of_prompts():
    assert f"`{COMPACT_ALPHABET.replace(chr(10), '')}`" in PAGE
    assert re.findall(r"^\| (\w+) \| `[A-Z][^`]*=` \|", PAGE, re.MULTILINE) == list(_PAYLOADS)
    for style in ("tag", "brackets", "whole"):
        assert f"\n{style:<9} {instruction(style)}\n" in PAGE


def test_the_page_names_every_field_of_the_spec():
    section = PAGE.split("\n## 6.")[1].split("\n## 7.")[0]
    models = [Spec, *(Spec.model_fields[name].annotation for name in ("chain", "versions"))]
    fields = {field for model in models for field in model.model_fields}
    for name in ("tasks", "bases"):
        fields |= set(Spec.model_fields[name].annotation.__args__[0].model_fields)
    assert fields <= set(re.findall(r"\w+", section))


def test_links_inside_the_page_lead_somewhere():
    headings = re.findall(r"^## (.*)$", PAGE, re.MULTILINE)
    anchors = {re.sub(r"[^\w\s-]", "", heading.lower()).replace(" ", "-") for heading in headings}
    targets = re.findall(r"\(#([\w-]+)\)", PAGE)
    assert set(targets) == anchors
