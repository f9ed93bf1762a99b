"""Fetching a batch: three bounded steps, nothing twice, and no more of a malformed batch than shows that it is one."""

import time
from collections import Counter
from types import SimpleNamespace

import pytest

from sapo_devnet.testkit.formula import GROUP, LIMIT, SLOTS, SPEC, assert_stopped, loose_json
from sapo_verifier import audit as audit_module
from sapo_verifier import checks
from sapo_verifier.audit import Audit, fetch_batch, records_limit
from sapo_verifier.checks import check_batch
from sapo_verifier.cid import BLOCK_LIMIT
from sapo_verifier.errors import ObjectError
from sapo_verifier.facts import BatchFacts
from sapo_verifier.ipfs import BlockTooLarge, BlockUnavailable
from sapo_verifier.objects import Document, GroupBlock
from sapo_verifier.protocol import stream_key, stream_values

PEERS = ["/ip4/127.0.0.1/tcp/1/http", "/ip4/127.0.0.1/tcp/2/http"]


class Shelf:
    """A store of blocks that remembers what it was asked for."""

    def __init__(self, blocks):
        self.blocks = blocks
        self.steps = []
        self.peers = []

    def get_many(self, wants, peers=()):
        self.steps.append(list(wants))
        self.peers.append(peers)
        return {digest: self.one(digest, limit) for digest, limit in wants}

    def one(self, digest, limit):
        block = self.blocks.get(digest, BlockUnavailable("nobody has it"))
        return BlockTooLarge("too large") if isinstance(block, bytes) and len(block) > limit else block

    @property
    def asked(self):
        return [digest for step in self.steps for digest, _ in step]


def fetched(sealed, worker, tokenizer, store=None):
    """(what came of it, the store)"""
    store = store or Shelf(sealed.blocks)
    blocks = fetch_batch(store, sealed.spec, sealed.facts, PEERS)
    return Audit(sealed.facts, sealed.spec, blocks, worker, tokenizer), store


def test_a_batch_is_fetched_in_three_steps_each_block_once_within_its_limit(draft, worker, tokenizer):
    sealed = draft.seal()
    audit, store = fetched(sealed, worker, tokenizer)
    names = sealed.names
    most = GROUP * (4 + 20 * LIMIT)
    assert records_limit(SPEC) == most
    assert store.steps == [
        [(names["manifest"], BLOCK_LIMIT), (names["policy"], BLOCK_LIMIT)],
        [(names[f"group {slot}"], BLOCK_LIMIT) for slot in range(SLOTS)],
        [(names[f"records {slot}"], most) for slot in range(SLOTS)],
    ]
    assert store.peers == [PEERS] * 3
    assert audit.blocks == sealed.blocks
    assert check_batch(audit)[-1].check == "policy"


@pytest.mark.parametrize("name", ["manifest", "policy", "group 1", "records 1"])
def test_a_block_that_nobody_has_is_void_and_ends_the_walk(draft, worker, tokenizer, name):
    sealed = draft.seal()
    del sealed.blocks[sealed.names[name]]
    audit, store = fetched(sealed, worker, tokenizer)
    assert_stopped(audit, "available", "void", words=sealed.names[name].hex())
    assert len(store.steps) == {"manifest": 1, "policy": 1, "group 1": 2, "records 1": 3}[name]


@pytest.mark.parametrize("raw", [b"", b"[]", b"\xff", b'{"v":2}'])
def test_a_malformed_document_ends_the_walk_and_fails_the_schema(draft, worker, tokenizer, raw):
    """And is not 'unavailable' for what was never asked for behind it."""
    draft.slots[1].raw_group = raw
    audit, store = fetched(draft.seal(), worker, tokenizer)
    assert_stopped(audit, "schema", slot=1)
    assert len(store.steps) == 2
    for field in ("raw_policy", "raw_manifest"):
        setattr(draft, field, raw)
        audit, store = fetched(draft.seal(), worker, tokenizer)
        assert_stopped(audit, "schema")
        assert len(store.steps) == 1


@pytest.mark.parametrize("count", [1, 2, 4, 256])
def test_groups_beyond_what_the_chain_says_are_not_fetched(draft, worker, tokenizer, count):
    names = draft.seal().names
    groups = ["0x" + names[f"group {slot}"].hex() for slot in range(SLOTS)]
    draft.manifest = {"groups": (groups + [f"0x{i:064x}" for i in range(256)])[:count]}
    audit, store = fetched(draft.seal(), worker, tokenizer)
    assert_stopped(audit, "schema", words=f"{count} groups, not {SLOTS}")
    assert len(store.asked) == 2


# --- one digest in two places ----------------------------------------------------------------------------------------


def test_records_that_two_groups_name_are_fetched_once(draft, worker, tokenizer):
    draft.slots[2].records = draft.slots[1].records
    draft.slots[2].document["completions"] = draft.slots[1].document["completions"]
    draft.rescore(worker)
    audit, store = fetched(draft.seal(), worker, tokenizer)
    forced = stream_values(stream_key(audit.facts.beacon, audit.facts.policy, audit.facts.node, 2, 0), LIMIT)
    pairs = zip(draft.slots[2].records[0], forced, strict=False)
    miss = next(t for t, (record, u) in enumerate(pairs) if not record.lo <= u <= record.last)
    assert_stopped(audit, "sampling", slot=2, k=0, t=miss)
    assert len(set(store.asked)) == len(store.asked) == 2 + SLOTS + SLOTS - 1


