"""Bundles that are hostile or damaged: words, in bounded time and memory; and honest ones, read back as they were."""

import io
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from eth_hash.auto import keccak

from sapo_devnet.testkit.formula import BEACON, Draft, Sealed
from sapo_lab.sweeps.bundles import layout, reverifier
from sapo_lab.sweeps.made_up import Trie, car_of, code_of, evidence_of, sections_of, storage_of
from sapo_verifier import canonical
from sapo_verifier.bundles import rlp
from sapo_verifier.bundles.bundle import open_bundle, write_bundle
from sapo_verifier.bundles.car import MAX_BLOCKS, Car, car_header, car_section, varint, write_car
from sapo_verifier.bundles.errors import BundleError
from sapo_verifier.bundles.evidence import Evidence, prove, read_evidence
from sapo_verifier.bundles.layout import rounds_layout
from sapo_verifier.bundles.trie import EMPTY_ROOT, Nodes
from sapo_verifier.cid import BLOCK_LIMIT, block_digest
from sapo_verifier.errors import UsageError
from sapo_verifier.facts import BatchFacts
from sapo_verifier.objects import hex_digest
from sapo_verifier.protocol import word

ROOT_BLOCK = b"root"
ROOT_DIGEST = block_digest(ROOT_BLOCK)
HEAD = car_header(ROOT_DIGEST)


def number(digest: bytes) -> int:
    return int.from_bytes(digest, "big")


@pytest.fixture
def sealed(draft: Draft) -> Sealed:
    return draft.seal()


@pytest.fixture
def evidence(sealed: Sealed) -> Evidence:
    return evidence_of(sealed.facts, SPEC=number(sealed.spec.digest()))


def opened(path: Path, data: bytes) -> Car:
    path.write_bytes(data)
    return Car(path)


# --- the file ---


def test_what_is_written_is_read(tmp_path: Path) -> None:
    made = io.BytesIO()
    write_car(made, [ROOT_BLOCK, b"", b"x" * 300, ROOT_BLOCK])
    with opened(tmp_path / "x", made.getvalue()) as car:
        assert car.root == ROOT_DIGEST
        assert [car.get(block_digest(data)) for data in (ROOT_BLOCK, b"", b"x" * 300)] == [ROOT_BLOCK, b"", b"x" * 300]
        assert car.get(bytes(32)) is None
        found = car.get_many([(block_digest(b""), 10), (bytes(32), 10)])
        assert found[block_digest(b"")] == b""
        assert "does not have it" in str(found[bytes(32)])


# DAG-CBOR of {"roots": [CID of ROOT_BLOCK], "version": 1}, as libipld 3.5 encodes it.
LIBIPLD = (
    "a265726f6f747381d82a582500015512204813494d137e1631bba301d5acab6e7bb7aa74ce1185d456565ef51d737677b2"
    "6776657273696f6e01"
)


def test_others_write_and_read_the_same() -> None:
    assert HEAD[1:] == bytes.fromhex(LIBIPLD)
    made = io.BytesIO()
    write_car(made, [ROOT_BLOCK, b"x" * 300])
    data = made.getvalue()
    root, places = reverifier().read_car(data)
    assert root == ROOT_DIGEST
    assert [data[slice(*place)] for place in places.values()] == [ROOT_BLOCK, b"x" * 300]


CID = bytes.fromhex("01551220")
TWO_ROOTS = b"\xa2\x65roots\x82" + 2 * (b"\xd8\x2a\x58\x25\0" + CID + ROOT_DIGEST) + b"\x67version\x01"
SECTION = car_section(ROOT_DIGEST, ROOT_BLOCK)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "cut off before the length of the header"),
        (HEAD[:20], "no CAR, version 1"),
        (b"\xff" * 40, "the length of the header is 2^28 or more"),
        (varint(len(TWO_ROOTS)) + TWO_ROOTS, "not exactly one root"),
        (HEAD[:-1] + b"\x02" + SECTION, "no CAR, version 1"),
        (HEAD.replace(CID, bytes.fromhex("01711220")) + SECTION, "no CAR, version 1"),
        (b"\xbb\x00" + HEAD[1:], "written longer than it need be"),
        (HEAD + SECTION[:-1], "cut off inside the block"),
        (HEAD + SECTION[:20], "cut off inside the block"),
        (HEAD + varint(36 + BLOCK_LIMIT + 1) + CID, f"at most {BLOCK_LIMIT} its own"),
        (HEAD + varint(35) + bytes(35), "35 bytes; 36 are its CID"),
        (HEAD + b"\xff\xff\xff\xff\x7f", "2^28 or more"),
        (HEAD + SECTION + SECTION, "twice"),
        (HEAD + varint(40) + bytes.fromhex("01711220") + ROOT_DIGEST + ROOT_BLOCK, "not named by the CID of a raw"),
    ],
)
def test_a_file_that_is_none_is_refused_in_words(tmp_path: Path, data: bytes, words: str) -> None:
    with pytest.raises(BundleError, match="is no bundle") as caught:
        opened(tmp_path / "x", data)
    assert words in str(caught.value)


