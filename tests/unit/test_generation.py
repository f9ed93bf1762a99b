"""Forced sampling: the rule itself, and that generation, records and training see the same probabilities."""

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch

from sapo_client.generation.decoding import Decoding
from sapo_client.generation.torch_engine import TorchEngine
from sapo_client.pocket import EOS_ID, VOCAB
from sapo_client.policy.log_probs import token_log_probs
from sapo_client.policy.policy import Policy
from sapo_devnet.testkit.tiny_policy import MAX_NEW_TOKENS, tiny_policy
from sapo_verifier import intervals
from sapo_verifier.model.forward import Passage, completion_states, head
from sapo_verifier.model.positions import policy_intervals
from sapo_verifier.model.sampling import NotFiniteError, choose, owned, scaled_cumulative, threshold
from sapo_verifier.protocol import stream_values

FULL = 1 << 64


@pytest.fixture(scope="module")
def policy(tmp_path_factory: pytest.TempPathFactory) -> Policy:
    return tiny_policy(tmp_path_factory.mktemp("tiny"))


def keys(n: int) -> list[bytes]:
    return [bytes([i]) * 32 for i in range(n)]


# --- the rule --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scale", [0.1, 3.0, 40.0, 1000.0])
def test_torch_and_numpy_agree_on_every_edge(scale: float) -> None:
    """Up to what float64 sums differ by, whatever the distribution's sharpness; masked ids included."""
    logits = torch.randn(20, 70, generator=torch.Generator().manual_seed(1)) * scale
    x = scaled_cumulative(logits, 64)
    for row in range(20):
        edges = intervals.edges(logits[row].numpy(), 64)
        assert len(edges) == x.shape[1] == 64
        assert max(abs(int(mine) - theirs) for mine, theirs in zip(x[row].tolist(), edges, strict=True)) <= 1 << 14
        assert edges[-1] == int(x[row, -1]) == FULL


def test_a_token_is_chosen_exactly_when_u_lies_in_its_interval() -> None:
    """At both ends of every interval, where a comparison in floating point would be off by one."""
    x = scaled_cumulative(torch.randn(1, 30, generator=torch.Generator().manual_seed(2)) * 4, 30)
    for token, (lo, last) in enumerate(owned(x.expand(30, -1), torch.arange(30))):
        if lo <= last:
            assert choose(x.expand(2, -1), [lo, last]).tolist() == [token, token]
    assert choose(x, [0]).item() == 0
    assert choose(x, [FULL - 1]).item() == 29


@pytest.mark.parametrize("threads", [1, 4])
def test_a_large_vocabulary_s_intervals_never_overlap(threads: int) -> None:
    """A CPU adds up one after the other, however many threads it has; what falls would be two tokens' integers."""
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        logits = torch.randn(3, 151_936, generator=torch.Generator().manual_seed(4)) * torch.tensor([[1.0], [8], [60]])
        x = scaled_cumulative(logits, 151_665)
    finally:
        torch.set_num_threads(before)
    assert x.shape == (3, 151_665)
    assert bool((x.diff(dim=-1) >= 0).all())
    assert x[:, -1].tolist() == [float(FULL)] * 3


def test_intervals_cover_everything_once() -> None:
    x = scaled_cumulative(torch.randn(1, 50, generator=torch.Generator().manual_seed(3)) * 30, 50)
    at = 0
    for lo, last in owned(x.expand(50, -1), torch.arange(50)):
        assert lo == at
        at = last + 1
    assert at == FULL


def test_a_certain_token_owns_all_and_the_others_nothing() -> None:
    logits = torch.full((1, 5), -1e4)
    logits[0, 2] = 0.0
    x = scaled_cumulative(logits, 5)
    assert owned(x.expand(5, -1), torch.arange(5)) == [
        (0, -1),
        (0, -1),
        (0, FULL - 1),
        (FULL, FULL - 1),
        (FULL, FULL - 1),
    ]
    assert choose(x.expand(2, -1), [0, FULL - 1]).tolist() == [2, 2]


@pytest.mark.parametrize("u", [0, 1, 2**53, 2**53 + 1, 2**63 + 1, FULL - 2048, FULL - 1])
def test_the_threshold_is_the_smallest_float_not_below_u_plus_1(u: int) -> None:
    assert int(threshold(u)) >= u + 1
    assert int(np.nextafter(threshold(u), 0)) < u + 1


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), float("-inf")])
def test_logits_that_are_not_finite_are_refused(bad: float) -> None:
    logits = torch.zeros(2, 4)
    logits[1, 2] = bad
    with pytest.raises(NotFiniteError):
        scaled_cumulative(logits, 4)
    scaled_cumulative(logits, 2)  # ids from vocab on do not matter


# --- the same numbers everywhere -------------------------------------------------------------------------------------


