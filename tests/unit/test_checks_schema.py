"""schema: documents that are not canonical, not well-formed, or of other counts than the chain's and the spec's."""

import json
import struct

import pytest

from sapo_devnet.testkit.formula import GROUP, LIMIT, assert_stopped, loose_json
from sapo_verifier.cid import BLOCK_LIMIT
from sapo_verifier.objects import Record, encode_records

RECORD = Record(5, 0, 2**64 - 1)
MISSING = Ellipsis  # prints the same in every process, unlike object()


def changed(document, **changes):
    return {name: value for name, value in (document | changes).items() if value is not MISSING}


# --- bytes that no document may have ---------------------------------------------------------------------------------

BYTES = {
    "nothing": lambda data: b"",
    "no object": lambda data: b"[" + data + b"]",
    "a number": lambda data: b"1",
    "null": lambda data: b"null",
    "an empty object": lambda data: b"{}",
    "not UTF-8": lambda data: data[:-2] + b"\xff" + data[-2:],
    "UTF-16": lambda data: data.decode().encode("utf-16"),
    "a byte order mark": lambda data: b"\xef\xbb\xbf" + data,
    "a space": lambda data: data.replace(b":", b": ", 1),
    "a newline at the end": lambda data: data + b"\n",
    "a second document": lambda data: data + data,
    "cut": lambda data: data[:-1],
    "an escape that needs none": lambda data: data.replace(b'"v"', b'"\\u0076"'),
    "another order": lambda data: json.dumps(dict(reversed(json.loads(data).items())), separators=(",", ":")).encode(),
    "a float": lambda data: data.replace(b'"v":2', b'"v":2.0'),
    "an exponent": lambda data: data.replace(b'"v":2', b'"v":2e0'),
    "minus zero": lambda data: data.replace(b'"v":2', b'"v":-0'),
    "NaN": lambda data: data.replace(b'"v":2', b'"v":NaN'),
    "infinity": lambda data: data.replace(b'"v":2', b'"v":2e400'),
    "a huge integer": lambda data: data.replace(b'"v":2', b'"v":9007199254740992'),
    "an integer of 5,000 digits": lambda data: data.replace(b'"v":2', b'"v":2' + b"0" * 5000),
    "true for 1": lambda data: data.replace(b'"v":2', b'"v":true'),
    "another version": lambda data: data.replace(b'"v":2', b'"v":1'),
    "a duplicate key": lambda data: data.replace(b'"v":2', b'"v":2,"v":2'),
    "an extra field": lambda data: data.replace(b'"v":2', b'"v":2,"w":1'),
    "a field that is an object": lambda data: data.replace(b'"v":2', b'"v":{}'),
    "no version": lambda data: data.replace(b',"v":2', b""),
    "nesting of nine": lambda data: data.replace(b'"v":2', b'"v":2,"w":' + b"[" * 9 + b"]" * 9),
    "nesting of 100,000": lambda data: data.replace(b'"v":2', b'"v":' + b"[" * 100_000),
    "closed more often than opened": lambda data: b"]" * 100_000 + b"[" * 100_000,
    "a lone surrogate, escaped": lambda data: data.replace(b'"v":2', b'"v":2,"w":"\\ud800"'),
    "a lone surrogate, encoded": lambda data: data.replace(b'"v":2', b'"v":2,"w":"\xed\xa0\x80"'),
}


@pytest.mark.parametrize("kind", ["manifest", "policy", "group 1"])
@pytest.mark.parametrize("trick", BYTES)
def test_bytes_that_no_document_may_have(draft, worker, tokenizer, kind, trick):
    sealed = draft.seal()
    good = sealed.blocks[sealed.names[kind]]
    bad = BYTES[trick](good)
    assert bad != good
    match kind:
        case "manifest":
            draft.raw_manifest = bad
        case "policy":
            draft.raw_policy = bad
        case _:
            draft.slots[1].raw_group = bad
    assert_stopped(draft.seal().audit(worker, tokenizer), "schema", slot=1 if kind == "group 1" else None)


# --- fields of a group -----------------------------------------------------------------------------------------------

