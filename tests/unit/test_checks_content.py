"""text, ending and reward: one object, so that what is scored is what was sampled, to its end."""

import pytest

from places import cut, first, of_length, right, wrong
from sapo_devnet.formula.policy import EOS, TOKENS, VOCAB, text_of, tokens_of
from sapo_devnet.testkit.formula import GROUP, LIMIT, SLOTS, assert_only, assert_stopped, honest
from sapo_verifier.bases import BaseMissingError
from sapo_verifier.catalogue import plain_config
from sapo_verifier.checks import check_batch
from sapo_verifier.objects import Record
from sapo_verifier.tasks import deal, extract


def wide(tokens):
    """Records that hold any u: only the model can tell that they lie."""
    return [Record(token, 0, 2**64 - 1) for token in tokens]


def say(draft, place, text):
    slot, k = place
    draft.slots[slot].document["completions"][k] = text


def said(draft, place):
    slot, k = place
    return draft.slots[slot].document["completions"][k]


def test_the_places_are_what_their_names_say(draft):
    (slot, k), (at, cut_k) = wrong(draft), cut(draft)
    assert not draft.claimed(slot, k)
    assert draft.claimed(*right(draft))
    assert slot == right(draft)[0] == 0
    assert draft.slots[slot].tokens(k)[-1] == EOS
    assert len(draft.slots[at].records[cut_k]) == LIMIT
    assert EOS not in draft.slots[at].tokens(cut_k)


# --- text ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text[:-1] + ("x" if text[-1] != "x" else "y"),
        lambda text: text + " ",
        lambda text: text[:-1],
        lambda text: " " + text,
        lambda text: text + "\u200b",
        lambda text: text + "\ufffd",
        lambda text: text.swapcase(),
        lambda text: text + "<eos>",
        lambda text: text + "<pad>",
        lambda text: "",
        lambda text: text * 10_000,
    ],
)
def test_a_text_that_its_tokens_do_not_say(draft, worker, tokenizer, change):
    place = wrong(draft)
    before = said(draft, place)
    say(draft, place, change(before))
    assert said(draft, place) != before
    assert_only(draft.seal().audit(worker, tokenizer), "text", slot=place[0], k=place[1])


def test_a_right_answer_written_beside_wrong_tokens(draft, worker, tokenizer):
    """The proof on one copy and the reward on another."""
    place = wrong(draft)
    say(draft, place, said(draft, right(draft)))
    draft.claim(*place, True)
    assert_only(draft.seal().audit(worker, tokenizer), "text", slot=place[0], k=place[1])


def test_the_text_of_another_completion(draft, worker, tokenizer):
    slot, k = cut(draft)
    say(draft, (slot, k), said(draft, right(draft)))
    assert_only(draft.seal().audit(worker, tokenizer), "text", slot=slot, k=k)


@pytest.mark.parametrize("token", [VOCAB, VOCAB + 1, 2**31, 2**32 - 1])
def test_a_token_beyond_the_vocabulary(draft, worker, tokenizer, token):
    """Some decoders skip what they do not know: the text alone would not show it."""
    slot, k = of_length(draft, 2, 5)
    records = draft.slots[slot].records[k]
    draft.slots[slot].records[k] = [*records[:4], records[4]._replace(token=token), *records[5:]]
    audit = draft.seal().audit(worker, tokenizer)
    assert_only(audit, "text", slot=slot, k=k, t=4, words=str(token))


def test_a_token_beyond_the_vocabulary_needs_no_tokenizer_to_be_seen(draft, worker):
    def missing(rule):
        raise BaseMissingError("no such base here")

    draft.slots[1].records[0][2] = Record(VOCAB, 0, 2**64 - 1)
    assert_stopped(draft.seal().audit(worker, missing), "text", slot=1, k=0, t=2)


# --- ending ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("place", [wrong, cut])
@pytest.mark.parametrize("dropped", [1, 3])
def test_a_completion_that_stops_early(draft, worker, tokenizer, place, dropped):
    """An honest prefix of an honest completion, with its own text and reward: only its end is missing."""
    slot, k = place(draft)
    draft.slots[slot].rewrite(k, draft.slots[slot].records[k][:-dropped])
    draft.rescore(worker)
    left = len(draft.slots[slot].records[k])
    words = f"stops after {left} tokens"
    assert_only(draft.seal().audit(worker, tokenizer), "ending", slot=slot, k=k, t=left - 1, words=words)


def test_stopping_right_after_the_answer(draft, worker, tokenizer):
    """End-of-sequence left out, so that nothing shows that the policy would have gone on."""
    slot, k = right(draft)
    draft.slots[slot].rewrite(k, draft.slots[slot].records[k][:-1])
    assert draft.claimed(slot, k)
    assert_only(draft.seal().audit(worker, tokenizer), "ending", slot=slot, k=k, t=3)


@pytest.mark.parametrize("filler", [[5], [EOS], [0], [5, 6, EOS], [0] * (LIMIT - 5)])
def test_tokens_after_the_end(draft, worker, tokenizer, filler):
    slot, k = right(draft)
    records = draft.slots[slot].records[k]
    draft.slots[slot].rewrite(k, [*records, *wide(filler)])
    draft.rescore(worker)
    t = len(records) - 1
    assert_only(draft.seal().audit(worker, tokenizer), "ending", slot=slot, k=k, t=t, words="follow the end")


