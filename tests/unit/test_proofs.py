"""Fraud proofs from published bytes: every provable fault is found where it is, and honest work has none."""

import struct
from contextlib import suppress
from dataclasses import replace

import pytest

from sapo_devnet.testkit.formula import GROUP, LIMIT, SLOTS, SPEC, Draft, Sealed, honest, small_spec
from sapo_verifier import protocol
from sapo_verifier.errors import ObjectError
from sapo_verifier.objects import Record, encode_records
from sapo_verifier.proofs import Proof, find_proof

TOP = 2**64 - 1


def key_of(draft: Draft, slot: int, k: int) -> bytes:
    return protocol.stream_key(draft.facts.beacon, draft.seal().facts.policy, draft.facts.node, slot, k)


def found(sealed: Sealed, worker, tokenizer) -> Proof | None:
    return find_proof(sealed.audit(worker, tokenizer))


@pytest.mark.parametrize("node", range(12))
def test_honest_batches_have_no_proof(worker, tokenizer, node):
    made = honest(worker, node=f"0x{node:040x}", round_=node, beacon=bytes([node]) * 32)
    assert found(made.seal(), worker, tokenizer) is None


@pytest.mark.parametrize("place", [(0, 0, 0), (1, 2, 1), (SLOTS - 1, GROUP - 1, 0)])
@pytest.mark.parametrize("fault", ["above", "below", "empty", "inside out"])
def test_a_false_record_is_found_where_it_is(draft, worker, tokenizer, fault, place):
    slot, k, t = place
    records = draft.slots[slot].records[k]
    u = protocol.stream_value(key_of(draft, slot, k), t)
    token = records[t].token
    bad = {
        "above": Record(token, u + 1, TOP),
        "below": Record(token, 0, u - 1),
        "empty": Record(token, u + 1, u),
        "inside out": Record(token, TOP, 0),
    }[fault]
    records[t] = bad
    proof = found(draft.seal(), worker, tokenizer)
    assert proof is not None
    assert (proof.slot, proof.k, proof.t) == place
    assert (proof.record, proof.u, proof.call.function) == (bad, u, "proveRecord")
    assert ("is empty" in proof.reason) == (fault in ("empty", "inside out"))
    index, leaf, chunk, position = proof.call.args
    assert (index, position) == (draft.facts.index, t)
    assert leaf[0] == slot * GROUP + k
    assert protocol.root_from_path(protocol.leaf(*leaf[:3]), leaf[0], leaf[3]) == draft.seal().facts.root
    assert protocol.root_from_path(protocol.chunk_hash(*chunk[:2]), chunk[0], chunk[2]) == leaf[2]


def test_the_bounds_of_an_interval_belong_to_it(draft, worker, tokenizer):
    u = protocol.stream_value(key_of(draft, 0, 0), 0)
    draft.slots[0].records[0][0] = Record(draft.slots[0].records[0][0].token, u, u)
    assert found(draft.seal(), worker, tokenizer) is None


@pytest.mark.parametrize("n", [0, LIMIT + 1])
def test_a_false_length_is_found(draft, worker, tokenizer, n):
    """Other checks refuse the block before; the proof needs nothing but its own reading of it."""
    draft.slots[1].records[3] = [Record(5, 0, TOP)] * n
    draft.slots[1].raw_records = encode_records(draft.slots[1].records)
    proof = found(draft.seal(), worker, tokenizer)
    assert proof is not None
    assert (proof.slot, proof.k, proof.t, proof.call.function) == (1, 3, None, "proveLength")
    assert f"{n} records" in proof.reason


@pytest.mark.parametrize("t", [0, 31, 32, 63, 64, 69])
def test_records_beyond_the_first_chunk(worker, tokenizer, t):
    bases = [base.model_dump(mode="json") | {"context": 4096} for base in SPEC.bases]
    made = honest(worker, spec=small_spec(max_new_tokens=70, bases=bases))
    records = [Record(5, 0, TOP)] * 70
    records[t] = Record(5, 1, 0)
    made.slots[2].records[1] = records
    proof = found(made.seal(), worker, tokenizer)
    assert proof is not None
    assert (proof.slot, proof.k, proof.t) == (2, 1, t)
    _, _, (c, chunk, _), position = proof.call.args
    assert (c, position) == divmod(t, 32)
    assert len(chunk) == 20 * min(32, 70 - 32 * c)


def test_records_of_another_root_prove_nothing(draft, worker, tokenizer):
    draft.slots[0].records[0][0] = Record(5, 1, 0)
    draft.root = bytes(31) + b"\1"
    assert found(draft.seal(), worker, tokenizer) is None


def test_a_stale_policy_is_no_excuse(draft, worker, tokenizer):
    """The u that counts comes from the policy that was committed, not from the one in the manifest."""
    sealed = draft.seal()
    facts = replace(sealed.facts, policy=bytes(32))
    sealed.facts, sealed.blocks = facts, sealed.blocks | {bytes(32): sealed.blocks[sealed.names["policy"]]}
    proof = found(sealed, worker, tokenizer)
    assert proof is not None
    assert (proof.slot, proof.call.function) == (0, "proveRecord")


def test_what_is_not_at_hand_cannot_be_proven(draft, worker, tokenizer):
    draft.slots[2].records[0][0] = Record(5, 1, 0)
    sealed = draft.seal()
    for name in ("manifest", "group 1", "records 0"):
        blocks = {digest: block for digest, block in sealed.blocks.items() if digest != sealed.names[name]}
        with pytest.raises(ObjectError, match="not at hand"):
            found(replace(sealed, blocks=blocks), worker, tokenizer)


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"\0\0\0",
        struct.pack(">I", 2**32 - 1),
        struct.pack(">I", 1) + bytes(19),
        bytes(4) * 5,
        bytes(4) * 3,
        bytes(4) * 100_000,
    ],
)
def test_records_of_any_bytes(draft, worker, tokenizer, raw):
    """None, or an ObjectError in words; never anything else, and never a proof: no honest root has such leaves."""
    draft.slots[1].raw_records = raw
    sealed = draft.seal()
    proof = None
    with suppress(ObjectError):
        proof = found(sealed, worker, tokenizer)
    assert proof is None
