"""Records always hold their u, whatever the engine did."""

from collections.abc import Sequence
from pathlib import Path

import pytest
import torch

from sapo_client.generation import records as records_module
from sapo_client.generation.records import RecordError, hold, make_records
from sapo_client.generation.torch_engine import TorchEngine
from sapo_client.pocket import EOS_ID, VOCAB
from sapo_client.policy.policy import Policy
from sapo_devnet.testkit.tiny_policy import MAX_NEW_TOKENS, tiny_policy
from sapo_verifier.intervals import FULL, VOID_TOLERANCE, WIDEN_TOLERANCE
from sapo_verifier.model.forward import Passage
from sapo_verifier.model.positions import Position, policy_intervals
from sapo_verifier.model.sampling import NotFiniteError
from sapo_verifier.objects import Record
from sapo_verifier.protocol import stream_values

PROMPTS = [[5, 6, 7], [8], [9, 10]] * 4
KEYS = [bytes([i]) * 32 for i in range(len(PROMPTS))]


@pytest.fixture(scope="module")
def policy(tmp_path_factory: pytest.TempPathFactory) -> Policy:
    return tiny_policy(tmp_path_factory.mktemp("tiny"))


class LyingEngine:
    """Gives another token at position `at` of every completion, in the first call or in all of them."""

    def __init__(self, policy: Policy, at: set[int], *, always: bool) -> None:
        self.engine, self.at, self.always = TorchEngine(policy, MAX_NEW_TOKENS), at, always
        self.calls = 0

    def generate(
        self, prompts: Sequence[Sequence[int]], prefixes: Sequence[Sequence[int]], keys: Sequence[bytes]
    ) -> list[list[int]]:
        self.calls += 1
        completions = self.engine.generate(prompts, prefixes, keys)
        if self.calls == 1 or self.always:
            for tokens, prefix in zip(completions, prefixes, strict=True):
                for t in self.at:
                    if len(prefix) <= t < len(tokens):
                        tokens[t] = tokens[t] + 1 if tokens[t] + 1 < VOCAB else 2
        return completions


def records_of(policy: Policy, engine: object = None) -> tuple[list[list[Record]], int, int]:
    records, stats = make_records(
        engine or TorchEngine(policy, MAX_NEW_TOKENS),  # type: ignore[arg-type]
        policy.model,
        PROMPTS,
        KEYS,
        vocab=VOCAB,
        max_new_tokens=MAX_NEW_TOKENS,
    )
    assert stats.positions == sum(map(len, records))
    return records, stats.widened, stats.repaired


def assert_honest(policy: Policy, records: list[list[Record]]) -> None:
    """What every verifier checks: u inside, the ending, and the intervals are the policy's."""
    for prompt, completion, key in zip(PROMPTS, records, KEYS, strict=True):
        tokens = [record.token for record in completion]
        assert EOS_ID not in tokens[:-1]
        assert tokens[-1] == EOS_ID or len(tokens) == MAX_NEW_TOKENS
        for record, u in zip(completion, stream_values(key, len(completion)), strict=True):
            assert record.lo <= u <= record.last < FULL
        for record, (lo, last) in zip(completion, policy_intervals(policy.model, prompt, tokens, VOCAB), strict=True):
            assert abs(record.lo - lo) <= VOID_TOLERANCE
            assert abs(record.last - last) <= VOID_TOLERANCE


def test_records_of_an_honest_engine_need_no_repair(policy: Policy) -> None:
    records, _, repaired = records_of(policy)
    assert repaired == 0
    assert_honest(policy, records)


@pytest.mark.parametrize("at", [0, 3, MAX_NEW_TOKENS - 1])
def test_a_wrong_token_is_cut_and_generation_goes_on(policy: Policy, at: int) -> None:
    honest, _, _ = records_of(policy)
    records, _, repaired = records_of(policy, LyingEngine(policy, {at}, always=False))
    assert repaired >= 1
    assert_honest(policy, records)
    assert [[r.token for r in c] for c in records] == [[r.token for r in c] for c in honest]


def test_an_engine_that_always_lies_is_outlived(policy: Policy) -> None:
    lying = LyingEngine(policy, set(range(MAX_NEW_TOKENS)), always=True)
    records, _, repaired = records_of(policy, lying)
    assert repaired > len(PROMPTS)
    assert lying.calls <= MAX_NEW_TOKENS + 1
    assert_honest(policy, records)


def test_small_misses_are_widened_and_larger_ones_cut() -> None:
    lo, last = FULL // 4, FULL // 2

    def held(u: int) -> tuple[list[Record], int]:
        return hold([7], [Position(lo, last, 9)], [u])

    assert held(lo) == ([Record(7, lo, last)], 0)
    assert held(last) == ([Record(7, lo, last)], 0)
    assert held(lo - 1) == ([Record(7, lo - 1, last)], 1)
    assert held(last + WIDEN_TOLERANCE) == ([Record(7, lo, last + WIDEN_TOLERANCE)], 1)
    assert held(lo - WIDEN_TOLERANCE - 1) == ([], 0)
    assert held(last + WIDEN_TOLERANCE + 1) == ([], 0)


def test_a_token_that_owns_nothing_is_cut_however_near_u_is() -> None:
    """Nobody else's pass may find it legal; verifiers reject it."""
    lo = FULL // 3
    for u in (lo - 1, lo):
        assert hold([7], [Position(lo, lo - 1, 9)], [u]) == ([], 0)


def test_cutting_ends_the_records_at_the_first_large_miss() -> None:
    inside, outside = Position(0, FULL - 1, 1), Position(0, 0, 1)
    assert len(hold([7, 7, 7], [inside, outside, inside], [5, FULL // 2, 5])[0]) == 1


def test_passes_that_never_agree_end_in_words(policy: Policy, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bounded: a model that is not deterministic must not keep a node busy for ever."""

    def erratic(
        model: object, passages: Sequence[Passage], us: Sequence[Sequence[int]], vocab: int, *, batch_tokens: int
    ) -> list[list[Position]]:
        return [[Position(0, 0, 2)] * len(passage.completion) for passage in passages]

    monkeypatch.setattr(records_module, "positions", erratic)
    with pytest.raises(RecordError, match="float32"):
        records_of(policy)


def test_ids_outside_the_vocabulary_are_refused(policy: Policy) -> None:
    for prompt, tokens in (([5], [VOCAB]), ([5], [-1]), ([VOCAB], [5])):
        with pytest.raises(ValueError, match="below the base's vocab"):
            policy_intervals(policy.model, prompt, tokens, VOCAB)


def test_a_broken_model_makes_no_records(tmp_path: Path) -> None:
    broken = tiny_policy(tmp_path)
    with torch.no_grad():
        broken.parameters()[0].fill_(float("nan"))
    with pytest.raises(NotFiniteError):
        records_of(broken)
