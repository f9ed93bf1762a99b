"""The committed vectors (scripts/vectors wrote them), and how to read their notation."""

import json
from pathlib import Path
from typing import Any

FILE = Path(__file__).with_name("protocol.json")
VECTORS: dict[str, Any] = json.loads(FILE.read_text(encoding="utf-8"))


def raw(text: str) -> bytes:
    return bytes.fromhex(text.removeprefix("0x"))


def big(text: str) -> int:
    return int(text, 16)
