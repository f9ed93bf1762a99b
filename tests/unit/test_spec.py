"""The spec: for every rule a document that breaks just this one, and the last one that does not."""

import copy

import pytest

from sapo_verifier import canonical
from sapo_verifier.catalogue import plain_config
from sapo_verifier.cid import BLOCK_LIMIT, block_digest
from sapo_verifier.errors import ObjectError
from sapo_verifier.spec import Spec, TaskRule
from vectors import VECTORS

EXAMPLE = next(case["json"] for case in VECTORS["objects"] if case["kind"] == "Spec")


def changed(**changes):
    """The example with some fields changed: `bases__1__vocab=5` is the field vocab of the second base."""
    document = copy.deepcopy(EXAMPLE)
    for name, value in changes.items():
        *path, last = [int(key) if key.isdigit() else key for key in name.split("__")]
        inner = document
        for key in path:
            inner = inner[key]
        inner[last] = value
    return document


def parse(document):
    return Spec.parse(canonical.encode(document))


ROOM = {"bases": [EXAMPLE["bases"][1] | {"context": 65535, "max_token_bytes": 1}], "group_size": 6}
# In groups of six, the four bytes of each count decide whether the last record still fits.


def template(text):
    return {"bases__1__template": text}


LIMITS = [  # what, the last valid change, the first invalid one, words of the refusal
    ("claim word", {"max_slots": 32}, {"max_slots": 33}, "claim word"),
    ("claim word, the other way", {"group_size": 16}, {"group_size": 17}, "claim word"),
    ("records block", ROOM | {"max_new_tokens": 8737}, ROOM | {"max_new_tokens": 8738}, "records block"),
    ("context, compact", {"bases__0__context": 33 + 15}, {"bases__0__context": 33 + 14}, "context of 47"),
    ("context, template",
     {"bases__1__context": 1 + 1024 + len(EXAMPLE["bases"][1]["template"]) + 256 + 15},
     {"bases__1__context": 1 + 1024 + len(EXAMPLE["bases"][1]["template"]) + 256 + 14}, "do not fit its context"),
    ("group block", {"bases__0__max_token_bytes": 8702}, {"bases__0__max_token_bytes": 8703}, "group block"),
    ("eos", {"bases__0__eos": [59]}, {"bases__0__eos": [60]}, "every eos must be below vocab 60"),
    ("number of eos", {"bases__1__eos": list(range(16))}, {"bases__1__eos": list(range(17))}, "eos"),
    ("some eos", {"bases__0__eos": [0]}, {"bases__0__eos": []}, "eos"),
    ("base ids", {"bases__1__id": "other"}, {"bases__1__id": "tiny"}, "same id"),
    ("datasets", {"tasks__1__name": "lcm"}, {"tasks__1__name": "gcd"}, "same dataset"),
    ("some tasks", {"tasks": EXAMPLE["tasks"][:1]}, {"tasks": []}, "tasks"),
    ("some bases", {"bases": EXAMPLE["bases"][:1]}, {"bases": []}, "bases"),
    ("no question", template("{question}"), template("{instruction}"), "question"),
    ("two questions", template("{question}{instruction}"), template("{question}{question}"), "question"),
    ("two instructions", template("{instruction}{question}"), template("{instruction}{instruction}{question}"), "once"),
    ("answer", {"answer": "tag"}, {"answer": "box"}, "answer"),
    ("round_blocks", {"chain__round_blocks": 4}, {"chain__round_blocks": 3}, "round_blocks"),
    ("round_blocks, 32 bits", {"chain__round_blocks": 2**32 - 1}, {"chain__round_blocks": 2**32}, "round_blocks"),
    ("draws", {"chain__draws": 31}, {"chain__draws": 32}, "draws"),
    ("some draws", {"chain__draws": 1, "chain__min_accepts": 1, "chain__min_rejects": 1}, {"chain__draws": 0}, "draws"),
    ("accepts", {"chain__min_accepts": 8}, {"chain__min_accepts": 9}, "min_accepts"),
    ("rejects", {"chain__min_rejects": 32}, {"chain__min_rejects": 33}, "min_rejects"),
    ("exit_rounds", {"chain__exit_rounds": 9}, {"chain__exit_rounds": 8}, "exit_rounds"),
    ("min_accepts", {"chain__min_accepts": 1}, {"chain__min_accepts": 0}, "min_accepts"),
    ("min_rejects", {"chain__min_rejects": 1}, {"chain__min_rejects": 0}, "min_rejects"),
    ("bond", {"chain__bond": "0x0"}, {"chain__bond": "0x00"}, "bond"),
    ("bond's digits", {"chain__bond": "0x" + "f" * 64}, {"chain__bond": "0x1" + "0" * 64}, "bond"),
    ("bond's case", {"chain__bond": "0xab"}, {"chain__bond": "0xAB"}, "bond"),
    ("weight", {"tasks__0__weight": 1}, {"tasks__0__weight": 0}, "weight"),
    ("rank", {"bases__0__max_rank": 0}, {"bases__0__max_rank": -1}, "max_rank"),
    ("max_prompt_bytes", {"max_prompt_bytes": 1}, {"max_prompt_bytes": 0}, "max_prompt_bytes"),
    ("pool_rounds", {"pool_rounds": 1}, {"pool_rounds": 0}, "pool_rounds"),
    ("some spots", {"spot": 1}, {"spot": 0}, "spot"),
    ("spots of a claim word", {"spot": 256}, {"spot": 257}, "spot"),
]  # fmt: skip