GROUP_FIELDS = [
    *({field: MISSING} for field in ("attempt", "completions", "dataset", "prompt", "records", "seed", "slot", "v")),
    {"slot": 0}, {"slot": 2}, {"slot": -1}, {"slot": "1"}, {"slot": True}, {"attempt": -1}, {"attempt": 2**53},
    {"seed": 2**32}, {"seed": 1.5}, {"seed": None}, {"prompt": 1}, {"prompt": None}, {"dataset": ["gcd"]},
    {"completions": []}, {"completions": "abcd"}, {"completions": {}}, {"completions": ["a"] * (GROUP - 1)},
    {"completions": ["a"] * (GROUP + 1)}, {"completions": ["a", "b", "c", 1]}, {"completions": ["a", "b", "c", None]},
    {"completions": ["a", "b", "c", ["d"]]}, {"completions": ["a", "b", "c", "\ud800"]},
    {"records": "0x" + "AB" * 32}, {"records": "0x12"}, {"records": 0}, {"reward": [1, 1, 1, 1]}, {"prompt": "\udfff"},
]  # fmt: skip


@pytest.mark.parametrize("fields", GROUP_FIELDS, ids=repr)
def test_a_field_of_a_group(draft, worker, tokenizer, fields):
    sealed = draft.seal()
    document = json.loads(sealed.blocks[sealed.names["group 1"]])
    draft.slots[1].raw_group = loose_json(changed(document, **fields))
    assert_stopped(draft.seal().audit(worker, tokenizer), "schema", slot=1)


def test_one_completion_too_few_or_too_many_with_records_that_agree(draft, worker, tokenizer):
    slot = draft.slots[2]
    texts, records = slot.document["completions"], slot.records
    for count in (GROUP - 1, GROUP + 1):
        slot.document["completions"] = [*texts, texts[0]][:count]
        slot.records = [*records, records[0]][:count]
        words = f"{count} completions, not {GROUP}"
        assert_stopped(draft.seal().audit(worker, tokenizer), "schema", slot=2, words=words)


def test_groups_of_two_slots_swapped(draft, worker, tokenizer):
    draft.slots[0], draft.slots[1] = draft.slots[1], draft.slots[0]
    assert_stopped(draft.seal().audit(worker, tokenizer), "schema", slot=0, words="says slot 1")


# --- the manifests ---------------------------------------------------------------------------------------------------

MANIFEST_FIELDS = [
    *({field: ...} for field in ("chain", "contract", "groups", "node", "policy", "round", "v")),
    {"chain": 0}, {"chain": "31337"}, {"round": -1}, {"round": 2**53}, {"node": "0x" + "AB" * 20}, {"node": "0x12"},
    {"contract": 1}, {"policy": "0x12"}, {"policy": None}, {"groups": []}, {"groups": "0x" + "00" * 32},
    {"groups": ["0x" + "00" * 32] * 257}, {"groups": [["0x" + "00" * 32]]}, {"claim": 7}, {"root": "0x" + "00" * 32},
]  # fmt: skip


@pytest.mark.parametrize("fields", MANIFEST_FIELDS, ids=lambda fields: repr(fields)[:60])
def test_a_field_of_the_manifest(draft, worker, tokenizer, fields):
    draft.manifest = fields
    assert_stopped(draft.seal().audit(worker, tokenizer), "schema")


def test_a_group_listed_twice(draft, worker, tokenizer):
    names = draft.seal().names
    first, second = ("0x" + names[f"group {slot}"].hex() for slot in (0, 1))
    draft.manifest = {"groups": [first, second, first]}
    assert_stopped(draft.seal().audit(worker, tokenizer), "schema", words="lists a group twice")


@pytest.mark.parametrize("count", [1, 2, 4, 256])
def test_other_groups_than_the_chain_says(draft, worker, tokenizer, count):
    names = draft.seal().names
    groups = ["0x" + names[f"group {slot}"].hex() for slot in range(3)]
    draft.manifest = {"groups": (groups + [f"0x{i:064x}" for i in range(256)])[:count]}
    assert_stopped(draft.seal().audit(worker, tokenizer), "schema", words=f"{count} groups, not 3")


