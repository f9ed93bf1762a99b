"""Completions of one prompt in one row: the prompt is computed once for all of them, in a forward and a backward pass.

    prompt | completion | completion | completion        a mask lets each completion see the prompt and itself

Every token has the position that it has in its own sequence, so the numbers are those of separate sequences, up to
rounding. In groups of eight short completions this is a third of the work.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

# A row is as long as this at most (or holds one completion): within a row, attention is quadratic.
PACKED_TOKENS = 1024
# Attention to everything before, at positions that are given: all that a mask and positions say is obeyed.
PACKABLE = frozenset({"llama", "qwen2", "qwen3"})


class Passage(NamedTuple):
    """A prompt, and the completion tokens whose distributions are wanted."""

    prompt: Sequence[int]
    completion: Sequence[int]

    @property
    def length(self) -> int:
        return len(self.prompt) + len(self.completion)


def is_packable(model: Any) -> bool:
    """Whether the model's architecture is one that masks are known to be obeyed in."""
    config = model.config
    windows = getattr(config, "use_sliding_window", False) or getattr(config, "sliding_window", None)
    return config.model_type in PACKABLE and config._attn_implementation == "sdpa" and not windows


def packs(passages: Sequence[Passage], tokens: int = PACKED_TOKENS) -> list[list[int]]:
    """Positions of passages, those with equal prompts together, in packs of at most `tokens` tokens (or one passage).

    The packs of a prompt are about equally long.
    """
    tokens = min(tokens, PACKED_TOKENS)
    alike: dict[tuple[int, ...], list[int]] = {}
    for position, passage in enumerate(passages):
        alike.setdefault(tuple(passage.prompt), []).append(position)
    found = []
    for prompt, members in alike.items():
        completions = sum(len(passages[i].completion) for i in members)
        share = completions / max(1, -(-completions // max(1, tokens - len(prompt))))
        pack: list[int] = []
        length = 0
        for i in members:
            more = len(passages[i].completion)
            if pack and (len(prompt) + length + more > tokens or length >= share):
                found.append(pack)
                pack, length = [], 0
            pack.append(i)
            length += more
        found.append(pack)
    return found


def pack_length(passages: Sequence[Passage]) -> int:
    """Tokens of passages with one prompt, as a row."""
    return len(passages[0].prompt) + sum(len(passage.completion) for passage in passages)


class Rows(NamedTuple):
    """ids, positions (B, L) int64; mask (B, 1, L, L) bool; rows, columns: where each completion token is predicted."""

    ids: Tensor
    positions: Tensor
    mask: Tensor
    rows: list[int]
    columns: list[int]


def lay_out(packed: Sequence[Sequence[Passage]]) -> Rows:
    """One row per pack, padded on the right. Completion tokens come in the order of the packs' passages."""
    longest = max(map(pack_length, packed))
    ids = torch.zeros(len(packed), longest, dtype=torch.long)
    positions = torch.zeros_like(ids)
    part = torch.zeros_like(ids)  # 0: the prompt, k: the k-th completion; padding is a part of its own
    rows: list[int] = []
    columns: list[int] = []
    for row, passages in enumerate(packed):
        at = start = len(passages[0].prompt)
        ids[row, :at] = torch.tensor(list(passages[0].prompt))
        positions[row, :at] = torch.arange(at)
        for k, (_, completion) in enumerate(passages, start=1):
            end = at + len(completion)
            ids[row, at:end] = torch.tensor(list(completion), dtype=torch.long)
            positions[row, at:end] = torch.arange(start, start + len(completion))
            part[row, at:end] = k
            rows += [row] * len(completion)
            columns += [start - 1, *range(at, end - 1)][: len(completion)]
            at = end
        part[row, at:] = len(passages) + 1
    before = torch.ones(longest, longest, dtype=torch.bool).tril()
    seen = (part[:, :, None] == part[:, None, :]) | (part[:, None, :] == 0)
    return Rows(ids, positions, (before & seen)[:, None], rows, columns)
