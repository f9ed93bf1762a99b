"""A model is tried before it is used: a padded batch must give what each of its sequences gives alone.

Where states run through padding, where attention looks ahead, or where one row of a batch changes the others, records
would not be the policy's, and an honest node would be slashed for it.
"""

from typing import Any

import torch
from huggingface_hub.errors import StrictDataclassError
from torch import Tensor

from sapo_verifier.folders import BaseLoadError
from sapo_verifier.model.forward import Passage, completion_states, head

TOLERANCE = 1e-4  # of the largest logit, or of 1: a hundred times what float32 leaves between two ways to add
# What models and configs of others raise where they are asked for what they cannot do.
FAILURES = (
    ArithmeticError, AssertionError, AttributeError, ImportError, LookupError, MemoryError, OSError, RuntimeError,
    StrictDataclassError, TypeError, ValueError,
)  # fmt: skip
# Of the trial's passages: prompt and completion. The first two share a prompt, as a group's completions do.
LENGTHS = ((4, 3), (4, 6), (13, 7))


def words_of(error: BaseException) -> str:
    """One line for an error of somebody else's, whose text need not be a sentence; some quote whole configs."""
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text[:500]}" + (" …" if len(text) > 500 else "")


def trial_tokens(vocab: int) -> list[list[int]]:
    """Sequences of unequal lengths, of ids below `vocab`; the first two begin alike."""
    prompts = {length: [(31 * at + 7 * length) % vocab for at in range(length)] for length, _ in LENGTHS}
    return [
        [*prompts[length], *((17 * at + 5 * row + 3) % vocab for at in range(more))]
        for row, (length, more) in enumerate(LENGTHS)
    ]


def plain_logits(model: Any, sequence: list[int]) -> Tensor:
    """(L, V) float32: what the model says of one sequence, without batch, padding or cache."""
    ids = torch.tensor([sequence], device=model.device)
    return model(input_ids=ids, use_cache=False).logits[0].float()  # type: ignore[no-any-return]


def distance(found: Tensor, plain: Tensor) -> float:
    """The largest difference between logits, as a part of the largest one (or of 1). NaN counts as infinite."""
    off = (found - plain).abs().max() / plain.abs().max().clamp(min=1)
    return float(torch.nan_to_num(off, nan=float("inf")))


@torch.no_grad()
def try_batches(model: Any, vocab: int) -> None:
    """Raises BaseLoadError unless a batch of unequal sequences has the logits of plain passes: what records come from,
    what verifiers compare with, and what training differentiates."""
    sequences = trial_tokens(vocab)
    plain = [
        plain_logits(model, sequence)[length - 1 : -1] for sequence, (length, _) in zip(sequences, LENGTHS, strict=True)
    ]
    passages = [Passage(ids[:length], ids[length:]) for ids, (length, _) in zip(sequences, LENGTHS, strict=True)]
    found = torch.split(head(model, completion_states(model, passages)), [more for _, more in LENGTHS])
    off = max(distance(mine, alone) for mine, alone in zip(found, plain, strict=True))
    if off > TOLERANCE:
        raise BaseLoadError(
            f"{type(model).__name__} computes other numbers for a sequence in a batch than for the same sequence alone "
            f"(off by {off:.1e} of its largest logit), so its probabilities cannot be checked; take a base of another "
            "family (docs/settings.md has a table)"
        )
