"""From a checked batch to what a policy trains on: the records' own ids, or the text in another tokenizer."""

import math
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from tokenizers import Tokenizer as RustTokenizer
from tokenizers import decoders, models, pre_tokenizers

from places import cut
from sapo_client.batches.auditing import usable
from sapo_client.batches.ingest import training_groups
from sapo_client.policy.tokenization import Encoder
from sapo_client.training.groups import Group, Sample, commonest_share, entropy_per_token, has_advantage
from sapo_devnet.formula.judging import by_formula
from sapo_devnet.formula.policy import EOS, TOKENS, text_of, tokens_of, write_tokenizer
from sapo_devnet.testkit.formula import GROUP, INDEX, LIMIT, NODE, ROUND, SLOTS, SPEC, assert_stopped, honest
from sapo_verifier.audit import CheckResult, Recomputed
from sapo_verifier.bases import Tokenizer
from sapo_verifier.checks import check_batch
from sapo_verifier.ipfs import StoreFailed
from sapo_verifier.objects import Record
from sapo_verifier.spots import Spots
from sapo_verifier.tasks import TaskWorker, deal, render

TINY, WORDS = SPEC.bases
WORDS_EOS = WORDS.eos[0]


@pytest.fixture(scope="module")
def worker():
    with TaskWorker() as running:
        yield running


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("base")
    write_tokenizer(made)
    return made


@pytest.fixture
def draft(worker):
    return honest(worker)


def student(base, folder):
    """A policy, as far as ingestion looks at one."""
    return SimpleNamespace(base=base, encoder=Encoder(folder), tokenizer=Tokenizer(folder))


@pytest.fixture(scope="module")
def byte_level(tmp_path_factory):
    """Another tokenizer: a token for each byte, special ones that read like the producer's."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    made = RustTokenizer(models.BPE({character: i for i, character in enumerate(alphabet)}, []))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    made.add_special_tokens(["<pad>", "<eos>"])  # ids 256 and 257
    folder: Path = tmp_path_factory.mktemp("words")
    made.save(str(folder / "tokenizer.json"))
    return folder


class Formula:
    """Runs the policy: here it is the formula under every name."""

    runs, seconds = True, 0.0

    def __call__(self, audit):
        return Recomputed(by_formula(audit))


def checked(draft, worker, folder, model=None, spots=None):
    tokenizer = Tokenizer(folder)
    audit = replace(draft.seal().audit(worker, lambda _: tokenizer), model=model, spots=spots)
    assert usable(check_batch(audit), policy_check=model is not None)
    return audit


# --- the producer's base is our own ----------------------------------------------------------------------------------


@pytest.mark.parametrize("external", [True, False])
def test_with_the_same_base_the_records_are_the_samples(draft, worker, folder, external):
    audit = checked(draft, worker, folder, model=Formula() if external else None)
    groups = training_groups(audit, student(TINY, folder), external=external)
    assert [(g.round, g.index, g.slot, g.node, g.external) for g in groups] == [
        (ROUND, INDEX, slot, NODE, external) for slot in range(SLOTS)
    ]
    for group, slot in zip(groups, draft.slots, strict=True):
        assert len(group.samples) == GROUP
        for k, sample in enumerate(group.samples):
            assert sample.ids == slot.tokens(k)
            assert sample.prompt_ids == tokens_of(slot.prompt)
            widths = [record.last - record.lo + 1 for record in slot.records[k]]
            assert sample.sampling_logprobs == pytest.approx([math.log(width / 2**64) for width in widths], abs=1e-12)
            assert sample.reward == draft.claimed(group.slot, k)
    assert sum(sample.reward for group in groups for sample in group.samples) == draft.facts.claim.bit_count() > 0
    cuts = [slot.tokens(k)[-1] != EOS for slot in draft.slots for k in range(GROUP)]
    assert sum(sample.ids[-1] != EOS for group in groups for sample in group.samples) == sum(cuts) > 0
    assert all(map(has_advantage, groups))


@pytest.mark.parametrize(
    ("lo", "last", "nats"), [(0, 2**64 - 1, 0.0), (5, 5, -64 * math.log(2)), (0, 2**63 - 1, -math.log(2))]
)
def test_the_sampling_logprob_is_the_interval_s_width(draft, worker, folder, lo, last, nats):
    audit = draft.seal().audit(worker, None)
    packed = audit.records
    packed[0][0] = Record(EOS, lo, last).encode()
    groups = training_groups(audit, student(TINY, folder), external=True, known=[0])
    assert groups[0].samples[0].sampling_logprobs == pytest.approx([nats])


def test_only_what_was_recomputed_says_how_likely_its_sampler_found_it(draft, worker, folder):
    """Elsewhere a peer may claim any width: one's own probability stands in, so nothing is known of it."""
    spots = Spots(bytes(32), SLOTS * GROUP, 5)
    groups = training_groups(checked(draft, worker, folder, Formula(), spots), student(TINY, folder), external=True)
    samples = [sample for group in groups for sample in group.samples]
    known = {i for i, sample in enumerate(samples) if sample.sampling_logprobs is not None}
    assert (known, len(samples)) == (set(spots.leaves), SLOTS * GROUP)
    assert [sample.ids for sample in samples] == [slot.tokens(k) for slot in draft.slots for k in range(GROUP)]


