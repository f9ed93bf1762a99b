"""Fraud proofs: from a batch's published records to the call that proves a fault on chain (docs/protocol.md).

Only what everybody can read is needed: no model, no tokenizer, no scorer. Honest work has no fault to be found here.
"""

import struct
from dataclasses import dataclass

from sapo_verifier import protocol
from sapo_verifier.audit import Audit
from sapo_verifier.chain.contracts import Call
from sapo_verifier.errors import ObjectError
from sapo_verifier.objects import Record, unpack_records

RECORDS = protocol.RECORDS_PER_CHUNK


@dataclass(frozen=True)
class Proof:
    """A provable fault: where it is, in words what it is, and the call that proves it."""

    slot: int
    k: int
    t: int | None
    reason: str
    call: Call
    record: Record | None = None  # the false one
    u: int | None = None  # what its interval had to hold


def find_proof(audit: Audit) -> Proof | None:
    """The first provable fault of a batch, or None: nothing is provable, or the records are not those of the root.

    The documents may be faulty; the records blocks must be at hand. Raises ObjectError where they are not.
    """
    spec, facts = audit.spec, audit.facts
    completions = [part for slot in range(facts.slots) for part in _completions(audit, slot)]
    leaves = protocol.batch_leaves(completions)
    if len(completions) != facts.slots * spec.group_size or protocol.merkle_root(leaves) != facts.root:
        return None
    for i, packed in enumerate(completions):
        slot, k = divmod(i, spec.group_size)
        n = len(packed) // protocol.RECORD_BYTES
        leaf = (i, n, protocol.records_root(packed), tuple(protocol.merkle_path(leaves, i)))
        if not 1 <= n <= spec.max_new_tokens:
            reason = f"the completion has {n} records; 1 to {spec.max_new_tokens} are allowed"
            return Proof(slot, k, None, reason, Call("proofs", "proveLength", (facts.index, leaf)))
        key = protocol.stream_key(facts.beacon, facts.policy, facts.node, slot, k)
        for t, record in enumerate(unpack_records(packed)):
            u = protocol.stream_value(key, t)
            if not record.lo <= u <= record.last:
                call = Call("proofs", "proveRecord", (facts.index, leaf, _chunk(packed, t), t % RECORDS))
                return Proof(slot, k, t, _words(record, u), call, record, u)
    return None


def _completions(audit: Audit, slot: int) -> list[bytes]:
    """A records block cut as it says itself, whatever its lengths are: faulty ones are what is looked for."""
    data = audit.bytes_of(audit.groups[slot].records)
    parts: list[bytes] = []
    at = 0
    while at < len(data):
        if at + 4 > len(data):
            raise ObjectError(f"slot {slot}: the records block ends inside a length")
        (n,) = struct.unpack_from(">I", data, at)
        end = at + 4 + n * protocol.RECORD_BYTES
        if end > len(data):
            raise ObjectError(f"slot {slot}: the records block ends inside completion {len(parts)}")
        parts.append(data[at + 4 : end])
        at = end
    return parts


def _chunk(packed: bytes, t: int) -> tuple[int, bytes, tuple[bytes, ...]]:
    chunks = protocol.record_chunks(packed)
    hashes = [protocol.chunk_hash(c, chunk) for c, chunk in enumerate(chunks)]
    c = t // RECORDS
    return c, chunks[c], tuple(protocol.merkle_path(hashes, c))


def _words(record: Record, u: int) -> str:
    if record.lo > record.last:
        return f"the interval {record.lo:#x} … {record.last:#x} is empty"
    return f"the interval {record.lo:#x} … {record.last:#x} does not hold u = {u:#x}"
