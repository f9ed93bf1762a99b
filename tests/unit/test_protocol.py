"""Every hash, seed, draw and tree: the committed vectors, another ABI encoder, and their properties."""

from collections import Counter
from itertools import pairwise

import pytest
from eth_abi import encode
from eth_abi.packed import encode_packed
from eth_hash.auto import keccak
from hypothesis import given, settings
from hypothesis import strategies as st

from sapo_verifier import protocol as p
from vectors import VECTORS, big, raw

COMPUTED = {
    "tags": lambda c: p.tag_word(c["tag"]),
    "beacon": lambda c: p.beacon(big(c["chain_id"]), c["rounds"], big(c["round"]), raw(c["entropy"])),
    "task_seed": lambda c: p.task_seed(raw(c["beacon"]), c["node"], c["slot"], c["attempt"]),
    "dataset_choice": lambda c: p.dataset_choice(big(c["task_seed"]), c["weights"]),
    "generator_seed": lambda c: p.generator_seed(big(c["task_seed"])),
    "stream_key": lambda c: p.stream_key(raw(c["beacon"]), raw(c["policy"]), c["node"], c["slot"], c["k"]),
    "stream_value": lambda c: p.stream_value(raw(c["key"]), c["t"]),
    "draw_start": lambda c: p.draw_start(raw(c["beacon"]), c["voter"], c["stage"], c["count"]),
    "window": lambda c: p.window(c["start"], c["count"], c["own"], c["size"]),
    "node": lambda c: p.node_hash(raw(c["left"]), raw(c["right"])),
    "chunk": lambda c: p.chunk_hash(c["c"], raw(c["records"])),
    "leaf": lambda c: p.leaf(c["i"], c["n"], raw(c["records_root"])),
    "records_root": lambda c: p.records_root(raw(c["records"])),
    "merkle": lambda c: p.merkle_root([raw(leaf) for leaf in c["leaves"]]),
    "fold_acc": lambda c: p.fold_acc(
        raw(c["acc"]), c["node"], raw(c["manifest"]), raw(c["root"]), big(c["claim"])
    ),
    "verdicts_hash": lambda c: p.verdicts_hash(
        raw(c["beacon"]), raw(c["acc"]), c["voter"], c["stage"], big(c["verdicts"]), raw(c["report"]),
        raw(c["answers"]), raw(c["salt"]),
    ),
    "spot_key": lambda c: p.spot_key(raw(c["beacon"]), raw(c["seed"]), c["index"]),
    "spots": lambda c: p.spots(raw(c["key"]), c["completions"], c["count"]),
    "probe": lambda c: p.probe(raw(c["key"]), c["i"], big(c["lo"]), big(c["last"])),
    "claim_word": lambda c: p.claim_word([bool(bit) for bit in c["bits"]]),
}  # fmt: skip

WORD = ["bytes32"]
ABI = {  # what follows the tag: types, then the names of the vector's fields
    "beacon": (["uint256", "address", "uint256", "bytes32"], ["chain_id", "rounds", "round", "entropy"]),
    "task_seed": (["bytes32", "address", "uint256", "uint256"], ["beacon", "node", "slot", "attempt"]),
    "stream_key": (
        ["bytes32", "bytes32", "address", "uint256", "uint256"], ["beacon", "policy", "node", "slot", "k"],
    ),
    "stream_value": (["bytes32", "uint256"], ["key", "t"]),
    "node": (WORD * 2, ["left", "right"]),
    "spot_key": (["bytes32", "bytes32", "uint256"], ["beacon", "seed", "index"]),
    "leaf": (["uint256", "uint256", "bytes32"], ["i", "n", "records_root"]),
    "fold_acc": (["bytes32", "address", "bytes32", "bytes32", "uint256"], ["acc", "node", "manifest", "root", "claim"]),
    "verdicts_hash": (
        ["bytes32", "bytes32", "address", "uint256", "uint256", "bytes32", "hashed", "bytes32"],
        ["beacon", "acc", "voter", "stage", "verdicts", "report", "answers", "salt"],
    ),
}  # fmt: skip
TAGS = {"beacon": "beacon", "task_seed": "task", "stream_key": "stream", "node": "node", "leaf": "leaf",
        "verdicts_hash": "verdicts", "spot_key": "spot"}  # fmt: skip

words = st.binary(min_size=32, max_size=32)
leaves = st.lists(words, min_size=1, max_size=20)


def cases(*sections):
    return [(section, case) for section in sections for case in VECTORS[section]]


def same(found, expected):
    if isinstance(found, bytes):
        return found == raw(expected)
    return found == (big(expected) if isinstance(expected, str) else expected)