def test_an_end_exactly_at_the_limit_is_an_end(draft, worker, tokenizer):
    slot, k = cut(draft)
    draft.slots[slot].rewrite(k, [*draft.slots[slot].records[k][:-1], *wide([EOS])])
    assert check_batch(draft.seal().audit(worker, tokenizer))[-1].status == "unknown"


# --- reward ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("place", [(slot, k) for slot in range(SLOTS) for k in range(GROUP)])
def test_every_bit_of_the_claim_counts(draft, worker, tokenizer, place):
    """Set where nothing is earned, or cleared where something is (a false statement too: it can starve learners)."""
    true = draft.claimed(*place)
    draft.claim(*place, not true)
    words = f"reward {int(not true)} is claimed, {int(true)} is earned"
    outcome = assert_only(draft.seal().audit(worker, tokenizer), "reward", slot=place[0], k=place[1], words=words)
    assert set(outcome.evidence) == {"text", "answer"}


@pytest.mark.parametrize("bit", [SLOTS * GROUP, SLOTS * GROUP + 1, 255])
def test_a_bit_beyond_the_last_completion(draft, worker, tokenizer, bit):
    draft.claim(0, bit, True)
    assert_only(draft.seal().audit(worker, tokenizer), "reward", words="beyond its last completion")


def test_a_claim_of_everything(draft, worker, tokenizer):
    lie = first(draft, lambda slot, k: not draft.claimed(slot, k))
    for slot in range(SLOTS):
        for k in range(GROUP):
            draft.claim(slot, k, True)
    assert_only(draft.seal().audit(worker, tokenizer), "reward", slot=lie[0], k=lie[1])


def answer_of(draft):
    """What is right in slot 0: two digits."""
    answer = text_of(draft.slots[0].liked)[1:-1]
    assert draft.slots[0].prompt.startswith("B")
    assert (len(answer), answer.isdigit()) == (2, True)
    return answer


def test_an_honest_answer_may_be_anything_that_the_alphabet_spells(draft, worker, tokenizer):
    """The attacks below differ from this in the text alone."""
    draft.slots[0].rewrite(1, [*wide(tokens_of(f"<{answer_of(draft)}>")), *wide([EOS])])
    draft.claim(0, 1, True)
    assert check_batch(draft.seal().audit(worker, tokenizer))[-1].status == "unknown"


@pytest.mark.parametrize(
    "written",
    ["{}", "<{}", "{}>", "a<{}>", "<{}>a", " <{}>", "<{}> ", "<{}>\n", "<<{}>>", "<{0}><{0}>", "><{}>", "<{}>>", "<>",
     "< {}>", "<{} >", "<0{}>", "<{}.>", "<{}.0>", "<+{}>", "<{}\n>", "<={}>", "<{}+0>", "<{0},{0}>", "<{} or 17>"],
)  # fmt: skip
def test_junk_around_a_right_answer_earns_nothing(draft, worker, tokenizer, written):
    text = written.format(answer_of(draft))
    draft.slots[0].rewrite(1, [*wide(tokens_of(text)), *wide([EOS])])
    draft.slots[0].records[1] = draft.slots[0].records[1][-LIMIT:]
    assert text_of(draft.slots[0].tokens(1)) == text
    draft.claim(0, 1, True)
    assert_only(draft.seal().audit(worker, tokenizer), "reward", slot=0, k=1, words="1 is claimed, 0 is earned")


def test_partial_credit_earns_nothing(draft, worker, tokenizer):
    """The library's scorers give part of a point to what is near or merely well-formed: here it is wrong."""
    import reasoning_gym

    found = 0
    for slot in range(SLOTS):
        task = deal(draft.spec, draft.facts.beacon, draft.facts.node, slot, worker)
        config = next(rule.config for rule in draft.spec.tasks if rule.name == task.dataset)
        right = extract(text_of(draft.slots[slot].liked), "brackets")
        texts = [f"<{answer}>" for answer in (right + " 1", "0 0\n0 0", "1 0 2 1", "-1", "2", right + ".", "x")]
        for text in texts:
            assert worker.scores(task.dataset, config, task.seed, [text[1:-1]]) == [float(text[1:-1] == right)]
            library = reasoning_gym.create_dataset(task.dataset, seed=task.seed, size=1, **plain_config(config))
            if 0 < library.score_answer(text[1:-1], library[0]) < 1 and len(text) < LIMIT:
                found += 1
                other = honest(worker)
                other.slots[slot].rewrite(3, [*wide(tokens_of(text)), *wide([EOS])])
                other.rescore(worker)
                assert not other.claimed(slot, 3)
                other.claim(slot, 3, True)
                assert_only(other.seal().audit(worker, tokenizer), "reward", slot=slot, k=3)
    assert found >= 2


def test_the_tokens_of_the_vocabulary_are_spelt_by_the_tokenizer(tokenizer):
    assert tokenizer(None).decode(list(range(VOCAB))) == "".join(TOKENS)