@pytest.mark.parametrize(("valid", "invalid", "words"), [pytest.param(*row[1:], id=row[0]) for row in LIMITS])
def test_each_rule_has_its_limit(valid, invalid, words):
    parse(changed(**valid))
    with pytest.raises(ObjectError, match=words):
        parse(changed(**invalid))


def test_a_group_block_at_its_worst_fits():
    """What the rule promises: the largest honest group block, each character escaped, is at most 1 MiB."""
    from sapo_verifier.objects import GroupBlock

    spec = parse(changed(bases__0__max_token_bytes=8702))
    text = "\0" * (spec.max_new_tokens * spec.bases[0].max_token_bytes // 6)
    made = GroupBlock(
        slot=spec.max_slots - 1, attempt=63, dataset="fraction_simplification", seed=2**32 - 1,
        prompt="\0" * 33, completions=[text] * spec.group_size, records=bytes(32),
    )  # fmt: skip
    assert BLOCK_LIMIT - 8192 < len(made.encode()) <= BLOCK_LIMIT


def test_the_digest_is_of_the_canonical_bytes_and_of_every_field():
    digests = {parse(EXAMPLE).digest(), parse(changed(pool_rounds=3)).digest(), parse(changed(answer="tag")).digest()}
    digests |= {parse(changed(answer="whole")).digest(), parse(changed(spot=255)).digest()}
    digests.add(parse(changed(tasks=EXAMPLE["tasks"][::-1])).digest())  # the order deals the tasks
    assert len(digests) == 6
    assert parse(EXAMPLE).digest() == block_digest(canonical.encode(EXAMPLE))


def test_a_base_is_found_by_its_id():
    spec = parse(EXAMPLE)
    assert spec.base("large") is spec.bases[1]
    assert spec.base("medium") is None


def rule(config):
    return TaskRule(name="gcd", config=config, weight=1)


def test_decimals_become_numbers_and_nothing_else_changes():
    config = {
        "p": {"decimal": "0.35"}, "deep": {"list": [{"decimal": "-2"}, "0.5", 3, True]},
        "not": {"decimal": "1", "x": 2}, "text": "0.35",
    }  # fmt: skip
    found = plain_config(rule(config).config)
    assert found == {
        "p": 0.35, "deep": {"list": [-2.0, "0.5", 3, True]}, "not": {"decimal": "1", "x": 2}, "text": "0.35",
    }  # fmt: skip
    assert isinstance(found["p"], float)
    assert found["deep"]["list"][3] is True


@pytest.mark.parametrize(
    "text", ["", "x", "nan", "inf", "1e3", "1e999", ".5", "5.", "00.5", "+1", " 1", "1\n", "１", 1, True, []]
)
@pytest.mark.parametrize("place", [lambda d: {"p": d}, lambda d: {"p": [d]}, lambda d: {"p": {"q": [d]}}])
def test_what_is_no_decimal_is_refused(text, place):
    with pytest.raises(ObjectError, match="decimal"):
        parse(changed(tasks__0__config=place({"decimal": text})))


@pytest.mark.parametrize("value", [0.5, None, [0.5], {"x": None}, 2**53])
def test_a_configuration_holds_what_canonical_json_holds(value):
    document = changed(tasks__0__config={"x": value})
    with pytest.raises(ObjectError):
        parse(document)
    with pytest.raises((ObjectError, ValueError)):
        Spec.model_validate(document).digest()