def independent(section, case):
    """The hash by eth_abi, without any function of the module under test."""
    types, names = ABI[section]
    read = {
        "bytes32": raw,
        "hashed": lambda text: keccak(raw(text)),
        "uint256": lambda value: big(value) if isinstance(value, str) else value,
    }
    values = [read.get(kind, str)(case[name]) for kind, name in zip(types, names, strict=True)]
    types = ["bytes32" if kind == "hashed" else kind for kind in types]
    if section in TAGS:
        types, values = ["bytes32", *types], [keccak(f"sapo/2/{TAGS[section]}".encode()), *values]
    return keccak(encode(types, values))


@pytest.mark.parametrize(("section", "case"), cases(*COMPUTED))
def test_gives_what_the_vectors_say(section, case):
    assert same(COMPUTED[section](case), case["out"])


@pytest.mark.parametrize(("section", "case"), cases(*ABI))
def test_another_abi_encoder_gives_the_same_hash(section, case):
    found = independent(section, case)
    assert same(found[:8] if section == "stream_value" else found, case["out"])


@pytest.mark.parametrize("case", VECTORS["draw_start"])
def test_another_abi_encoder_gives_the_same_draw(case):
    word = keccak(
        encode(
            ["bytes32", "bytes32", "address", "uint256"],
            [keccak(b"sapo/2/draw"), raw(case["beacon"]), case["voter"], case["stage"]],
        )
    )
    assert int.from_bytes(word, "big") % case["count"] == case["out"]


def tree(nodes):
    """The root by halves, from the top: another way round than the module's."""
    if len(nodes) == 1:
        return nodes[0]
    half = len(nodes) // 2
    return keccak(encode(WORD * 3, [keccak(b"sapo/2/node"), tree(nodes[:half]), tree(nodes[half:])]))


def padded(nodes):
    size = next(2**k for k in range(20) if 2**k >= len(nodes))
    return nodes + [bytes(32)] * (size - len(nodes))


@pytest.mark.parametrize("case", VECTORS["records_root"])
def test_another_tree_has_the_same_records_root(case):
    data = raw(case["records"])
    assert len(data) == 20 * case["n"]
    chunks = [data[at : at + 640] for at in range(0, len(data), 640)]
    assert len(chunks) == case["chunks"]
    hashed = [
        keccak(encode_packed(["bytes32", "uint256", "bytes"], [keccak(b"sapo/2/chunk"), c, chunk]))
        for c, chunk in enumerate(chunks)
    ]
    assert tree(padded(hashed)) == raw(case["out"])


@pytest.mark.parametrize("case", VECTORS["merkle"])
def test_paths_of_the_vectors(case):
    nodes = [raw(leaf) for leaf in case["leaves"]]
    assert tree(padded(nodes)) == raw(case["out"])
    assert len(case["paths"]) == len(padded(nodes))
    for i, leaf in enumerate(padded(nodes)):
        path = [raw(sibling) for sibling in case["paths"][i]]
        assert p.merkle_path(nodes, i) == path
        assert p.root_from_path(leaf, i, path) == raw(case["out"])


def test_every_field_and_every_tag_is_in_its_hash():
    for section, (_, names) in ABI.items():
        case = VECTORS[section][0]
        seen = {COMPUTED[section](case)}
        for name in names:
            changed = _changed(case[name])
            seen.add(COMPUTED[section](case | {name: changed}))
        assert len(seen) == len(names) + 1, section
    assert len({case["out"] for case in VECTORS["tags"]}) == 11


def _changed(value):
    if isinstance(value, int):
        return value + 1
    return value[:-1] + ("0" if value[-1] != "0" else "1")


@given(leaves)
@settings(max_examples=50)
def test_a_path_leads_back_to_the_root(nodes):
    root = p.merkle_root(nodes)
    assert root == tree(padded(nodes))
    for i, leaf in enumerate(padded(nodes)):
        path = p.merkle_path(nodes, i)
        assert len(path) == (len(nodes) - 1).bit_length()
        assert p.root_from_path(leaf, i, path) == root


@given(st.lists(words.filter(any), min_size=1, max_size=20, unique=True), st.data())
@settings(max_examples=50)
def test_any_changed_bit_changes_the_root(nodes, data):
    root = p.merkle_root(nodes)
    i = data.draw(st.integers(0, len(nodes) - 1))
    bit = data.draw(st.integers(0, 255))
    other = (int.from_bytes(nodes[i], "big") ^ 1 << bit).to_bytes(32, "big")
    assert p.merkle_root([*nodes[:i], other, *nodes[i + 1 :]]) != root
    path = p.merkle_path(nodes, i)
    assert p.root_from_path(other, i, path) != root
    for level in range(len(path)):
        flipped = bytes([path[level][0] ^ 1]) + path[level][1:]
        assert p.root_from_path(nodes[i], i, [*path[:level], flipped, *path[level + 1 :]]) != root
        assert p.root_from_path(nodes[i], i ^ 1 << level, path) != root