@pytest.mark.parametrize("name", ["policy", "group 0", "group 2"])
def test_a_document_named_as_records_stays_what_it_is(draft, worker, tokenizer, name):
    """A second get, with the smaller limit of a records block, would turn a false batch into one that is only void."""
    draft.slots[0].document["prompt"] += "x" * 2000  # the document is larger than records may be
    draft.policy["base"] += "x" * 2000
    sealed = draft.seal()
    target = sealed.names[name]
    assert len(sealed.blocks[target]) > records_limit(SPEC) or name == "group 2"
    slot = 1
    draft.slots[slot].document["records"] = "0x" + target.hex()
    audit, store = fetched(draft.seal(), worker, tokenizer)
    assert_stopped(audit, "schema", slot=slot)
    assert len(set(store.asked)) == len(store.asked)


def test_the_policy_named_as_a_group(draft, worker, tokenizer):
    names = draft.seal().names
    groups = ["0x" + names[name].hex() for name in ("group 0", "policy", "group 2")]
    draft.manifest = {"groups": groups}
    audit, store = fetched(draft.seal(), worker, tokenizer)
    assert_stopped(audit, "schema", slot=1)
    assert len(set(store.asked)) == len(store.asked)


def test_the_manifest_committed_as_the_policy(draft, worker, tokenizer):
    sealed = draft.seal()
    same = sealed.facts.__class__(**{**vars(sealed.facts), "policy": sealed.facts.manifest})
    blocks = fetch_batch(store := Shelf(sealed.blocks), SPEC, same, PEERS)
    assert store.asked == [sealed.facts.manifest]
    assert_stopped(Audit(same, SPEC, blocks, worker, tokenizer), "schema", words="PolicyManifest")


def test_a_manifest_that_lists_itself_ends_the_walk(draft, worker, tokenizer):
    """No bytes hold their own digest; but a store may hand out bytes that are not the manifest's."""
    sealed = draft.seal()
    own = "0x" + sealed.facts.manifest.hex()
    draft.manifest = {"groups": [own, "0x" + sealed.facts.policy.hex(), "0x" + "00" * 32]}
    looping = draft.seal()
    sealed.blocks[sealed.facts.manifest] = looping.blocks[looping.facts.manifest]
    audit, store = fetched(sealed, worker, tokenizer)
    assert store.asked == [sealed.facts.manifest, sealed.facts.policy, bytes(32)]
    assert_stopped(audit, "available", "void", words="00" * 32)
    audit.blocks[bytes(32)] = b"x"
    assert check_batch(audit)[-1].check == "digest"


@pytest.mark.parametrize("kind", ["manifest", "group", "records"])
def test_a_block_is_parsed_once_also_if_it_is_misshapen(draft, worker, tokenizer, kind, monkeypatch):
    """Once where it is fetched and once where it is checked: two bytes for each that was published."""
    match kind:
        case "manifest":
            draft.manifest = {"groups": []}
        case "group":
            draft.slots[SLOTS - 1].document |= {"attempt": -1}
        case "records":
            draft.slots[SLOTS - 1].raw_records = bytes(4)
    parsed = []
    split, parse = audit_module.split_records, Document.parse.__func__
    monkeypatch.setattr(audit_module, "split_records", lambda data, *more: parsed.append(data) or split(data, *more))
    monkeypatch.setattr(Document, "parse", classmethod(lambda cls, data: parsed.append(data) or parse(cls, data)))
    audit, _ = fetched(draft.seal(), worker, tokenizer)
    assert_stopped(audit, "schema", slot=None if kind == "manifest" else SLOTS - 1)
    assert parsed
    assert max(Counter(parsed).values()) <= 2


def test_a_records_block_that_all_groups_name_is_parsed_once(draft, worker, tokenizer, monkeypatch):
    for slot in range(1, SLOTS):
        draft.slots[slot].records = draft.slots[0].records
    parsed = []
    split = audit_module.split_records
    monkeypatch.setattr(audit_module, "split_records", lambda data, *more: parsed.append(data) or split(data, *more))
    audit, _ = fetched(draft.seal(), worker, tokenizer)
    assert len(audit.completions) == SLOTS
    assert len(parsed) == 1


# --- stores that do not keep their word ------------------------------------------------------------------------------


class Silent(Shelf):
    def get_many(self, wants, peers=()):
        return dict(list(super().get_many(wants, peers).items())[1:])


class Odd(Shelf):
    value: object = None

    def one(self, digest, limit):
        return self.value


class Generous(Shelf):
    def get_many(self, wants, peers=()):
        super().get_many(wants, peers)
        return dict(self.blocks) | {bytes(32): b"unasked", b"\x01" * 32: BlockUnavailable("gone")}


