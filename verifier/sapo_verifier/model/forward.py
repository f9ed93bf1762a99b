"""The one forward pass over finished completions, shared by records, training and verifiers: all see the same numbers.

Rows are padded on the right. Attention is causal, so no completion token can see padding: nothing is ever inferred from
an id that happens to equal the padding's. Completions of one prompt share a row where the model allows it (packing.py).
"""

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from sapo_verifier.folders import BaseLoadError
from sapo_verifier.model.packing import Passage as Passage
from sapo_verifier.model.packing import is_packable, lay_out, pack_length, packs

# Logits of a large vocabulary are made for this many values at a time, 32 MiB of float32: enough rows to multiply fast.
LOGIT_VALUES = 1 << 23


def micro_batches(lengths: Sequence[int], tokens: int) -> list[list[int]]:
    """Positions of sequences in batches of at most `tokens` padded tokens (or one sequence), the short ones first."""
    batches: list[list[int]] = []
    for position in sorted(range(len(lengths)), key=lengths.__getitem__):
        if batches and lengths[position] * (len(batches[-1]) + 1) <= tokens:
            batches[-1].append(position)
        else:
            batches.append([position])
    return batches


def pass_batches(model: Any, passages: Sequence[Passage], tokens: int) -> list[list[int]]:
    """Positions of passages in batches whose rows have about `tokens` padded tokens at most (or one passage)."""
    rows = packs(passages, tokens) if is_packable(model) else [[i] for i in range(len(passages))]
    lengths = [pack_length([passages[i] for i in row]) for row in rows]
    return [[i for row in batch for i in rows[row]] for batch in micro_batches(lengths, tokens)]


def completion_states(model: Any, sequences: Sequence[Passage]) -> Tensor:
    """The hidden states that predict each completion token, one sequence after the other.

    Returns (Σ completion lengths, width). Raises ValueError for an empty prompt: nothing would predict the first token.
    """
    if any(not sequence.prompt for sequence in sequences):
        raise ValueError("an empty prompt cannot be completed; the base's template must render at least one token")
    rows = packs(sequences) if is_packable(model) else []
    if len(rows) in (0, len(sequences)):
        return _separate_states(model, sequences)
    laid = lay_out([[sequences[i] for i in row] for row in rows])
    states = model.get_decoder()(
        input_ids=laid.ids.to(model.device),
        attention_mask=laid.mask.to(model.device),
        position_ids=laid.positions.to(model.device),
        use_cache=False,
    ).last_hidden_state
    found = states[laid.rows, laid.columns]
    order = [i for row in rows for i in row]
    if order == sorted(order):
        return found  # type: ignore[no-any-return]
    parts = dict(zip(order, found.split([len(sequences[i].completion) for i in order]), strict=True))
    return torch.cat([parts[i] for i in range(len(sequences))])


def _separate_states(model: Any, sequences: Sequence[Passage]) -> Tensor:
    """One row per sequence; no mask is needed."""
    longest = max(sequence.length for sequence in sequences)
    ids = torch.zeros(len(sequences), longest, dtype=torch.long)
    rows: list[int] = []
    columns: list[int] = []
    for row, (prompt, completion) in enumerate(sequences):
        ids[row, : len(prompt) + len(completion)] = torch.tensor([*prompt, *completion])
        rows += [row] * len(completion)
        columns += range(len(prompt) - 1, len(prompt) + len(completion) - 1)
    states = model.get_decoder()(input_ids=ids.to(model.device), use_cache=False).last_hidden_state
    return states[rows, columns]  # type: ignore[no-any-return]


def head(model: Any, states: Tensor) -> Tensor:
    """Logits (N, V) in float32 of hidden states (N, width)."""
    return model.get_output_embeddings()(states).float()  # type: ignore[no-any-return]


def row_chunks(rows: int, vocab: int, values: int | None = None) -> Iterator[slice]:
    """Slices of rows that together have at most that many values, LOGIT_VALUES by default (or single rows)."""
    step = max(1, (values or LOGIT_VALUES) // vocab)
    return (slice(at, min(at + step, rows)) for at in range(0, rows, step))


@torch.no_grad()
def check_head(model: Any) -> None:
    """Raises BaseLoadError unless the model's logits are its output layer applied to its decoder's states.

    Some architectures scale or cap logits after the output layer; those would be sampled wrongly here.
    """
    probe = torch.arange(1, 4).unsqueeze(0).to(model.device)
    whole = model(input_ids=probe, use_cache=False).logits.float()
    parts = head(model, model.get_decoder()(input_ids=probe, use_cache=False).last_hidden_state[0])
    if not torch.allclose(whole[0], parts, atol=1e-5, rtol=1e-5):
        raise BaseLoadError(
            f"{type(model).__name__} changes logits after its output layer, which is not supported; "
            "take a Llama- or Qwen-style model"
        )