@given(st.integers(1, 130), st.data())
@settings(max_examples=30)
def test_any_changed_record_changes_the_records_root(n, data):
    records = data.draw(st.binary(min_size=20, max_size=20)) * n
    at = data.draw(st.integers(0, len(records) - 1))
    changed = records[:at] + bytes([records[at] ^ 1]) + records[at + 1 :]
    assert p.records_root(changed) != p.records_root(records)
    assert p.records_root(records + records[:20]) != p.records_root(records)


def test_a_tree_has_no_leaf_outside_it():
    nodes = [bytes([i]) * 32 for i in range(3)]
    for index in (-1, 4):
        with pytest.raises(ValueError, match="outside a tree of 4 leaves"):
            p.merkle_path(nodes, index)
        with pytest.raises(ValueError, match="outside a tree of 2 levels"):
            p.root_from_path(nodes[0], index, p.merkle_path(nodes, 0))


def test_no_leaves_have_the_root_zero():
    assert p.merkle_root([]) == p.records_root(b"") == bytes(32)


@given(st.integers(1, 60), st.integers(1, 128), st.data())
def test_windows(count, size, data):
    start = data.draw(st.integers(0, count - 1))
    own = data.draw(st.none() | st.integers(0, count - 1))
    found = p.window(start, count, own, size)
    steps = [(position - start) % count for position in found]
    assert own not in found
    assert all(a < b for a, b in pairwise(steps))  # cyclic, in order, and so distinct
    assert len(found) == min(size, count - (own is not None))
    walked = set(range(steps[-1] + 1)) if steps else set()
    assert walked - set(steps) <= {(own - start) % count if own is not None else None}  # nothing else is passed over


def test_in_a_small_network_everybody_audits_everybody():
    for own in range(5):
        for start in range(5):
            assert sorted([*p.window(start, 5, own, 8), own]) == [0, 1, 2, 3, 4]


def test_a_round_without_batches_has_no_draw():
    with pytest.raises(ValueError, match="no draw"):
        p.draw_start(bytes(32), "0x" + "00" * 20, 1, 0)


def test_draws_reach_every_position_alike():
    found = Counter(p.draw_start(keccak(bytes([i // 256, i % 256])), "0x" + "11" * 20, 1, 5) for i in range(2000))
    assert set(found) == set(range(5))
    assert all(330 < times < 470 for times in found.values())  # 400 ± 4 standard deviations


@given(st.lists(st.integers(1, 40), min_size=1, max_size=12), st.integers(0, 50))
def test_every_dataset_gets_its_weight(weights, cycle):
    total = sum(weights)
    base = cycle * total
    found = Counter(p.dataset_choice((base + point) << 224, weights) for point in range(total))
    assert [found[position] for position in range(len(weights))] == weights


@given(st.integers(0, 2**32 - 1), st.integers(0, 2**32 - 1), st.integers(0, 2**192 - 1))
def test_choice_and_seed_read_separate_bits(top, seed, rest):
    drawn = top << 224 | seed << 192 | rest
    assert p.generator_seed(drawn) == seed
    assert p.dataset_choice(drawn, [1] * 1000) == top % 1000


@given(words, st.integers(0, 40))
@settings(max_examples=20)
def test_a_stream_is_its_values_in_order(key, n):
    assert p.stream_values(key, n) == [p.stream_value(key, t) for t in range(n)]


@given(st.lists(st.booleans(), max_size=256))
def test_a_claim_word_is_its_bits(bits):
    word = p.claim_word(bits)
    assert [bool(word >> i & 1) for i in range(len(bits))] == bits
    assert word >> len(bits) == 0


def test_a_claim_has_256_bits_at_most():
    with pytest.raises(ValueError, match="256"):
        p.claim_word([False] * 257)


@pytest.mark.parametrize("value", [-1, 2**256, b"", bytes(31), bytes(33), "", "0x", "0x" + "0" * 39, "0x" + "0" * 42])
def test_what_is_no_word_is_refused(value):
    with pytest.raises((ValueError, OverflowError)):
        p.H("leaf", value)


def test_an_address_is_the_lower_20_bytes_whatever_its_case():
    address = "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266"
    assert p.word(address) == bytes(12) + raw(address)
    assert p.word(address.lower()) == p.word(address)
