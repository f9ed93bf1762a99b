"""Canonical JSON (RFC 8785), restricted to what protocol objects may hold (docs/protocol.md, section 1).

Objects, arrays, strings, booleans and integers below 2**53 in magnitude; at most 1 MiB and eight levels deep. There is
exactly one way to write a document, so equal documents have equal digests.
"""

import json
from typing import Any, NoReturn

import rfc8785

from sapo_verifier.cid import BLOCK_LIMIT
from sapo_verifier.errors import ObjectError

MAX_DEPTH = 8
MAX_INTEGER = 2**53 - 1


def encode(document: Any) -> bytes:
    """The canonical bytes of a document.

    Raises ObjectError if it holds something that protocol JSON cannot: floats, null, large integers, lone surrogates,
    more than eight levels, or more than 1 MiB.
    """
    _refuse_foreign_values(document, depth=0)
    try:
        data = rfc8785.dumps(document)
    except (rfc8785.CanonicalizationError, UnicodeEncodeError) as error:
        raise ObjectError(f"this document has no canonical form: {error}") from error
    if len(data) > BLOCK_LIMIT:
        raise ObjectError(f"the document takes {len(data)} bytes, more than a block's {BLOCK_LIMIT}")
    return data


def decode(data: bytes) -> Any:
    """The document that canonical bytes hold.

    Raises ObjectError for anything else: other encodings of the same document, floats, duplicate keys, deep nesting.
    """
    if len(data) > BLOCK_LIMIT:
        raise ObjectError(f"{len(data)} bytes are more than a block's {BLOCK_LIMIT}")
    if _depth(data) > MAX_DEPTH:
        raise ObjectError(f"the JSON is nested more than {MAX_DEPTH} levels deep")
    try:
        document = json.loads(
            data.decode("utf-8"),
            object_pairs_hook=_object,
            parse_float=_refuse_number,
            parse_constant=_refuse_number,
        )
    except ValueError as error:  # also UnicodeDecodeError, JSONDecodeError and integers of thousands of digits
        raise ObjectError(f"not protocol JSON: {error}") from error
    if encode(document) != data:
        raise ObjectError("the JSON is not in canonical form (RFC 8785): its bytes do not re-encode to themselves")
    return document


def _refuse_foreign_values(value: Any, depth: int) -> None:
    if isinstance(value, bool | str):
        return
    if isinstance(value, int):
        if abs(value) > MAX_INTEGER:
            raise ObjectError(f"the integer {value:#x} is 2^53 or more in magnitude; write it as a hex string")
        return
    if isinstance(value, dict | list | tuple):
        if depth == MAX_DEPTH:
            raise ObjectError(f"the document is nested more than {MAX_DEPTH} levels deep")
        if isinstance(value, dict):
            for key in value:
                if not isinstance(key, str):
                    raise ObjectError(f"the key {key!r} is not a string")
        for item in value.values() if isinstance(value, dict) else value:
            _refuse_foreign_values(item, depth + 1)
        return
    raise ObjectError(f"{type(value).__name__} values cannot be written in protocol JSON")


def _depth(data: bytes) -> int:
    """The deepest nesting of brackets outside strings; json.loads would recurse that deep before anybody could look."""
    depth = deepest = 0
    in_string = escaped = False
    for byte in data:
        if in_string:
            if escaped:
                escaped = False
            elif byte == 0x5C:
                escaped = True
            elif byte == 0x22:
                in_string = False
        elif byte == 0x22:
            in_string = True
        elif byte in b"[{":
            depth += 1
            deepest = max(deepest, depth)
            if deepest > MAX_DEPTH:
                break
        elif byte in b"]}":
            depth -= 1
    return deepest


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    document = dict(pairs)
    if len(document) != len(pairs):
        raise ObjectError("the JSON has an object with a duplicate key")
    return document


def _refuse_number(text: str) -> NoReturn:
    raise ObjectError(f"the number {text[:40]} is not an integer; protocol JSON has no floats")