@pytest.mark.parametrize("name", ["manifest of another batch", "policy", "group as records", "records as group"])
def test_a_block_of_one_kind_where_another_belongs(draft, worker, tokenizer, name):
    sealed = draft.seal()
    groups = ["0x" + sealed.names[f"group {slot}"].hex() for slot in range(3)]
    match name:
        case "manifest of another batch":
            draft.slots[1].raw_group = sealed.blocks[sealed.names["manifest"]]
        case "policy":
            draft.manifest = {"groups": [groups[0], "0x" + sealed.names["policy"].hex(), groups[2]]}
        case "group as records":
            draft.slots[1].document["records"] = groups[0]
        case _:
            draft.slots[1].raw_group = sealed.blocks[sealed.names["records 1"]]
    assert_stopped(draft.seal().audit(worker, tokenizer), "schema", slot=1)


LORA = {"rank": 2, "alpha": 4, "targets": ["q_proj"]}
POLICY_FIELDS = [
    {"kind": "half"}, {"size": 1}, {"size": -1}, {"size": 1.5}, {"blocks": ["0x" + "00" * 32]}, {"blocks": None},
    {"kind": "full"}, {"kind": "full", "size": 1}, {"kind": "full", "size": 1, "blocks": ["0x" + "00" * 32] * 2},
    {"kind": "full", "size": BLOCK_LIMIT + 1, "blocks": ["0x" + "00" * 32]}, {"kind": "lora"}, {"lora": LORA},
    {"kind": "lora", "size": 1, "blocks": ["0x" + "00" * 32], "lora": LORA | {"rank": 0}},
    {"kind": "lora", "size": 1, "blocks": ["0x" + "00" * 32], "lora": LORA | {"targets": []}},
    {"kind": "lora", "size": 1, "blocks": ["0x" + "00" * 32], "lora": LORA | {"code": "x"}},
    {"base": 1}, {"base": None}, {"url": "x"},
]  # fmt: skip


@pytest.mark.parametrize("fields", POLICY_FIELDS, ids=lambda fields: repr(fields)[:60])
def test_a_field_of_the_policy_manifest(draft, worker, tokenizer, fields):
    draft.policy |= fields
    assert_stopped(draft.seal().audit(worker, tokenizer), "schema")


# --- records blocks --------------------------------------------------------------------------------------------------


def count(n):
    return struct.pack(">I", n)


RECORDS = {
    "nothing": lambda data: b"",
    "one byte short": lambda data: data[:-1],
    "one record short": lambda data: data[:-20],
    "one byte too many": lambda data: data + b"\0",
    "one record too many": lambda data: data + RECORD.encode(),
    "a completion too many": lambda data: data + count(1) + RECORD.encode(),
    "a completion too few": lambda data: encode_records([[RECORD]] * (GROUP - 1)),
    "n = 0": lambda data: encode_records([[RECORD], [], [RECORD], [RECORD]]),
    "n above the limit": lambda data: encode_records([[RECORD], [RECORD] * (LIMIT + 1), [RECORD], [RECORD]]),
    "n = 2**32 - 1": lambda data: count(2**32 - 1) + data[4:],
    "little-endian n": lambda data: data[:4][::-1] + data[4:],
    "n that eats the next completion": lambda data: count(int.from_bytes(data[:4], "big") + 1) + data[4:],
    "all zero": lambda data: bytes(len(data)),
    "JSON": lambda data: b"[[[5,0,1]]]",
}


@pytest.mark.parametrize("trick", RECORDS)
def test_a_records_block_that_is_not_g_completions(draft, worker, tokenizer, trick):
    good = encode_records(draft.slots[1].records)
    bad = RECORDS[trick](good)
    assert bad != good
    draft.slots[1].raw_records = bad
    outcome = assert_stopped(draft.seal().audit(worker, tokenizer), "schema", slot=1)
    assert "record" in outcome.reason


def test_the_first_of_several_malformed_slots_is_named(draft, worker, tokenizer):
    draft.slots[2].raw_group = b"x"
    draft.slots[0].raw_records = b"x"
    assert_stopped(
        draft.seal().audit(worker, tokenizer), "schema", slot=2
    )  # the records of slot 0 were never asked for
    draft.slots[1].raw_group = b"y"
    assert_stopped(draft.seal().audit(worker, tokenizer), "schema", slot=1)
