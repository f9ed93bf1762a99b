"""vLLM's completions are those that the streams force, whatever its scheduler does, with the weights of the moment."""

import os
import signal
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch

from forced_rows import EOS, MAX_NEW_TOKENS, rows_of
from sapo_client.generation.records import make_records
from sapo_client.generation.torch_engine import TorchEngine
from sapo_client.generation.vllm.engine import VllmEngine
from sapo_client.pocket import VOCAB
from sapo_client.policy.policy import Policy
from sapo_verifier.intervals import WIDEN_TOLERANCE, miss
from sapo_verifier.model.forward import Passage
from sapo_verifier.model.positions import positions
from sapo_verifier.model.sampling import NotFiniteError
from sapo_verifier.protocol import stream_values

MOST_TIES = 0.005  # of positions, on a CPU in float32


def misses(policy: Policy, prompts: Sequence[list[int]], keys: Sequence[bytes], made: Sequence[list[int]]) -> int:
    """Positions whose token does not own its u in the records' pass, by more than rounding."""
    us = [stream_values(key, len(tokens)) for key, tokens in zip(keys, made, strict=True)]
    passages = [Passage(prompt, tokens) for prompt, tokens in zip(prompts, made, strict=True)]
    found = positions(policy.model, passages, us, policy.base.vocab)
    return sum(
        miss(u, position.lo, position.last) > WIDEN_TOLERANCE
        for row, values in zip(found, us, strict=True)
        for position, u in zip(row, values, strict=True)
    )


def assert_forced(policy: Policy, prompts: list[list[int]], keys: list[bytes], made: list[list[int]]) -> int:
    """Whole completions; torch's tokens up to the first tie; ties are few. Returns the number of positions."""
    for tokens in made:
        assert 1 <= len(tokens) <= MAX_NEW_TOKENS
        assert not set(EOS) & set(tokens[:-1])
        assert tokens[-1] in EOS or len(tokens) == MAX_NEW_TOKENS
        assert max(tokens) < VOCAB
    count = sum(map(len, made))
    ties = misses(policy, prompts, keys, made)
    assert ties <= MOST_TIES * count, f"{ties} of {count} tokens are not the forced ones"
    torchs = TorchEngine(policy, MAX_NEW_TOKENS).generate(prompts, [[] for _ in prompts], keys)
    others = sum(one != other for one, other in zip(made, torchs, strict=True))
    # A token next to an edge can fall either way in either engine; then the rest of that completion is another.
    assert others <= 2 * MOST_TIES * count
    return count


def test_forced_tokens_are_torchs_while_requests_come_go_and_are_preempted(engine: VllmEngine, policy: Policy) -> None:
    """Six times as many requests as run at a time, prompts in parts, a cache that is too small for those that run."""
    prompts, keys = rows_of(24, group=4)
    before = engine.preemptions
    made = engine.generate(prompts, [[] for _ in prompts], keys)
    assert assert_forced(policy, prompts, keys, made) >= 2000
    lengths = set(map(len, made))
    assert len(lengths) > 20
    assert {tokens[-1] for tokens in made} > set(EOS), "both eos tokens, and completions that are cut"
    assert engine.preemptions > before


def test_a_prefix_is_kept_and_its_stream_goes_on(engine: VllmEngine, policy: Policy) -> None:
    prompts, keys = rows_of(6, group=4, seed=1)
    whole = engine.generate(prompts, [[] for _ in prompts], keys)
    assert misses(policy, prompts, keys, whole) == 0, "no ties with this seed"
    for cut in (1, 9, MAX_NEW_TOKENS):
        assert engine.generate(prompts, [tokens[:cut] for tokens in whole], keys) == whole


def test_new_weights_count_at_once_and_nothing_of_the_old_ones_stays(engine: VllmEngine, policy: Policy) -> None:
    """The prompts are in the prefix cache when the weights change, by a way that autograd does not count."""
    prompts, keys = rows_of(1, group=4, seed=2, least=150)
    old = engine.generate(prompts, [[] for _ in prompts], keys)
    cached, starts = engine.cached, engine.starts
    engine.generate(prompts[:1], [[]], keys[:1])
    assert engine.cached > cached, "the prompt is in the cache from one call to the next"
    for parameter in policy.parameters():
        parameter.data += 0.05 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(3))
    new = engine.generate(prompts, [[] for _ in prompts], keys)
    assert all(one != other for one, other in zip(old, new, strict=True))
    assert sum(map(len, new)) > 20
    assert misses(policy, prompts, keys, new) == 0
    assert engine.starts == starts


def test_a_killed_process_is_replaced_and_the_completions_are_the_same(engine: VllmEngine, policy: Policy) -> None:
    prompts, keys = rows_of(10, group=4, seed=4)
    first, starts = engine.pid, engine.starts
    assert first is not None
    whole = engine.generate(prompts, [[] for _ in prompts], keys)
    os.kill(first, signal.SIGSTOP)  # so that it is not done before the blow falls
    blow = threading.Timer(0.5, os.kill, (first, signal.SIGKILL))
    blow.start()
    again = engine.generate(prompts, [[] for _ in prompts], keys)
    blow.join()
    assert engine.pid != first
    assert engine.starts == starts + 1
    assert not Path(f"/proc/{first}").exists()
    same = sum(one == other for one, other in zip(whole, again, strict=True))
    assert same >= 0.95 * len(whole), "but for ties"
    assert_forced(policy, prompts, keys, again)


def test_two_engines_records_verify_each_other(engine: VllmEngine, policy: Policy, folder: Path) -> None:
    """vLLM's batch by another machine's pass, with its own copy of the model; and the other way round."""
    prompts, keys = rows_of(6, group=4, seed=5)
    limits = {"vocab": VOCAB, "max_new_tokens": MAX_NEW_TOKENS}
    by_vllm, stats = make_records(engine, policy.model, prompts, keys, **limits)
    assert stats.repaired <= MOST_TIES * stats.positions
    other = Policy.load(folder, policy.base)
    by_torch, _ = make_records(TorchEngine(other, MAX_NEW_TOKENS), other.model, prompts, keys, **limits)
    assert len(by_vllm) == len(by_torch)
    for records, reader in ((by_vllm, other), (by_torch, policy)):
        tokens = [[record.token for record in row] for row in records]
        assert misses(reader, prompts, keys, tokens) == 0
        for row, key in zip(records, keys, strict=True):
            assert all(r.lo <= u <= r.last for r, u in zip(row, stream_values(key, len(row)), strict=True))
    same = sum([r.token for r in a] == [r.token for r in b] for a, b in zip(by_vllm, by_torch, strict=True))
    assert same >= len(prompts) - 1


def test_a_broken_model_makes_no_records_and_leaves_nothing_behind(engine: VllmEngine, policy: Policy) -> None:
    """vLLM ends its completions at once, the records' pass says why; the next weights do not see its NaN."""
    before = policy.weight_bytes()
    prompts, keys = rows_of(6, group=4)
    with torch.no_grad():
        policy.parameters()[0].fill_(float("nan"))
    assert engine.generate(prompts, [[] for _ in prompts], keys) == [[EOS[0]]] * len(prompts)
    with pytest.raises(NotFiniteError):
        make_records(engine, policy.model, prompts, keys, vocab=VOCAB, max_new_tokens=MAX_NEW_TOKENS)
    policy.load_weights(before)
    assert_forced(policy, prompts, keys, engine.generate(prompts, [[] for _ in prompts], keys))


def test_an_empty_prompt_is_refused(engine: VllmEngine) -> None:
    with pytest.raises(ValueError, match="empty prompt"):
        engine.generate([[]], [[]], [bytes(32)])
