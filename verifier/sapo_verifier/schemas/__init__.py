"""The JSON Schemas of what `sapo-verify … --json` prints, one file each, made from the reports' own types.

`python -m sapo_verifier.schemas` writes them anew in a checkout; a test says where that is due.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from sapo_verifier.explaining import ToldCid, ToldTransaction
from sapo_verifier.history import NodeHistory
from sapo_verifier.rounds import OneBatch, RoundReport
from sapo_verifier.showing import Shown


@dataclass(frozen=True)
class Error:
    """What went wrong, in words, and the exit status; printed by every command instead of its report."""

    error: str
    status: int


REPORTS: dict[str, type] = {
    "batch": OneBatch,
    "cid": ToldCid,
    "error": Error,
    "node": NodeHistory,
    "round": RoundReport,
    "show": Shown,
    "tx": ToldTransaction,
}


def text_of(name: str) -> str:
    """The schema of a report, as it lies in the package."""
    made = TypeAdapter(REPORTS[name]).json_schema(mode="serialization")
    for each in (made, *made.get("$defs", {}).values()):
        _close(each)
    return json.dumps({"$schema": "https://json-schema.org/draft/2020-12/schema", **made}, indent=1) + "\n"


def write(folder: Path) -> None:
    """All of them."""
    for name in REPORTS:
        (folder / f"{name}.json").write_text(text_of(name), encoding="utf-8")


def _close(rule: dict[str, Any]) -> None:
    """Every field is there, and no other. What Python's types say beyond that is left out."""
    if "properties" in rule:
        rule["required"], rule["additionalProperties"] = list(rule["properties"]), False
        for each in rule["properties"].values():
            each.pop("title", None)
            each.pop("default", None)
