"""The JSON Schemas of what `sapo-verify … --json` prints, one file each, made from the reports' own types.

`python -m sapo_verifier.schemas` writes them anew in a checkout; a test says where that is due.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import TypeAdapter

from sapo_verifier.chain.pinned import Source
from sapo_verifier.explaining import ToldCid, ToldTransaction
from sapo_verifier.history import NodeHistory
from sapo_verifier.rounds import OneBatch, RoundReport
from sapo_verifier.showing import Shown


@dataclass(frozen=True)
class Error:
    """What went wrong, in words, and the exit status; printed by every command instead of its report."""

    error: str
    status: int


@dataclass(frozen=True)
class Proof:
    """What `prove` shows of a fault and, with --send, of the transaction; a field with a default may be left out.

    Amounts in coins; gas, or why it would be refused now; position to u: of a false record.
    """

    source: Source
    index: int
    round: int
    node: str
    state: str
    proof: Literal["record", "length"]
    slot: int
    completion: int
    fault: str
    to: str
    calldata: str
    calldata_bytes: int
    reward: str
    position: int = 0
    token: int = 0
    lo: str = ""
    last: str = ""
    u: str = ""
    gas: int = 0
    refused: str = ""
    transaction: str = ""
    block: int = 0
    gas_used: int = 0


REPORTS: dict[str, Any] = {
    "batch": OneBatch,
    "cid": ToldCid,
    "error": Error,
    "node": NodeHistory,
    "prove": Proof,
    "round": RoundReport,
    "show": Shown,
    "tx": ToldTransaction,
}


def text_of(name: str) -> str:
    """The schema of a report, as it lies in the package."""
    made = TypeAdapter(REPORTS[name]).json_schema(mode="serialization")
    for each in (made, *made.get("$defs", {}).values()):
        _close(each, loose=name == "prove" and each is made)
    return json.dumps({"$schema": "https://json-schema.org/draft/2020-12/schema", **made}, indent=1) + "\n"


def write(folder: Path) -> None:
    """All of them."""
    for name in REPORTS:
        (folder / f"{name}.json").write_text(text_of(name), encoding="utf-8")


def _close(rule: dict[str, Any], *, loose: bool) -> None:
    """There is no other field and, unless `loose`, every one is there. What Python's types say beyond is left out."""
    if "properties" in rule:
        rule["additionalProperties"] = False
        if not loose:
            rule["required"] = list(rule["properties"])
        for each in rule["properties"].values():
            each.pop("title", None)
            each.pop("default", None)