def test_without_a_model_nothing_is_known_of_others_and_all_of_one_s_own(draft, worker, folder):
    audit = checked(draft, worker, folder)
    for external in (True, False):
        groups = training_groups(audit, student(TINY, folder), external=external)
        assert {sample.sampling_logprobs is None for group in groups for sample in group.samples} == {external}


def test_a_policy_that_was_not_found_vouches_for_nothing(draft, worker, folder):
    draft.slots[0].records[0][0] = Record(draft.slots[0].tokens(0)[0], 0, 2**64 - 1)
    audit = replace(checked(draft, worker, folder), model=Formula())
    assert check_batch(audit)[-1].status == "fail"
    groups = training_groups(audit, student(TINY, folder), external=True)
    assert {sample.sampling_logprobs for group in groups for sample in group.samples} == {None}


def test_a_special_token_inside_a_completion_keeps_its_id(draft, worker, folder):
    """Re-encoding the text would make five characters of it."""
    draft.slots[0].rewrite(1, [Record(token, 0, 2**64 - 1) for token in [0, *tokens_of("<1>"), EOS]])
    assert draft.slots[0].document["completions"][1] == "<pad><1>"
    (group, *_) = training_groups(checked(draft, worker, folder), student(TINY, folder), external=True)
    assert group.samples[1].ids == [0, *tokens_of("<1>"), EOS]


# --- another base ----------------------------------------------------------------------------------------------------


def spelt(text):
    return [sorted(pre_tokenizers.ByteLevel.alphabet()).index(c) for c in pre_tokenizers.ByteLevel(
        add_prefix_space=False, use_regex=False).pre_tokenize_str(text)[0][0]] if text else []  # fmt: skip


def test_with_another_base_task_and_text_are_encoded_anew(draft, worker, folder, byte_level):
    groups = training_groups(checked(draft, worker, folder), student(WORDS, byte_level), external=True)
    assert [(g.slot, g.external) for g in groups] == [(slot, True) for slot in range(SLOTS)]
    for group, slot in zip(groups, draft.slots, strict=True):
        task = deal(SPEC, draft.facts.beacon, NODE, group.slot, worker)
        prompt = render(task, WORDS.template, SPEC.answer)
        assert prompt != slot.prompt
        for k, sample in enumerate(group.samples):
            ended = slot.tokens(k)[-1] == EOS
            assert sample.prompt_ids == spelt(prompt)
            assert sample.ids == spelt(slot.document["completions"][k]) + [WORDS_EOS] * ended
            assert sample.sampling_logprobs is None
            assert sample.reward == draft.claimed(group.slot, k)
    slot, k = cut(draft)
    ids = groups[slot].samples[k].ids
    assert len(ids) == LIMIT
    assert WORDS_EOS not in ids


