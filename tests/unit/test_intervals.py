"""From logits to the integers that tokens own: the vectors' edges, and that intervals always partition all 2**64."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sapo_verifier import intervals as iv
from vectors import VECTORS, big

FULL = 2**64
TOLERANCES = {"widen": iv.WIDEN_TOLERANCE, "void": iv.VOID_TOLERANCE, "reject": iv.REJECT_TOLERANCE}
finite = st.floats(width=32, allow_nan=False, allow_infinity=False)
odd = st.sampled_from([-math.inf, 0.0, -0.0, 1.0, -745.0, -746.0, 88.0, 3e38, -3e38, 1e-45])
extreme = st.lists(finite | odd, min_size=1, max_size=40).filter(lambda logits: max(logits) > -math.inf)


def edges(logits, vocab=None):
    return iv.edges(np.array(logits, dtype=np.float32), len(logits) if vocab is None else vocab)


def check_partition(found):
    """The intervals follow each other without a gap from 0 to 2**64 − 1, and each u has the owner whose it is."""
    at = 0
    for token in range(len(found)):
        lo, last = iv.interval(found, token)
        assert lo == at
        assert last >= lo - 1
        at = last + 1
        if last >= lo:
            assert iv.owner(found, lo) == iv.owner(found, last) == iv.owner(found, (lo + last) // 2) == token
    assert at == FULL


@pytest.mark.parametrize("case", VECTORS["cdf"], ids=lambda case: case["name"])
def test_gives_what_the_vectors_say(case):
    found = edges([float(x) for x in case["logits"]], case["vocab"])
    expected = [big(edge) for edge in case["edges"]]
    assert len(found) == case["vocab"]
    assert all(abs(a - b) <= case["within"] for a, b in zip(found, expected, strict=True))
    assert [iv.owner(expected, big(owner["u"])) for owner in case["owners"]] == [o["token"] for o in case["owners"]]
    for token, pair in enumerate(case["intervals"]):
        lo, last = iv.interval(expected, token)
        assert pair == ([hex(lo), hex(last)] if lo <= last else None)


def test_vectors_hold_the_edges_that_matter():
    by_name = {case["name"]: case for case in VECTORS["cdf"]}
    above = by_name["a sum of 9 · (1/9) above 1.0 leaves the last token with p > 0 nothing"]
    assert np.cumsum(np.full(9, 1 / 9))[-1] > 1.0
    assert above["intervals"][9] is None
    assert np.cumsum(np.full(6, 1 / 6))[-1] < 1.0
    assert by_name["a sum of 6 · (1/6) below 1.0 still ends at 2^64"]["edges"][-1] == hex(FULL)
    for case in VECTORS["cdf"]:
        owned = {owner["u"]: owner["token"] for owner in case["owners"]}
        for token, pair in enumerate(case["intervals"]):
            if pair:  # u = lo and u = last are in the vectors, for every token that owns anything
                assert [owned[f"0x{big(u):016x}"] for u in pair] == [token, token]


@pytest.mark.parametrize("case", VECTORS["miss"])
def test_miss(case):
    assert iv.miss(big(case["u"]), big(case["lo"]), big(case["last"])) == big(case["out"])


@pytest.mark.parametrize("case", VECTORS["tolerances"])
def test_tolerances(case):
    assert TOLERANCES[case["name"]] == big(case["out"])


def test_tolerances_are_the_fractions_of_the_protocol():
    for fraction, units in ((10**5, iv.WIDEN_TOLERANCE), (10**4, iv.VOID_TOLERANCE), (20, iv.REJECT_TOLERANCE)):
        assert units * fraction <= FULL < (units + 1) * fraction


@given(extreme)
@settings(max_examples=200)
def test_intervals_partition_all_integers(logits):
    check_partition(edges(logits))


@given(extreme, st.integers(0, FULL - 1))
def test_the_owner_is_the_token_whose_interval_holds_u(logits, u):
    found = edges(logits)
    lo, last = iv.interval(found, iv.owner(found, u))
    assert lo <= u <= last
    assert iv.miss(u, lo, last) == 0
    assert sum(iv.miss(u, *iv.interval(found, token)) == 0 for token in range(len(found))) == 1


@given(extreme)
def test_impossible_tokens_own_nothing_and_equal_ones_alike(logits):
    found = edges(logits)
    for token, logit in enumerate(logits):
        lo, last = iv.interval(found, token)
        if logit == -math.inf:
            assert last == lo - 1
    equal = edges([logits[0]] * 8) if logits[0] > -math.inf else edges([0.0] * 8)
    assert [iv.interval(equal, token) for token in range(8)] == [(i << 61, (i + 1 << 61) - 1) for i in range(8)]


@given(extreme, st.lists(finite | odd | st.just(math.nan) | st.just(math.inf), max_size=5))
def test_ids_from_vocab_on_change_nothing(logits, masked):
    assert edges(logits + masked, len(logits)) == edges(logits)


@given(st.lists(st.floats(-12, 12, width=32), min_size=2, max_size=40))
def test_widths_are_probabilities(logits):
    found = edges(logits)
    weights = [math.exp(logit - max(logits)) for logit in logits]
    for token, weight in enumerate(weights):
        lo, last = iv.interval(found, token)
        assert (last - lo + 1) / FULL == pytest.approx(weight / math.fsum(weights), abs=1e-14)


def test_a_real_vocabulary():
    logits = np.random.default_rng(5).normal(0, 4, 50_000).astype(np.float32)
    logits[::7] = -np.inf
    check_partition(iv.edges(logits, 49_152))


@pytest.mark.parametrize("logits", [[math.nan, 0], [0, math.nan], [math.inf, 0], [-math.inf, -math.inf]])
def test_what_is_no_distribution_is_refused(logits):
    with pytest.raises(ValueError, match="not finite"):
        edges(logits)


def test_log_probability_is_that_of_the_width():
    assert iv.log_probability(0, FULL - 1) == 0
    assert iv.log_probability(1 << 63, FULL - 1) == pytest.approx(-math.log(2), abs=1e-12)
    assert iv.log_probability(9, 9) == pytest.approx(-64 * math.log(2))
