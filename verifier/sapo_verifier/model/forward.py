"""The one forward pass over finished completions, shared by records, training and verifiers: all see the same numbers.

Sequences are padded on the right. Attention is causal, so no completion token can see padding, and no mask is needed:
nothing is ever inferred from an id that happens to equal the padding's.
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from sapo_verifier.errors import SapoError

# Logits of a large vocabulary are made for this many values at a time; some copies of 32 MiB in float64.
LOGIT_VALUES = 1 << 22


class Passage(NamedTuple):
    """A prompt, and the completion tokens whose distributions are wanted."""

    prompt: Sequence[int]
    completion: Sequence[int]

    @property
    def length(self) -> int:
        return len(self.prompt) + len(self.completion)


def micro_batches(lengths: Sequence[int], tokens: int) -> list[list[int]]:
    """Positions of sequences in batches of at most `tokens` padded tokens (or one sequence), the short ones first."""
    batches: list[list[int]] = []
    for position in sorted(range(len(lengths)), key=lengths.__getitem__):
        if batches and lengths[position] * (len(batches[-1]) + 1) <= tokens:
            batches[-1].append(position)
        else:
            batches.append([position])
    return batches


def completion_states(model: Any, sequences: Sequence[Passage]) -> Tensor:
    """The hidden states that predict each completion token, one sequence after the other.

    Returns (Σ completion lengths, width). Raises ValueError for an empty prompt: nothing would predict the first token.
    """
    longest = max(sequence.length for sequence in sequences)
    ids = torch.zeros(len(sequences), longest, dtype=torch.long)
    rows: list[int] = []
    columns: list[int] = []
    for row, (prompt, completion) in enumerate(sequences):
        if not prompt:
            raise ValueError("an empty prompt cannot be completed; the base's template must render at least one token")
        ids[row, : len(prompt) + len(completion)] = torch.tensor([*prompt, *completion])
        rows += [row] * len(completion)
        columns += range(len(prompt) - 1, len(prompt) + len(completion) - 1)
    states = model.get_decoder()(input_ids=ids.to(model.device), use_cache=False).last_hidden_state
    return states[rows, columns]  # type: ignore[no-any-return]


def head(model: Any, states: Tensor) -> Tensor:
    """Logits (N, V) in float32 of hidden states (N, width)."""
    return model.get_output_embeddings()(states).float()  # type: ignore[no-any-return]


def row_chunks(rows: int, vocab: int) -> Iterator[slice]:
    """Slices of rows whose logits together stay below LOGIT_VALUES (or single rows)."""
    step = max(1, LOGIT_VALUES // vocab)
    return (slice(at, min(at + step, rows)) for at in range(0, rows, step))


@torch.no_grad()
def check_head(model: Any) -> None:
    """Raises SapoError unless the model's logits are its output layer applied to its decoder's states.

    Some architectures scale or cap logits after the output layer; those would be sampled wrongly here.
    """
    probe = torch.arange(1, 4).unsqueeze(0).to(model.device)
    whole = model(input_ids=probe, use_cache=False).logits.float()
    parts = head(model, model.get_decoder()(input_ids=probe, use_cache=False).last_hidden_state[0])
    if not torch.allclose(whole[0], parts, atol=1e-5, rtol=1e-5):
        raise SapoError(
            f"{type(model).__name__} changes logits after its output layer, which is not supported; "
            "take a Llama- or Qwen-style model"
        )
