"""Holds documents against the JSON Schemas that the package brings: the part of JSON Schema 2020-12 that they use."""

import json
from importlib import resources
from typing import Any

KNOWN = {
    "$defs", "$ref", "$schema", "additionalProperties", "anyOf", "const", "description", "enum", "items", "properties",
    "required", "title", "type",
}  # fmt: skip
TYPES: dict[str, Any] = {"object": dict, "array": list, "string": str, "boolean": bool, "null": type(None)}


def schema(name: str) -> dict[str, Any]:
    """Of a report, as it lies in the package."""
    loaded: dict[str, Any] = json.loads((resources.files("sapo_verifier.schemas") / f"{name}.json").read_text())
    return loaded


def assert_fits(name: str, document: Any) -> None:
    """The document is of the shape; everything that it has is described."""
    whole = schema(name)
    _fits(document, whole, whole, name)


def _fits(value: Any, rule: dict[str, Any], whole: dict[str, Any], where: str) -> None:
    assert rule.keys() <= KNOWN, f"{where}: this test does not know {rule.keys() - KNOWN}"
    if "$ref" in rule:
        _fits(value, whole["$defs"][rule["$ref"].removeprefix("#/$defs/")], whole, where)
    if "anyOf" in rule:
        assert any(_is(value, each, whole, where) for each in rule["anyOf"]), f"{where}: {value!r} is none of them"
    if "enum" in rule:
        assert value in rule["enum"], f"{where}: {value!r}"
    if kind := rule.get("type"):
        right = type(value) is int if kind == "integer" else isinstance(value, TYPES[kind])
        assert right, f"{where}: {value!r} is no {kind}"
    if "properties" in rule:
        assert set(rule["required"]) <= value.keys() <= set(rule["properties"]), where
        assert rule["additionalProperties"] is False
        for key, item in value.items():
            _fits(item, rule["properties"][key], whole, f"{where}.{key}")
    elif isinstance(rule.get("additionalProperties"), dict):
        for key, item in value.items():
            _fits(item, rule["additionalProperties"], whole, f"{where}.{key}")
    if "items" in rule:
        for at, item in enumerate(value):
            _fits(item, rule["items"], whole, f"{where}[{at}]")


def _is(value: Any, rule: dict[str, Any], whole: dict[str, Any], where: str) -> bool:
    try:
        _fits(value, rule, whole, where)
    except AssertionError:
        return False
    return True