@pytest.mark.parametrize(
    "written", [[0], [0, 0, *tokens_of("<pad>")], tokens_of("<eos>"), tokens_of("<eos><pad>"[:11])]
)
def test_special_tokens_in_a_peer_s_text_stay_text(draft, worker, folder, byte_level, written):
    """Or a peer could end, or pad, what another node trains on."""
    tokens = [*written, EOS]
    draft.slots[1].rewrite(0, [Record(token, 0, 2**64 - 1) for token in tokens])
    text = draft.slots[1].document["completions"][0]
    assert text in ("<pad>", "<pad><pad><pad>", "<eos>", "<eos><pad>")
    groups = training_groups(checked(draft, worker, folder), student(WORDS, byte_level), external=True)
    ids = groups[1].samples[0].ids
    assert ids == [*spelt(text), WORDS_EOS]
    assert 256 not in ids


def test_an_empty_completion_is_its_end_alone(draft, worker, folder, byte_level):
    draft.slots[1].rewrite(0, [Record(EOS, 0, 2**64 - 1)])
    groups = training_groups(checked(draft, worker, folder), student(WORDS, byte_level), external=True)
    assert groups[1].samples[0].ids == [WORDS_EOS]


@pytest.fixture
def poor(tmp_path, draft):
    """A tokenizer with the characters of the prompts and a few more: it drops what it does not know."""
    characters = sorted({*"".join(slot.prompt for slot in draft.slots), *text_of(draft.slots[0].liked)})
    made = RustTokenizer(models.BPE(vocab={c: i for i, c in enumerate(["<eos>", *characters])}, merges=[]))
    made.decoder = decoders.Fuse()
    made.save(str(tmp_path / "tokenizer.json"))
    return tmp_path, set(characters)


def test_what_our_tokenizer_cannot_spell_is_left_out(draft, worker, folder, poor):
    path, known = poor
    base = WORDS.model_copy(update={"template": "compact", "eos": [0]})
    groups = training_groups(checked(draft, worker, folder), student(base, path), external=True)
    kept = {
        slot: [k for k, text in enumerate(each.document["completions"]) if set(text) <= known]
        for slot, each in enumerate(draft.slots)
    }
    assert kept[1] == []
    assert 0 < len(kept[0]) < GROUP
    assert {group.slot: len(group.samples) for group in groups} == {slot: len(ks) for slot, ks in kept.items() if ks}
    for group in groups:
        assert [sample.reward for sample in group.samples] == [draft.claimed(group.slot, k) for k in kept[group.slot]]


def test_every_character_of_the_producer_is_one_of_its_tokens():
    assert tokens_of("".join(TOKENS[2:])) == list(range(2, len(TOKENS)))


# --- what may be trained on ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("check", ["available", "task", "text", "reward"])
def test_a_batch_with_anything_unknown_but_the_policy_is_not_used(check):
    passed = [CheckResult(name, "pass") for name in ("size", "schema", "tree", "sampling")]
    assert usable([*passed, CheckResult("policy", "unknown")], policy_check=False)
    assert not usable([*passed, CheckResult("policy", "unknown")], policy_check=True)
    assert usable([*passed, CheckResult("policy", "pass")], policy_check=True)
    assert not usable([*passed, CheckResult(check, "unknown"), CheckResult("policy", "unknown")], policy_check=False)
    for status in ("fail", "void"):
        assert not usable([*passed, CheckResult("policy", status)], policy_check=False)


def test_a_batch_whose_blocks_the_own_store_lost_is_not_used(draft, worker, folder):
    tokenizer = Tokenizer(folder)
    sealed = draft.seal()
    sealed.blocks[sealed.names["group 1"]] = StoreFailed("the daemon does not answer")
    audit = sealed.audit(worker, lambda _: tokenizer)
    assert_stopped(audit, "available", "unknown", words="daemon")
    assert not usable(check_batch(audit), policy_check=False)


def test_entropy_and_the_commonest_answer_of_groups():
    assert (entropy_per_token([]), commonest_share([])) == (None, None)
    half, sure = Sample([], [1, 2], [math.log(0.5)] * 2, 0.0), Sample([], [3, 2], [0.0, 0.0], 0.0)
    groups = [Group([half, sure], 0, 0, 0, NODE, False), Group([half, half], 0, 0, 1, NODE, False)]
    assert entropy_per_token(groups) == pytest.approx(6 / 8 * math.log(2))
    assert commonest_share(groups) == 0.75
    unknown = Group([Sample([], [5], None, 0.0)], 0, 0, 0, NODE, True)
    assert (entropy_per_token([unknown]), commonest_share([unknown])) == (None, 1.0)