def test_very_many_blocks_are_refused_before_they_are_all_read(tmp_path: Path) -> None:
    many = b"".join(car_section(i.to_bytes(32, "big"), b"") for i in range(MAX_BLOCKS + 1))
    with pytest.raises(BundleError, match="more than 17000 blocks"):
        opened(tmp_path / "x", HEAD + many)


def test_what_is_no_file_is_told(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be read"):
        Car(tmp_path / "nowhere")
    with pytest.raises(UsageError, match="cannot be read"):
        Car(tmp_path)


def test_a_bundle_is_written_once_and_read_back(sealed: Sealed, evidence: Evidence, tmp_path: Path) -> None:
    blocks = dict(sealed.blocks)
    gone = sealed.names["group 1"]
    del blocks[gone]
    path = tmp_path / "x.car"
    assert write_bundle(path, evidence, sealed.spec, sealed.facts, blocks) == [gone]
    with pytest.raises(UsageError, match="is there already"):
        write_bundle(path, evidence, sealed.spec, sealed.facts, blocks)
    with open_bundle(path) as bundle:
        assert (bundle.facts, bundle.spec) == (sealed.facts, sealed.spec)
        assert bundle.proven.acc == bytes(31) + b"\1"
        assert bundle.has_weights(), "a base has none"
        assert gone not in bundle.car


def test_weights_are_all_there_or_not_there(draft: Draft, tmp_path: Path) -> None:
    chunk = b"w" * 100
    draft.policy |= {"kind": "full", "size": 100, "blocks": [hex_digest(block_digest(chunk))]}
    sealed = draft.seal()
    evidence = evidence_of(sealed.facts, SPEC=number(sealed.spec.digest()))
    for blocks, whole in ((sealed.blocks, False), (sealed.blocks | {block_digest(chunk): chunk}, True)):
        path = tmp_path / f"{whole}.car"
        write_bundle(path, evidence, sealed.spec, sealed.facts, blocks)
        with open_bundle(path) as bundle:
            assert bundle.has_weights() is whole
            assert (bundle.blocks(weights=True).get(block_digest(chunk)) == chunk) is whole


def test_other_bytes_for_the_evidence_or_the_spec_are_refused(sealed: Sealed, tmp_path: Path) -> None:
    path, sections = tmp_path / "x.car", sections_of(sealed)
    for name in list(sections)[:2]:
        path.write_bytes(car_of(sections | {name: sections[name] + b" "}))
        with pytest.raises(BundleError, match="has other bytes"), open_bundle(path):
            pass
    spec = list(sections)[1]
    path.write_bytes(car_of({name: data for name, data in sections.items() if name != spec}))
    with pytest.raises(BundleError, match="lacks the network's spec"), open_bundle(path):
        pass


# --- RLP and tries ---


@pytest.mark.parametrize(
    "item", [b"", b"\0", b"\x7f", b"\x80", b"x" * 55, b"x" * 56, b"x" * 300, [], [b"", [b"a"], b"b" * 60]]
)
def test_rlp_there_and_back(item: rlp.Item) -> None:
    assert rlp.decode(rlp.encode(item)) == item


@pytest.mark.parametrize(
    "data",
    ["", "8100", "b800", "b80000", "b90001" + "00", "8261", "c180ff", "c2", "bfffffffffffffffff", "c1" * 20, "0000"],
)
def test_rlp_that_is_not_as_it_must_be(data: str) -> None:
    with pytest.raises(BundleError, match="RLP"):
        rlp.decode(bytes.fromhex(data))


@pytest.mark.parametrize("count", [1, 2, 17, 300])
def test_a_trie_shows_what_is_there_and_what_is_not(count: int) -> None:
    trie = Trie({word(i): rlp.encode(rlp.number(i + 1)) for i in range(count)})
    root = trie.root()
    nodes = Nodes(trie.nodes)
    assert [nodes.at(root, word(i)) for i in range(count)] == [rlp.encode(rlp.number(i + 1)) for i in range(count)]
    assert {nodes.at(root, word(i)) for i in range(count, count + 50)} == {None}
    assert nodes.at(EMPTY_ROOT, word(0)) is None
    with pytest.raises(BundleError, match="is missing"):
        nodes.at(bytes(32), word(0))


@pytest.mark.parametrize(
    ("node", "words"),
    [
        ([b"\x00", b"x"], "no valid path"),  # an extension by nothing, which could go round in circles
        ([b"\x41", b"x"], "no valid path"),
        ([b"", b"x"], "no valid path"),
        ([b"\x21", b"x"] * 2, "has 4 fields"),
        (b"text", "no RLP list"),
    ],
)
def test_a_node_that_is_none(node: rlp.Item, words: str) -> None:
    data = rlp.encode(node)
    with pytest.raises(BundleError, match=words):
        Nodes([data]).at(keccak(data), word(0))


# --- the evidence ---


def test_it_shows_the_facts(sealed: Sealed, evidence: Evidence) -> None:
    proven = prove(read_evidence(evidence.encode()))
    assert proven.facts == sealed.facts
    assert proven.block_hash == keccak(evidence.header)
    assert proven.spec_digest == sealed.spec.digest()


def test_a_claim_of_nothing_is_shown_by_what_is_not_there(sealed: Sealed) -> None:
    facts = replace(sealed.facts, claim=0)
    assert prove(evidence_of(facts)).facts.claim == 0


def shown(evidence: Evidence, nodes: list[bytes]) -> BatchFacts | str:
    """What it shows with these nodes, or why it shows nothing."""
    try:
        return prove(evidence.model_copy(update={"nodes": nodes})).facts
    except BundleError as error:
        return str(error)


def test_each_node_is_needed_or_changes_nothing(sealed: Sealed, evidence: Evidence) -> None:
    found = [shown(evidence, evidence.nodes[:i] + evidence.nodes[i + 1 :]) for i in range(len(evidence.nodes))]
    told = [words for words in found if isinstance(words, str)]
    assert len(told) >= 8
    assert all("is missing" in words for words in told)
    assert all(facts == sealed.facts for facts in found if not isinstance(facts, str))


Bend = Callable[[Evidence, Sealed], Evidence]


def bent(**changes: Any) -> Bend:
    return lambda evidence, _: evidence.model_copy(update=changes)


def without(*names: str) -> Bend:
    """A state in which nothing is stored at these slots."""

    def bend(_: Evidence, sealed: Sealed) -> Evidence:
        at, facts = rounds_layout().at, sealed.facts
        slots = {
            "batch": at("_batches", facts.index),
            "head": at("_heads", facts.round),
            "beacon": at("_beacons", facts.round),
        }
        gone = {slots[name] for name in names}
        return evidence_of(facts, storage={k: v for k, v in storage_of(facts).items() if k not in gone})

    return bend


@pytest.mark.parametrize(
    ("bend", "words"),
    [
        (bent(rounds="0x" + "00" * 19 + "03"), "the code in the bundle is not that of the account"),
        (bent(rounds="0x" + "ef" * 20), "has no account"),
        (bent(index=6), "has no batch 6"),
        (bent(chain=1), "has not the beacon of this chain"),
        (bent(entropy=bytes(32)), "has not the beacon of this chain"),
        (bent(code=b"\0"), "is not that of the account"),
        (bent(nodes=[]), "is missing"),
        (bent(header=b""), "RLP"),
        (bent(header=rlp.encode([bytes(32)] * 3)), "the block's header has 3 fields"),
        (bent(header=rlp.encode([bytes(32)] * 21)), "is missing"),
        (without("batch"), "has no batch 5"),
        (without("head"), "not among those of its round"),
        (without("beacon"), "has not the beacon"),
    ],
)
def test_evidence_that_shows_something_else(evidence: Evidence, sealed: Sealed, bend: Bend, words: str) -> None:
    with pytest.raises(BundleError, match=words):
        prove(bend(evidence, sealed))


@pytest.mark.parametrize(
    "change", [lambda c: c[:-1] + b"\0", lambda c: c[:1300] + b"\1" + c[1301:], lambda c: c[:1000]]
)
def test_code_of_another_contract(evidence: Evidence, change: Callable[[bytes], bytes]) -> None:
    """Whoever deploys a contract of their own on the true chain proves nothing with it."""
    with pytest.raises(BundleError, match="the contract's code"):
        rounds_layout().held(change(evidence.code))
    assert rounds_layout().held(code_of(SPEC=7))["SPEC"] == 7


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{}",
        b"[" * 10_000,
        b'{"chain":1}',
        b'{"a":"' + b"x" * BLOCK_LIMIT + b'"}',
    ],
)
def test_a_root_block_that_is_no_evidence(data: bytes) -> None:
    with pytest.raises(BundleError, match="no evidence"):
        read_evidence(data)
    module = reverifier()
    with pytest.raises(module.Refused):
        module.prove(data, layout())


def test_too_many_or_too_long_nodes_are_refused_unread(evidence: Evidence) -> None:
    document = evidence.to_json()
    for nodes in (["0x"] * 1025, ["0x" + "00" * 1025]):
        with pytest.raises(BundleError, match="nodes"):
            read_evidence(canonical.encode(document | {"nodes": nodes}))


def test_the_beacon_of_the_draft_is_of_the_entropy(sealed: Sealed) -> None:
    """Or what is made up would prove nothing."""
    assert sealed.facts.beacon == BEACON
