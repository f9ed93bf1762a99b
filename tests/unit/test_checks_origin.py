"""binding and task: whose batch it is, of which round, and whether it answers what was dealt."""

from dataclasses import replace

import pytest

from sapo_devnet.formula.policy import EOS, sample, tokens_of
from sapo_devnet.testkit.formula import (
    BEACON,
    GROUP,
    LIMIT,
    NODE,
    OTHER_NODE,
    POLICY,
    ROUND,
    SPEC,
    assert_only,
    assert_stopped,
    honest,
)
from sapo_verifier import protocol
from sapo_verifier.checks import check_batch
from sapo_verifier.cid import block_digest
from sapo_verifier.errors import TaskError
from sapo_verifier.tasks import compact_answer, deal

# --- binding ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("chain", 1),
        ("contract", "0x" + "13" * 20),
        ("round", ROUND - 1),
        ("round", ROUND + 1),
        ("node", OTHER_NODE),
        ("policy", "0x" + "77" * 32),
    ],
)
def test_a_manifest_of_another(draft, worker, tokenizer, field, value):
    draft.manifest = {field: value}
    assert_only(draft.seal().audit(worker, tokenizer), "binding", words=f"manifest's {field} is {value}")


def test_another_node_s_batch_submitted_as_one_s_own(draft, worker, tokenizer):
    """The blocks are honest, and somebody else's."""
    theirs = draft.seal()
    thief = replace(theirs, facts=replace(theirs.facts, node=OTHER_NODE))
    assert_stopped(thief.audit(worker, tokenizer), "binding", words="node")
    draft.manifest = {"node": OTHER_NODE}
    rewritten = draft.seal()
    thief = replace(rewritten, facts=replace(rewritten.facts, node=OTHER_NODE))
    assert_stopped(thief.audit(worker, tokenizer), "task", slot=0)


def test_last_round_s_batch_submitted_again(worker, tokenizer):
    """As it was, then with its round rewritten: each time another check stops it."""
    last = honest(worker, round_=ROUND - 1, beacon=block_digest(b"last round"))
    assert check_batch(last.seal().audit(worker, tokenizer))[-2].status == "pass"
    old = last.seal()
    again = replace(old, facts=replace(old.facts, round=ROUND, beacon=BEACON))
    assert_stopped(again.audit(worker, tokenizer), "binding", words="round")
    last.facts = replace(last.facts, round=ROUND, beacon=BEACON)
    assert_stopped(last.seal().audit(worker, tokenizer), "task", slot=0)


@pytest.mark.parametrize("base", ["other", "", "Tiny", "tiny ", "../tiny", "x" * 100_000])
def test_a_base_that_is_not_in_the_spec(worker, tokenizer, base):
    made = honest(worker)
    made.policy["base"] = base
    outcome = assert_stopped(made.seal().audit(worker, tokenizer), "binding", words="not in the spec")
    assert len(outcome.reason) < 1100


FULL = POLICY | {"kind": "full", "size": 2 << 20, "blocks": ["0x" + "00" * 32, "0x" + "11" * 32]}
LORA = FULL | {"kind": "lora", "lora": {"rank": 4, "alpha": 8, "targets": ["q_proj"]}}


@pytest.mark.parametrize("policy", [FULL, LORA])
def test_a_policy_at_the_limits_passes(worker, tokenizer, policy):
    outcomes = check_batch(honest(worker, policy=policy).seal().audit(worker, tokenizer))
    assert [outcome.status for outcome in outcomes] == ["pass"] * 11 + ["unknown"]


@pytest.mark.parametrize(
    ("policy", "words"),
    [
        (FULL | {"size": (2 << 20) + 1, "blocks": [*FULL["blocks"], "0x" + "22" * 32]}, "2097153 bytes"),
        (LORA | {"lora": {"rank": 5, "alpha": 8, "targets": ["q_proj"]}}, "rank is 5, more than 4"),
    ],
)
def test_a_policy_beyond_a_limit(worker, tokenizer, policy, words):
    assert_only(honest(worker, policy=policy).seal().audit(worker, tokenizer), "binding", words=words)


# --- task ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("field", "change"),
    [
        ("dataset", lambda name: "gcd" if name != "gcd" else "lcm"),
        ("dataset", lambda name: name + "\0"),
        ("dataset", lambda name: "x" * 500_000),
        ("seed", lambda seed: seed ^ 1),
        ("attempt", lambda attempt: attempt + 1),
        ("prompt", lambda prompt: prompt[:-1]),
        ("prompt", lambda prompt: prompt + " "),
        ("prompt", lambda prompt: prompt[0] + "0" + prompt[2:]),
        ("prompt", lambda prompt: prompt.replace("=", "\uff1d")),
        ("prompt", lambda prompt: ""),
    ],
)
@pytest.mark.parametrize("slot", [0, 2])
def test_another_task_than_the_dealt_one(draft, worker, tokenizer, field, change, slot):
    document = draft.slots[slot].document
    document[field] = change(document[field])
    outcome = assert_only(draft.seal().audit(worker, tokenizer), "task", slot=slot, words=f"the {field} is")
    assert len(outcome.reason) < 1100


def test_tasks_of_two_slots_swapped_with_everything_that_goes_with_them(draft, worker, tokenizer):
    draft.slots[0], draft.slots[2] = draft.slots[2], draft.slots[0]
    for slot in (0, 2):
        draft.slots[slot].document["slot"] = slot
    draft.rescore(worker)
    assert_stopped(draft.seal().audit(worker, tokenizer), "task", slot=0, words="dataset")


def would_be_dealt(worker, attempt):
    """The task of slot 1 by a worker that cannot generate before `attempt`, as the cheat says; None: nor that one."""
    drawn = protocol.task_seed(BEACON, NODE, 1, attempt)
    rule = SPEC.tasks[protocol.dataset_choice(drawn, [rule.weight for rule in SPEC.tasks])]

    class Later:
        def entry(self, dataset, config, seed):
            return worker.entry(rule.name, rule.config, protocol.generator_seed(drawn))

    try:
        return rule, drawn, deal(SPEC.model_copy(update={"tasks": [rule]}), BEACON, NODE, 1, Later())
    except TaskError:
        return None


@pytest.mark.parametrize("later", [0, 1])
def test_an_easier_task_dealt_to_oneself_by_another_attempt(draft, worker, tokenizer, later):
    """Solved honestly, under the honest stream; but an earlier attempt fits, so it is the slot's task."""
    first = draft.slots[1].document["attempt"] + 1
    usable = [attempt for attempt in range(first, first + 8) if would_be_dealt(worker, attempt)]
    attempt = usable[later]
    rule, drawn, task = would_be_dealt(worker, attempt)
    liked = [*tokens_of(f"<{compact_answer(task)}>"), EOS]
    slot = draft.slots[1]
    slot.document |= {
        "dataset": rule.name,
        "seed": protocol.generator_seed(drawn),
        "attempt": attempt,
        "prompt": task.compact,
    }
    for k in range(GROUP):
        slot.rewrite(
            k, sample(task.compact, liked, protocol.stream_key(BEACON, draft.seal().names["policy"], NODE, 1, k), LIMIT)
        )
    assert_stopped(draft.seal().audit(worker, tokenizer), "task", slot=1)


def test_the_first_slot_with_another_task_is_named(draft, worker, tokenizer):
    for slot in (2, 1):
        draft.slots[slot].document["seed"] ^= 1
        assert_only(draft.seal().audit(worker, tokenizer), "task", slot=slot, words="seed")
