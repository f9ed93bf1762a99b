"""What protocol JSON refuses, and that there is one way to write what it accepts."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sapo_verifier import canonical
from sapo_verifier.cid import BLOCK_LIMIT
from sapo_verifier.errors import ObjectError

integers = st.integers(-(2**53) + 1, 2**53 - 1)
documents = st.recursive(
    st.booleans() | integers | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text("abÿ€😀", max_size=3), inner, max_size=4),
    max_leaves=20,
)


def levels(value):
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else None
    return 0 if inner is None else 1 + max(map(levels, inner), default=0)


@given(documents.filter(lambda document: levels(document) <= canonical.MAX_DEPTH))
def test_what_is_written_reads_back(document):
    assert canonical.decode(canonical.encode(document)) == document


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b'{"a":1.5}', "no floats"),
        (b'{"a":1e3}', "no floats"),
        (b'{"a":1e400}', "no floats"),
        (b'{"a":NaN}', "no floats"),
        (b'{"a":-Infinity}', "no floats"),
        (b'{"a":1,"a":1}', "duplicate key"),
        (b'{"a":null}', "NoneType"),
        (b'{"a": 1}', "canonical form"),
        (b'{"b":1,"a":1}', "canonical form"),
        (b'"\\u0041"', "canonical form"),
        (b"-0", "canonical form"),
        (b"01", "not protocol JSON"),
        (b'{"a":1}\n', "canonical form"),
        (b'\xef\xbb\xbf{"a":1}', "not protocol JSON"),
        (b'"\xff"', "not protocol JSON"),
        (b'"\\ud800"', "canonical"),
        (b"", "not protocol JSON"),
        (b"9007199254740992", "2^53"),
        (b"-9007199254740992", "2^53"),
        (b"1" * 5000, "not protocol JSON"),
        (b"[" * 9 + b"]" * 9, "levels deep"),
        (b"[" * 500_000, "levels deep"),
        (b'"' + b"a" * BLOCK_LIMIT + b'"', "1048576"),
    ],
)
def test_refuses(data, words):
    with pytest.raises(ObjectError, match=words.replace("^", r"\^")):
        canonical.decode(data)


def test_eight_levels_are_enough_and_brackets_in_strings_do_not_count():
    data = b"[" * 8 + b"]" * 8
    assert canonical.encode(canonical.decode(data)) == data
    assert canonical.decode(b'"' + b"[" * 50 + b'\\"["') == "[" * 50 + '"['


def test_keys_sort_by_utf16_code_units():
    assert canonical.encode({"\U0001f600": 1, "\ufb33": 2}) == '{"\U0001f600":1,"\ufb33":2}'.encode()


@pytest.mark.parametrize("value", [1.0, None, 2**53, "\ud800", {1: 2}, b"bytes"])
def test_does_not_write_what_it_would_not_read(value):
    with pytest.raises(ObjectError):
        canonical.encode({"a": value} if not isinstance(value, dict) else value)
