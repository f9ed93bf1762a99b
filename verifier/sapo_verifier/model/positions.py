"""The pass over finished completions that records come from, and that a verifier compares records with."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch

from sapo_verifier.model.forward import Passage, completion_states, head, pass_batches, row_chunks
from sapo_verifier.model.sampling import choose, owned, scaled_cumulative

CUMULATIVE_VALUES = 1 << 20  # at a time, 8 MiB of float64: what a processor's caches can hold


class Position(NamedTuple):
    """What the pass finds for one completion position."""

    lo: int  # of the token that stands there
    last: int
    chosen: int  # the token that owns u


@torch.no_grad()
def positions(
    model: Any, passages: Sequence[Passage], us: Sequence[Sequence[int]], vocab: int, *, batch_tokens: int = 8192
) -> list[list[Position]]:
    """One float32 pass. us: one value per completion token. batch_tokens: padded tokens at a time, which bounds memory.

    Ids must be below vocab. Raises NotFiniteError for a broken model.
    """
    found: list[list[Position]] = [[] for _ in passages]
    for batch in pass_batches(model, passages, batch_tokens):
        chosen_passages = [passages[i] for i in batch]
        states = completion_states(model, chosen_passages)
        tokens = torch.tensor([t for i in batch for t in passages[i].completion], device=states.device)
        values = [u for i in batch for u in us[i]]
        flat: list[Position] = []
        for rows in row_chunks(len(values), vocab):
            logits = head(model, states[rows])
            for part in row_chunks(len(logits), vocab, CUMULATIVE_VALUES):
                x = scaled_cumulative(logits[part], vocab)
                chosen = choose(x, values[rows][part]).tolist()
                intervals = owned(x, tokens[rows][part])
                flat += [Position(lo, last, owner) for (lo, last), owner in zip(intervals, chosen, strict=True)]
        at = 0
        for i in batch:
            found[i] = flat[at : at + len(us[i])]
            at += len(us[i])
    return found


def policy_intervals(model: Any, prompt: Sequence[int], tokens: Sequence[int], vocab: int) -> list[tuple[int, int]]:
    """(lo, last) of each completion token under the model.

    Raises ValueError for an id that is not below vocab, NotFiniteError for a broken model.
    """
    if any(not 0 <= token < vocab for token in [*prompt, *tokens]):
        raise ValueError(f"a token id is not below the base's vocab of {vocab}")
    (found,) = positions(model, [Passage(prompt, tokens)], [[0] * len(tokens)], vocab)
    return [(position.lo, position.last) for position in found]
