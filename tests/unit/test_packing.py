"""Completions of one prompt share a row: the numbers stay those of separate sequences, forward and backward."""

from collections.abc import Sequence
from typing import Any

import pytest
import torch

from sapo_client.generation.decoding import Decoding
from sapo_client.pocket import VOCAB
from sapo_client.policy.policy import Policy
from sapo_devnet.testkit.tiny_policy import tiny_policy
from sapo_verifier.model import forward
from sapo_verifier.model.forward import Passage, completion_states, micro_batches, pass_batches
from sapo_verifier.model.packing import PACKED_TOKENS, is_packable, lay_out, pack_length, packs


@pytest.fixture(scope="module")
def policy(tmp_path_factory: pytest.TempPathFactory) -> Policy:
    return tiny_policy(tmp_path_factory.mktemp("policy"))


def passages(lengths: Sequence[tuple[int, int]], *, seed: int = 0) -> list[Passage]:
    """One per (prompt, completion length); prompts of equal length are equal, completions differ."""
    generator = torch.Generator().manual_seed(seed)
    found = []
    for prompt, completion in lengths:
        ids = torch.randint(0, VOCAB, (completion,), generator=generator).tolist()
        found.append(Passage([(7 * prompt + i) % VOCAB for i in range(prompt)], ids))
    return found


MIXED = passages([(9, 5), (4, 3), (9, 1), (9, 12), (4, 3), (6, 8), (9, 12)])


def one_by_one(model: Any, given: Sequence[Passage]) -> torch.Tensor:
    return torch.cat([completion_states(model, [passage]) for passage in given])


def test_states_are_those_of_separate_sequences_in_the_order_given(policy: Policy) -> None:
    assert is_packable(policy.model)
    assert len(packs(MIXED)) == 3, "something is packed, and not in the order given"
    together = completion_states(policy.model, MIXED)
    assert together.shape == (sum(len(p.completion) for p in MIXED), 32)
    torch.testing.assert_close(together, one_by_one(policy.model, MIXED), atol=1e-5, rtol=1e-4)


def test_a_completion_sees_nothing_of_the_others(policy: Policy) -> None:
    group = passages([(6, 8)] * 4)
    others = [group[0], *passages([(6, 8)] * 3, seed=1)]
    first, same = (completion_states(policy.model, given)[:8] for given in (group, others))
    assert torch.equal(first, same)
    changed = [Passage(group[0].prompt, [*group[0].completion[:3], 1, *group[0].completion[4:]]), *group[1:]]
    after = completion_states(policy.model, changed)[:8]
    assert torch.equal(first[:4], after[:4])
    assert not torch.allclose(first[4:], after[4:])


def test_gradients_are_those_of_separate_sequences(policy: Policy) -> None:
    def gradient(states: torch.Tensor) -> torch.Tensor:
        weights = torch.linspace(-1, 1, states.numel()).reshape(states.shape)
        found = torch.autograd.grad((states * weights).sum(), policy.parameters(), allow_unused=True)
        return torch.cat([part.flatten() for part in found if part is not None])

    together, alone = gradient(completion_states(policy.model, MIXED)), gradient(one_by_one(policy.model, MIXED))
    assert float((together - alone).norm() / alone.norm()) < 1e-5


def test_fewer_tokens_are_computed(policy: Policy, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = lay_out([passages([(20, 4)] * 8)])
    assert rows.ids.shape == (1, 20 + 8 * 4)
    assert rows.positions[0, 20:].tolist() == [20, 21, 22, 23] * 8
    seen: list[torch.Tensor] = []
    monkeypatch.setattr(forward, "_separate_states", lambda *_: pytest.fail("nothing was shared"))
    decoder = policy.model.get_decoder()
    hook = decoder.register_forward_pre_hook(lambda _, __, kwargs: seen.append(kwargs["input_ids"]), with_kwargs=True)
    try:
        completion_states(policy.model, passages([(20, 4)] * 8))
    finally:
        hook.remove()
    assert [ids.numel() for ids in seen] == [52]


@pytest.mark.parametrize("tokens", [1, 30, 60, 200, 5000])
def test_batches_hold_every_passage_once_within_the_bound(policy: Policy, tokens: int) -> None:
    given = passages([(9, 20)] * 8 + [(14, 30), (5, 2), (14, 3)])
    batches = pass_batches(policy.model, given, tokens)
    assert sorted(i for batch in batches for i in batch) == list(range(len(given)))
    for batch in batches:
        lengths = [pack_length([given[batch[i]] for i in row]) for row in packs([given[i] for i in batch], tokens)]
        assert len(batch) == 1 or len(lengths) * max(lengths) <= tokens
    if tokens == 200:
        assert len(batches) < len(micro_batches([p.length for p in given], tokens))


def test_packs_are_bounded_and_even() -> None:
    long = passages([(100, 300)] * 8)
    found = packs(long)
    assert [len(pack) for pack in found] == [3, 3, 2]
    assert all(pack_length([long[i] for i in pack]) <= PACKED_TOKENS for pack in found)
    assert [len(pack) for pack in packs(passages([(10, 2000)] * 2))] == [1, 1]
    assert [len(pack) for pack in packs(passages([(24, 10)] * 8), 103)] == [4, 4], "not seven and one"


@pytest.mark.parametrize(
    "changes", [{"model_type": "mamba"}, {"sliding_window": 16}, {"_attn_implementation": "eager"}]
)
def test_models_that_may_not_obey_a_mask_run_one_row_per_sequence(
    policy: Policy, monkeypatch: pytest.MonkeyPatch, changes: dict[str, Any]
) -> None:
    packed = completion_states(policy.model, MIXED)
    for name, value in changes.items():
        monkeypatch.setattr(policy.model.config, name, value, raising=False)
    assert not is_packable(policy.model)
    monkeypatch.setattr(forward, "lay_out", lambda *_: pytest.fail("rows were shared"))
    torch.testing.assert_close(completion_states(policy.model, MIXED), packed, atol=1e-5, rtol=1e-4)
    assert pass_batches(policy.model, MIXED, 1) == [[1], [4], [2], [0], [5], [3], [6]]


def test_a_prompt_is_decoded_once_for_its_group(policy: Policy) -> None:
    sequences = [[1, 2, 3], [4, 5], [1, 2, 3], [1, 2, 3], [4, 5]]
    with torch.no_grad():
        decoding = Decoding(policy.model, sequences)
        decoding.append(torch.tensor([6, 7, 8, 6, 9]))
        followed = [[*s, t] for s, t in zip(sequences, [6, 7, 8, 6, 9], strict=True)]
        right = torch.cat([completion_states(policy.model, [Passage(s, [0])]) for s in followed])
        torch.testing.assert_close(decoding.states, right, atol=2e-5, rtol=1e-4)