class Unlimited(Shelf):
    def one(self, digest, limit):
        return self.blocks[digest]


def test_an_answer_that_is_missing_is_a_missing_block(draft, worker, tokenizer):
    sealed = draft.seal()
    audit, _ = fetched(sealed, worker, tokenizer, Silent(sealed.blocks))
    assert_stopped(audit, "available", "void", words="no answer")


@pytest.mark.parametrize("value", [None, TimeoutError("late"), bytearray(b"{}"), memoryview(b"{}"), "{}", 7])
def test_an_answer_that_is_no_block_is_a_missing_block(draft, worker, tokenizer, value):
    store = Odd({})
    store.value = value
    audit, _ = fetched(draft.seal(), worker, tokenizer, store)
    assert_stopped(audit, "available", "void")


def test_what_was_not_asked_for_is_left_out(draft, worker, tokenizer):
    sealed = draft.seal()
    audit, _ = fetched(sealed, worker, tokenizer, Generous(sealed.blocks))
    assert audit.blocks == sealed.blocks


@pytest.mark.parametrize("kind", ["records", "group", "manifest", "policy"])
def test_a_store_without_limits_changes_no_verdict(draft, worker, tokenizer, kind):
    """Oversize is void, whoever notices it."""
    data = bytes(BLOCK_LIMIT + 1) if kind != "records" else bytes(records_limit(SPEC) + 1)
    match kind:
        case "records":
            draft.slots[1].raw_records = data
        case "group":
            draft.slots[1].raw_group = data
        case _:
            setattr(draft, f"raw_{kind}", data)
    sealed = draft.seal()
    for store in (Shelf(sealed.blocks), Unlimited(sealed.blocks)):
        audit, _ = fetched(sealed, worker, tokenizer, store)
        assert_stopped(audit, "size", "void")


# --- time ------------------------------------------------------------------------------------------------------------


def large(slot, document, **fields):
    """A group block of about 1 MiB."""
    return loose_json(document | {"records": "0x" + "00" * 32} | fields | {"slot": slot})


@pytest.mark.parametrize("filler", ["", {}], ids=["short strings", "objects"])
def test_of_many_large_malformed_groups_only_the_first_is_parsed(draft, worker, tokenizer, filler, monkeypatch):
    """A mebibyte of short strings takes half a second to parse, of errors three: not once for every slot."""
    for i, slot in enumerate(draft.slots):
        slot.raw_group = large(i, slot.document, completions=[filler] * 150_000, prompt=str(i))
    parsed = []
    parse = GroupBlock.parse.__func__
    monkeypatch.setattr(
        GroupBlock, "parse", classmethod(lambda cls, data: parsed.append(len(data)) or parse(cls, data))
    )
    started = time.process_time()
    audit, store = fetched(draft.seal(), worker, tokenizer)
    assert_stopped(audit, "schema", slot=0)
    assert len(set(parsed)) == 1
    assert len(parsed) <= 4
    assert len(store.steps) == 2
    assert time.process_time() - started < 20


TEXTS = [
    "<" * 250_000, "<18>" * 60_000, ">" * 250_000, "<answer>" * 30_000, "\\frac{" * 35_000, "0" * 250_000,
    " " * 250_000,
]  # fmt: skip


@pytest.mark.parametrize("text", TEXTS, ids=lambda text: text[:8])
def test_long_texts_take_no_long_time(draft, worker, tokenizer, text):
    """Nothing here is quadratic in what a peer writes."""
    for slot in draft.slots:
        slot.document["completions"] = [text] * GROUP
        slot.document["prompt"] = slot.document["dataset"] = text[:20_000]
    sealed = draft.seal()
    assert BLOCK_LIMIT * 0.8 < max(map(len, sealed.blocks.values())) <= BLOCK_LIMIT
    audit, _ = fetched(sealed, worker, tokenizer)
    started = time.process_time()
    outcome = assert_stopped(audit, "task", slot=0)
    assert len(outcome.reason) < 1100
    assert checks.text(audit).status == "fail"
    assert checks.reward(audit).status in ("fail", "pass")
    assert time.process_time() - started < 10


# --- documents and facts ---------------------------------------------------------------------------------------------


def test_documents_that_are_not_at_hand_say_so(draft, worker, tokenizer):
    sealed = draft.seal()
    audit = Audit(sealed.facts, SPEC, {}, worker, tokenizer)
    for name in ("manifest", "policy", "groups", "records", "base"):
        with pytest.raises(ObjectError, match="not at hand"):
            getattr(audit, name)


def test_facts_are_the_chain_s():
    deployment = SimpleNamespace(chain_id=5, contracts=SimpleNamespace(rounds="0x" + "12" * 20))
    batch = SimpleNamespace(
        index=9, node="0x" + "ab" * 20, round=3, slots=2, policy=b"p" * 32, manifest=b"m" * 32, root=b"r" * 32, claim=6
    )
    facts = BatchFacts.of(deployment, batch, b"b" * 32)
    assert vars(facts) == vars(batch) | {"chain_id": 5, "rounds": "0x" + "12" * 20, "beacon": b"b" * 32}
