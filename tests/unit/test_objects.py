"""The published objects: one of each in the vectors, every field refused in every wrong way, and the records block."""

import copy
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sapo_verifier import canonical, cid
from sapo_verifier.cid import BLOCK_LIMIT
from sapo_verifier.errors import ObjectError
from sapo_verifier.objects import (
    BatchManifest,
    GroupBlock,
    PolicyManifest,
    Record,
    VerdictReport,
    decode_records,
    encode_records,
    split_records,
)
from sapo_verifier.spec import Spec
from vectors import VECTORS, big, raw

KINDS = {kind.__name__: kind for kind in (GroupBlock, BatchManifest, PolicyManifest, Spec, VerdictReport)}
EXAMPLES = VECTORS["objects"]

uint32, uint64 = st.integers(0, 2**32 - 1), st.integers(0, 2**64 - 1)
completions = st.lists(
    st.lists(st.builds(Record, uint32, uint64, uint64), min_size=1, max_size=5), min_size=1, max_size=4
)


def paths(value, path=()):
    """Every field of a document, as a path of keys."""
    if isinstance(value, dict) and path[-1:] != ("config",):  # a dataset's configuration is free
        for key, inner in value.items():
            yield (*path, key)
            yield from paths(inner, (*path, key))
    if isinstance(value, list):
        for position, inner in enumerate(value):
            yield (*path, position)
            yield from paths(inner, (*path, position))


def at(document, path):
    for key in path:
        document = document[key]
    return document


def put(document, path, value):
    """A copy with one field set, or removed where the value is `...`."""
    changed = copy.deepcopy(document)
    inner = at(changed, path[:-1])
    if value is ...:
        del inner[path[-1]]
    else:
        inner[path[-1]] = value
    return changed


def parse(kind, document):
    """As what a peer could have written: canonical bytes of anything."""
    return KINDS[kind].parse(canonical.encode(document))


def refused(kind, document):
    try:
        parse(kind, document)
    except ObjectError:
        return True
    return False


@pytest.mark.parametrize("case", EXAMPLES, ids=lambda case: case["kind"])
def test_examples_of_the_vectors(case):
    data = raw(case["bytes"])
    made = KINDS[case["kind"]].parse(data)
    assert made.encode() == data == canonical.encode(case["json"])
    assert json.loads(data) == case["json"] == made.to_json()
    assert cid.block_digest(data) == raw(case["digest"])
    assert cid.cid(raw(case["digest"])) == case["cid"]


@pytest.mark.parametrize("case", VECTORS["cid"])
def test_cids_of_the_vectors(case):
    assert cid.block_digest(raw(case["bytes"])) == raw(case["digest"]) == cid.digest_of(case["out"])
    assert cid.cid(raw(case["digest"])) == case["out"]


@pytest.mark.parametrize("case", VECTORS["canonical"], ids=lambda case: case["bytes"][:40])
def test_canonical_documents_of_the_vectors(case):
    assert canonical.encode(case["json"]) == raw(case["bytes"])
    assert canonical.decode(raw(case["bytes"])) == case["json"]


@pytest.mark.parametrize("case", VECTORS["canonical_refused"], ids=lambda case: case["why"])
def test_refused_documents_of_the_vectors(case):
    with pytest.raises(ObjectError):
        canonical.decode(raw(case["bytes"]))


@pytest.mark.parametrize("case", EXAMPLES, ids=lambda case: case["kind"])
def test_every_missing_field_is_refused(case):
    optional = [path for path in paths(case["json"]) if path == ("lora",) or "findings" in path[:-1]]
    optional = [path for path in optional if path[-1] in ("lora", "slot", "k", "t")]
    removed = [path for path in paths(case["json"]) if isinstance(path[-1], str) and path not in optional]
    accepted = [path for path in removed if not refused(case["kind"], put(case["json"], path, ...))]
    assert len(removed) >= 5
    assert accepted == []


@pytest.mark.parametrize("case", EXAMPLES, ids=lambda case: case["kind"])
@pytest.mark.parametrize("wrong", [True, 0, -1, 2**53 - 1, "", [], {}, [1], {"x": 1}])
def test_every_field_of_another_type_is_refused(case, wrong):
    changed = [path for path in paths(case["json"]) if type(at(case["json"], path)) is not type(wrong)]
    accepted = [path for path in changed if not refused(case["kind"], put(case["json"], path, wrong))]
    assert len(changed) >= 3
    assert accepted == []


@pytest.mark.parametrize("case", EXAMPLES, ids=lambda case: case["kind"])
def test_an_unknown_field_is_refused_at_every_level(case):
    for path in [(), *paths(case["json"])]:
        if isinstance(at(case["json"], path), dict) and path[-1:] != ("config",):
            with pytest.raises(ObjectError, match="surplus"):
                parse(case["kind"], put(case["json"], (*path, "surplus"), 1))


@pytest.mark.parametrize("case", EXAMPLES, ids=lambda case: case["kind"])
@pytest.mark.parametrize("version", [0, 1, 3, True, "2"])
def test_another_version_is_refused(case, version):
    with pytest.raises(ObjectError, match="v"):
        parse(case["kind"], case["json"] | {"v": version})


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("data", [b"[]", b"1", b'"x"', b"{}", b"", b"\xff", b'{"v":2}', b'{"v":2.0}', b'{"v":null}'])
def test_what_is_no_object_is_refused(kind, data):
    with pytest.raises(ObjectError):
        KINDS[kind].parse(data)