def test_generator_and_trainer_log_probabilities_are_equal_for_every_length(policy: Policy) -> None:
    """Cached decoding with padding on the left, the records' pass and training with padding on the right."""
    rng = torch.Generator().manual_seed(4)
    prompts = [torch.randint(2, VOCAB, (n,), generator=rng).tolist() for n in range(1, 11)]
    completions = [torch.randint(0, VOCAB, (11 - n,), generator=rng).tolist() for n in range(1, 11)]  # holds eos too
    trained = token_log_probs(policy.model, [Passage(*both) for both in zip(prompts, completions, strict=True)], VOCAB)
    cached: list[list[float]] = [[] for _ in prompts]
    with torch.no_grad():
        decoding = Decoding(policy.model, prompts)
        for t in range(10):
            log_probs = torch.log_softmax(decoding.logits(slice(None)), dim=-1)
            tokens = [tokens[t] if t < len(tokens) else 0 for tokens in completions]
            for row, token in enumerate(tokens):
                if t < len(completions[row]):
                    cached[row].append(float(log_probs[row, token]))
            decoding.append(torch.tensor(tokens))
    stated = [
        intervals.log_probability(lo, last)
        for prompt, tokens in zip(prompts, completions, strict=True)
        for lo, last in policy_intervals(policy.model, prompt, tokens, VOCAB)
    ]
    flat = [value for row in cached for value in row]
    assert len(flat) == len(stated) == len(trained) == 55
    assert np.allclose(flat, trained.detach().numpy(), atol=2e-5)
    assert np.allclose(stated, trained.detach().numpy(), atol=2e-5)


def test_padding_on_either_side_gives_the_same_states(policy: Policy) -> None:
    sequences = [[5, 6, 7, 8, 9, 10], [11, 12], [EOS_ID, EOS_ID, 3]]
    with torch.no_grad():
        left = Decoding(policy.model, sequences).logits(slice(None))
        right = head(policy.model, completion_states(policy.model, [Passage(s, [0]) for s in sequences]))
        alone = torch.cat([Decoding(policy.model, [s]).logits(slice(None)) for s in sequences])
    assert torch.allclose(left, right, atol=1e-5)
    assert torch.allclose(left, alone, atol=1e-5)


# --- the engine ------------------------------------------------------------------------------------------------------


def test_generation_follows_its_streams(policy: Policy) -> None:
    """Every token is the one that owns its u; completions end with the first eos or at the limit."""
    prompts = [[2 + i, 30, 31, 32][: 1 + i % 4] for i in range(40)]
    completions = TorchEngine(policy, MAX_NEW_TOKENS).generate(prompts, [[]] * 40, keys(40))
    assert len(set(map(len, completions))) > 1  # some end early
    for prompt, tokens, key in zip(prompts, completions, keys(40), strict=True):
        assert 1 <= len(tokens) <= MAX_NEW_TOKENS
        assert EOS_ID not in tokens[:-1]
        assert tokens[-1] == EOS_ID or len(tokens) == MAX_NEW_TOKENS
        us = stream_values(key, len(tokens))
        for (lo, last), u in zip(policy_intervals(policy.model, prompt, tokens, VOCAB), us, strict=True):
            assert intervals.miss(u, lo, last) <= intervals.WIDEN_TOLERANCE


def test_generation_does_not_depend_on_the_batch(policy: Policy) -> None:
    prompts = [[2 + i] * (1 + i % 5) for i in range(12)]
    engine = TorchEngine(policy, MAX_NEW_TOKENS)
    together = engine.generate(prompts, [[]] * 12, keys(12))
    assert engine.generate(prompts, [[]] * 12, keys(12)) == together
    small = TorchEngine(policy, MAX_NEW_TOKENS, batch_tokens=40)
    assert small.generate(prompts, [[]] * 12, keys(12)) == together
    alone = [engine.generate([p], [[]], [k])[0] for p, k in zip(prompts, keys(12), strict=True)]
    assert alone == together


def test_a_prefix_is_kept_and_continued(policy: Policy) -> None:
    prompts, engine = [[5, 6]] * 8, TorchEngine(policy, MAX_NEW_TOKENS)
    whole = engine.generate(prompts, [[]] * 8, keys(8))
    for cut in range(1, MAX_NEW_TOKENS + 1):
        assert engine.generate(prompts, [tokens[:cut] for tokens in whole], keys(8)) == whole


def test_another_stream_gives_another_completion(policy: Policy) -> None:
    completions = TorchEngine(policy, MAX_NEW_TOKENS).generate([[5, 6]] * 8, [[]] * 8, keys(8))
    assert len(set(map(tuple, completions))) > 4


def test_tokens_are_drawn_with_the_models_probabilities(policy: Policy) -> None:
    """4,000 first tokens: every count within five standard deviations of what the model says."""
    n = 4000
    engine = TorchEngine(policy, 1)
    streams = [i.to_bytes(32, "big") for i in range(n)]
    counts = Counter(tokens[0] for tokens in engine.generate([[7, 8]] * n, [[]] * n, streams))
    with torch.no_grad():
        p = torch.softmax(Decoding(policy.model, [[7, 8]]).logits(slice(None))[0], dim=-1).numpy()
    for token in range(VOCAB):
        assert abs(counts[token] - n * p[token]) <= 5 * (n * p[token] * (1 - p[token])) ** 0.5 + 1


def test_ids_from_vocab_on_are_never_sampled(tmp_path: Path) -> None:
    wide = tiny_policy(tmp_path, rows=VOCAB + 60)
    completions = TorchEngine(wide, MAX_NEW_TOKENS).generate([[5, 6]] * 30, [[]] * 30, keys(30))
    assert max(max(tokens) for tokens in completions) < VOCAB
    trained = token_log_probs(wide.model, [Passage([5, 6], completions[0])], VOCAB)
    stated = [intervals.log_probability(*i) for i in policy_intervals(wide.model, [5, 6], completions[0], VOCAB)]
    assert np.allclose(stated, trained.detach().numpy(), atol=2e-5)


def test_an_empty_prompt_is_refused(policy: Policy) -> None:
    with pytest.raises(ValueError, match="empty prompt"):
        TorchEngine(policy, 4).generate([[]], [[]], keys(1))
