"""Whatever a peer publishes: no check raises, and nothing is accepted that differs in anything but interval bounds."""

import json
import random
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sapo_devnet.testkit.formula import honest, loose_json
from sapo_lab.sweeps.mutations import StandIn, meaning, mutate
from sapo_verifier.checks import CHECKS, check_batch

MUTATIONS = 600


def test_no_mutation_raises_and_what_is_accepted_says_the_same(worker, tokenizer):
    """Everything that differs from the one honest batch is stopped. A token exchanged under an interval that holds its
    u is left to the last check: the interval is not the policy's. `scripts/fuzz batches` does the same at length."""
    honest_meaning = meaning(honest(worker).seal())
    policy, stopped = StandIn(), Counter()
    for seed in range(MUTATIONS):
        rng = random.Random(seed)
        draft = honest(worker)
        mutate(rng, draft, worker)
        sealed = draft.seal()
        outcomes = check_batch(policy.audits(sealed.audit(worker, tokenizer)))
        last = outcomes[-1]
        assert [outcome.status for outcome in outcomes[:-1]] == ["pass"] * (len(outcomes) - 1), (seed, outcomes)
        if last.status == "pass":
            assert last.check == "policy", (seed, last)
            assert meaning(sealed) == honest_meaning, seed
        stopped[last.check, last.status] += 1
    print("\nstopped by:", *(f"{n:4} {check} ({what})" for (check, what), n in stopped.most_common()), sep="\n  ")
    names = [check.__name__ for check in CHECKS[3:]]
    assert {check for check, _ in stopped} >= {*names, "available"}, stopped  # a changed digest names a missing block


@pytest.mark.parametrize("kind", ["manifest", "policy", "group", "records"])
def test_any_bytes_for_any_block(worker, tokenizer, kind):
    """hypothesis: random bytes, bytes around an honest block, and documents of odd values."""
    sealed = honest(worker).seal()
    good = sealed.blocks[sealed.names[kind if kind in ("manifest", "policy") else f"{kind} 1"]]
    pieces = st.tuples(st.integers(0, len(good)), st.binary(max_size=40), st.integers(0, len(good)))
    scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8)
    values = st.recursive(
        scalars, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner)
    )
    fields = sorted(json.loads(good)) if kind != "records" else ["v"]
    documents = st.dictionaries(st.sampled_from(fields), values).map(loose_json)
    around = pieces.map(lambda parts: good[: parts[0]] + parts[1] + good[parts[2] :])

    @settings(max_examples=80, deadline=None, derandomize=True, database=None)
    @given(st.binary(max_size=300) | around | documents)
    def no_bytes_raise(data):
        draft = honest(worker)
        match kind:
            case "manifest":
                draft.raw_manifest = data
            case "policy":
                draft.raw_policy = data
            case "group":
                draft.slots[1].raw_group = data
            case _:
                draft.slots[1].raw_records = data
        made = draft.seal()
        name = kind if kind in ("manifest", "policy") else f"{kind} 1"
        last = check_batch(made.audit(worker, tokenizer))[-1]
        assert last.status in ("fail", "void") or made.blocks[made.names[name]] == good
        made = honest(worker).seal()  # and the same bytes under the honest digest
        made.blocks[made.names[name]] = data
        outcomes = check_batch(made.audit(worker, tokenizer))
        assert data == good or outcomes[-1].status == "void"

    no_bytes_raise()