@pytest.mark.parametrize(
    ("kind", "path"),
    [(c["kind"], path) for c in EXAMPLES for path in paths(c["json"]) if path[-1] in ("records", "policy", "digest")],
)
def test_digests_are_64_lower_case_digits(kind, path):
    document = next(case["json"] for case in EXAMPLES if case["kind"] == kind)
    good = "0x" + "ab" * 32
    parse(kind, put(document, path, good))
    for wrong in (
        good.upper(),
        "0X" + good[2:],
        "0x" + "AB" * 32,
        good[2:],
        good + "a",
        good[:-1],
        good + "\n",
        " " + good,
    ):
        with pytest.raises(ObjectError, match=str(path[-1])):
            parse(kind, put(document, path, wrong))


@pytest.mark.parametrize("field", ["contract", "node"])
def test_addresses_are_40_lower_case_digits(field):
    document = next(case["json"] for case in EXAMPLES if case["kind"] == "BatchManifest")
    good = "0x" + "ab" * 20
    parse("BatchManifest", document | {field: good})
    mixed = "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266"
    for wrong in (mixed, "0x" + "AB" * 20, "0X" + good[2:], good[2:], good + "ab", good[:-1], good + "\n"):
        with pytest.raises(ObjectError, match=field):
            parse("BatchManifest", document | {field: wrong})


TOO_LARGE = {
    "GroupBlock": {"seed": 2**32, "slot": -1, "attempt": -1, "completions": []},
    "BatchManifest": {"chain": 0, "groups": ["0x" + "00" * 32] * 257, "round": -1},
    "PolicyManifest": {"size": 3 << 20, "kind": "half", "blocks": ["0x" + "00" * 32] * 3},
}


@pytest.mark.parametrize(("kind", "field"), [(kind, field) for kind, all_ in TOO_LARGE.items() for field in all_])
def test_values_out_of_range_are_refused(kind, field):
    document = next(case["json"] for case in EXAMPLES if case["kind"] == kind)
    with pytest.raises(ObjectError):
        parse(kind, document | {field: TOO_LARGE[kind][field]})


def test_256_groups_are_not_too_many():
    document = next(case["json"] for case in EXAMPLES if case["kind"] == "BatchManifest")
    assert len(parse("BatchManifest", document | {"groups": ["0x" + "00" * 32] * 256}).groups) == 256


def test_a_block_over_one_mebibyte_is_refused():
    document = EXAMPLES[0]["json"]
    made = GroupBlock.parse(canonical.encode(document))
    room = BLOCK_LIMIT - len(made.encode())
    assert len(made.model_copy(update={"prompt": made.prompt + "x" * room}).encode()) == BLOCK_LIMIT
    with pytest.raises(ObjectError, match="1048576"):
        made.model_copy(update={"prompt": made.prompt + "x" * (room + 1)}).encode()


POLICY = {
    "v": 2,
    "audit": "0x" + "22" * 32,
    "base": "tiny",
    "kind": "full",
    "size": BLOCK_LIMIT + 1,
    "blocks": ["0x" + "00" * 32, "0x" + "11" * 32],
}
LORA = {"rank": 1, "alpha": 2, "targets": ["q_proj"]}


@pytest.mark.parametrize(
    "change",
    [
        {"kind": "lora"},
        {"lora": LORA},
        {"kind": "base"},
        {"kind": "base", "size": 0},
        {"size": 0, "blocks": []},
        {"size": BLOCK_LIMIT},
        {"size": 2 * BLOCK_LIMIT + 1},
        {"kind": "lora", "lora": LORA | {"rank": 0}},
        {"kind": "lora", "lora": LORA | {"alpha": 0}},
        {"kind": "lora", "lora": LORA | {"targets": []}},
        {"kind": "lora", "lora": LORA | {"targets": ["x"] * 33}},
    ],
)
def test_a_policy_that_contradicts_itself_is_refused(change):
    parse("PolicyManifest", POLICY)
    parse("PolicyManifest", POLICY | {"kind": "lora", "lora": LORA})
    parse("PolicyManifest", POLICY | {"size": 2 << 20})
    with pytest.raises(ObjectError):
        parse("PolicyManifest", POLICY | change)


# --- records ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", VECTORS["records_block"])
def test_records_blocks_of_the_vectors(case):
    group = [[Record(token, big(lo), big(last)) for token, lo, last in records] for records in case["completions"]]
    assert encode_records(group) == raw(case["out"])
    assert decode_records(raw(case["out"]), case["group_size"], case["max_new_tokens"]) == group


@pytest.mark.parametrize("case", VECTORS["records_block_refused"], ids=lambda case: case["why"])
def test_refused_records_blocks_of_the_vectors(case):
    with pytest.raises(ObjectError, match="records"):
        split_records(raw(case["bytes"]), case["group_size"], case["max_new_tokens"])


@given(completions)
def test_records_read_back(group):
    data = encode_records(group)
    assert len(data) == sum(4 + 20 * len(records) for records in group)
    assert decode_records(data, len(group), 5) == group
    parts = split_records(data, len(group), 5)
    assert parts == [b"".join(record.encode() for record in records) for records in group]


@given(completions, st.data())
def test_every_cut_and_every_surplus_is_refused(group, data):
    block = encode_records(group)
    cut = data.draw(st.integers(0, len(block) - 1))
    for wrong in (block[:cut], block + block[: cut + 1]):
        with pytest.raises(ObjectError):
            split_records(wrong, len(group), 5)
    with pytest.raises(ObjectError):
        split_records(block, len(group) + 1, 5)
    longest = max(map(len, group))
    with pytest.raises(ObjectError, match=f"1 to {longest - 1}"):
        split_records(block, len(group), longest - 1)


@given(st.binary(max_size=200))
def test_any_bytes_are_records_that_encode_back_or_refused(data):
    try:
        group = decode_records(data, 2, 4)
    except ObjectError:
        return
    assert encode_records(group) == data
