"""Reports as JSON documents: dataclasses as objects, bytes as 0x…, the rest as it is (schemas/ has their shapes)."""

import json
from dataclasses import fields, is_dataclass
from typing import Any


def document(value: Any) -> Any:
    """Plain data of a report."""
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: document(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, dict):
        return {key: document(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [document(item) for item in value]
    return "0x" + value.hex() if isinstance(value, bytes) else value


def to_json(report: Any) -> str:
    """Of a report, for people and programs."""
    return json.dumps(document(report), indent=1)
