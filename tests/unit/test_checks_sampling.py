"""tree and sampling: the root on chain holds these records, and every interval holds its u."""

from dataclasses import replace

import pytest

from places import cut, first, of_length
from sapo_devnet.formula.policy import EOS, sample, tokens_of, written
from sapo_devnet.testkit.formula import BEACON, GROUP, LIMIT, NODE, OTHER_NODE, ROUND, SLOTS, assert_only, honest
from sapo_verifier import protocol
from sapo_verifier.checks import batch_root, check_batch
from sapo_verifier.cid import block_digest
from sapo_verifier.objects import Record

# --- tree ------------------------------------------------------------------------------------------------------------


def leaves(draft):
    packed = [b"".join(r.encode() for r in records) for slot in draft.slots for records in slot.records]
    return [protocol.leaf(i, len(p) // 20, protocol.records_root(p)) for i, p in enumerate(packed)]


def test_the_leaves_of_these_tests_are_the_batch_s(draft, worker, tokenizer):
    draft.root = protocol.merkle_root(leaves(draft))
    assert check_batch(draft.seal().audit(worker, tokenizer))[-1].check == "policy"


@pytest.mark.parametrize(
    "change",
    [
        lambda made: [made[1], made[0], *made[2:]],
        lambda made: list(reversed(made)),
        lambda made: made[:-1],
        lambda made: [*made, b"\x01" * 32],  # a pad leaf that is not zero
        lambda made: [*made, *[bytes(32)] * 3, made[0]],
        lambda made: [*made, *[bytes(32)] * 5],  # a level too many
        lambda made: [made[0], *made],
        lambda made: [*made[:-1], bytes(32)],
    ],
)
def test_a_root_over_other_leaves(draft, worker, tokenizer, change):
    draft.root = protocol.merkle_root(change(leaves(draft)))
    assert_only(draft.seal().audit(worker, tokenizer), "tree")


@pytest.mark.parametrize("root", [b"\xff" * 32, bytes(31) + b"\x01", bytes(32)], ids=["ones", "one", "zero"])
def test_a_root_over_nothing(draft, worker, tokenizer, root):
    sealed = draft.seal()
    assert_only(replace(sealed, facts=replace(sealed.facts, root=root)).audit(worker, tokenizer), "tree")


def test_leaves_that_lie_about_their_length_or_place(draft, worker, tokenizer):
    packed = b"".join(record.encode() for record in draft.slots[0].records[0])
    root = protocol.records_root(packed)
    for lie in (protocol.leaf(0, len(packed) // 20 + 1, root), protocol.leaf(1, len(packed) // 20, root)):
        draft.root = protocol.merkle_root([lie, *leaves(draft)[1:]])
        assert_only(draft.seal().audit(worker, tokenizer), "tree")


def test_records_changed_after_the_root_was_submitted(draft, worker, tokenizer):
    """A producer shows other auditors other blocks? The manifest's digest fixes them; here it fixes the wrong ones."""
    draft.root = draft.seal().facts.root
    draft.slots[1].records[1] = [record._replace(lo=0) for record in draft.slots[1].records[1]]
    assert_only(draft.seal().audit(worker, tokenizer), "tree")


# --- sampling --------------------------------------------------------------------------------------------------------


def stream(draft, slot, k):
    facts = draft.seal().facts
    return protocol.stream_values(protocol.stream_key(facts.beacon, facts.policy, facts.node, slot, k), LIMIT)


def first_miss(draft, slot, k):
    pairs = zip(draft.slots[slot].records[k], stream(draft, slot, k), strict=False)
    return next(t for t, (record, u) in enumerate(pairs) if not record.lo <= u <= record.last)


def assert_caught(draft, worker, tokenizer, slot, k):
    draft.rescore(worker)
    t = first_miss(draft, slot, k)
    outcome = assert_only(draft.seal().audit(worker, tokenizer), "sampling", slot=slot, k=k, t=t)
    record = draft.slots[slot].records[k][t]
    assert {name: int(value, 0) for name, value in outcome.evidence.items()} == {
        "token": record.token, "lo": record.lo, "last": record.last, "u": stream(draft, slot, k)[t],
    }  # fmt: skip


MOST = 2**64 - 1


@pytest.mark.parametrize(
    "interval",
    [
        lambda u: (u + 1, min(u + 100, MOST)),
        lambda u: (u - 100, u - 1),
        lambda u: (u + 1, u - 1),
        lambda u: (u, u - 1),
        lambda u: (u + 1, u),
        lambda u: (MOST, 0),
        lambda u: (0, 0),
        lambda u: (MOST, MOST),
    ],
)
@pytest.mark.parametrize(
    "place",
    [
        pytest.param(lambda draft: (0, 0, 0), id="the first"),
        pytest.param(lambda draft: (*cut(draft), LIMIT - 1), id="the last"),
        pytest.param(lambda draft: (*of_length(draft, 2, 3), 2), id="in the middle"),
    ],
)
def test_an_interval_that_does_not_hold_its_u(draft, worker, tokenizer, interval, place):
    slot, k, t = place(draft)
    records = draft.slots[slot].records[k]
    lo, last = interval(stream(draft, slot, k)[t])
    records[t] = Record(records[t].token, lo, last)
    assert first_miss(draft, slot, k) == t
    assert_caught(draft, worker, tokenizer, slot, k)


@pytest.mark.parametrize("interval", [lambda u: (u, u), lambda u: (0, u), lambda u: (u, MOST), lambda u: (0, MOST)])
def test_both_ends_of_an_interval_belong_to_it(draft, worker, tokenizer, interval):
    for slot in range(SLOTS):
        for k in range(GROUP):
            pairs = zip(draft.slots[slot].records[k], stream(draft, slot, k), strict=False)
            draft.slots[slot].records[k] = [Record(record.token, *interval(u)) for record, u in pairs]
    assert check_batch(draft.seal().audit(worker, tokenizer))[-1].check == "policy"


@pytest.mark.parametrize("t", [0, 3, 5])
def test_one_forged_token(draft, worker, tokenizer, t):
    """With the interval that the policy really has for it."""
    at, k = of_length(draft, 2, 6)
    slot = draft.slots[at]
    tokens = slot.tokens(k)
    tokens[t] = 7 if tokens[t] != 7 else 8
    records = written(slot.prompt, slot.liked, tokens)
    slot.rewrite(k, records)
    assert_caught(draft, worker, tokenizer, at, k)
    assert first_miss(draft, at, k) == t


def misses(draft, place, source):
    """Whether the records at `source` hold not all numbers of another place: nearly none hold them all."""
    us = stream(draft, *place)
    records = draft.slots[source[0]].records[source[1]]
    return any(not record.lo <= u <= record.last for record, u in zip(records, us, strict=False))


@pytest.mark.parametrize("of", range(SLOTS))
def test_a_completion_copied_within_the_batch(draft, worker, tokenizer, of):
    slot, k = first(draft, lambda slot, k: slot == of and misses(draft, (0, 1), (slot, k)))
    draft.slots[0].rewrite(1, list(draft.slots[slot].records[k]))
    assert_caught(draft, worker, tokenizer, 0, 1)


@pytest.mark.parametrize(
    "origin",
    [{"node": OTHER_NODE}, {"round_": ROUND - 1, "beacon": block_digest(b"last round")}],
    ids=["another node", "last round"],
)
def test_a_completion_copied_from_elsewhere(draft, worker, tokenizer, origin):
    theirs = honest(worker, **origin)
    for k in range(GROUP):
        draft.slots[1].rewrite(k, theirs.slots[0].records[k])
    assert_caught(draft, worker, tokenizer, 1, 0)


def test_a_whole_group_under_the_records_of_another(draft, worker, tokenizer):
    """Two groups that name one records block."""
    draft.slots[2].records = draft.slots[1].records
    draft.slots[2].document["completions"] = draft.slots[1].document["completions"]
    sealed = draft.seal()
    assert sealed.names["records 1"] == sealed.names["records 2"]
    assert_caught(draft, worker, tokenizer, 2, 0)


def test_the_best_of_many_samples(draft, worker, tokenizer):
    """The policy's own work, with the policy's own intervals, right; but it is not completion 0 of the stream."""
    slot = draft.slots[2]
    assert not draft.claimed(2, 0)
    keys = (protocol.stream_key(BEACON, draft.seal().facts.policy, NODE, 2, k) for k in range(GROUP, 100))
    samples = (sample(slot.prompt, slot.liked, key, LIMIT) for key in keys)
    best = next(records for records in samples if [record.token for record in records] == slot.liked)
    slot.rewrite(0, best)
    assert_caught(draft, worker, tokenizer, 2, 0)
    assert draft.claimed(2, 0)


def test_completions_in_another_order(draft, worker, tokenizer):
    _, k = first(draft, lambda slot, k: slot == 0 and k > 0 and misses(draft, (0, 0), (0, k)))
    slot = draft.slots[0]
    one, other = slot.records[0], slot.records[k]
    slot.rewrite(0, other)
    slot.rewrite(k, one)
    assert_caught(draft, worker, tokenizer, 0, 0)


def test_an_answer_written_by_a_solver(draft, worker, tokenizer):
    """Right, and with the intervals that the policy has for every token of it."""
    slot = draft.slots[1]
    for k in range(GROUP):
        slot.rewrite(k, written(slot.prompt, slot.liked, slot.liked))
    assert_caught(draft, worker, tokenizer, 1, 0)
    assert all(draft.claimed(1, k) for k in range(GROUP))


def test_a_solver_that_leaves_the_honest_start_alone(draft, worker, tokenizer):
    """Only what follows the first honest mistake is rewritten: caught there."""
    slot = draft.slots[1]
    honest_tokens = slot.tokens(1)
    cut = next(t for t, (a, b) in enumerate(zip(honest_tokens, slot.liked, strict=False)) if a != b)
    slot.rewrite(1, written(slot.prompt, slot.liked, slot.liked))
    assert first_miss(draft, 1, 1) == cut
    assert_caught(draft, worker, tokenizer, 1, 1)


def test_another_policy_s_stream(draft, worker, tokenizer):
    """Ground for a policy digest after the beacon was known: the chain's commitment is what counts."""
    slot = draft.slots[0]
    key = protocol.stream_key(BEACON, block_digest(b"a better policy"), NODE, 0, 1)
    slot.rewrite(1, sample(slot.prompt, slot.liked, key, LIMIT))
    assert_caught(draft, worker, tokenizer, 0, 1)


def test_empty_looking_fingerprints_are_not_accepted(draft, worker, tokenizer):
    """All-zero records: token 0 with the interval 0 … 0."""
    draft.slots[2].rewrite(3, [Record(0, 0, 0)] * LIMIT)
    assert_caught(draft, worker, tokenizer, 2, 3)
    draft.slots[2].rewrite(3, [*[Record(token, 0, 0) for token in tokens_of("<1>")], Record(EOS, 0, 0)])
    assert_caught(draft, worker, tokenizer, 2, 3)


def test_the_root_of_the_checks_is_the_protocol_s(draft):
    packed = [b"".join(r.encode() for r in records) for slot in draft.slots for records in slot.records]
    assert batch_root(packed) == protocol.merkle_root(leaves(draft)) == draft.seal().facts.root
