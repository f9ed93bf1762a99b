"""Sequences that grow token by token in one batch, and the trial that shows whether their numbers are right."""

from collections.abc import Sequence
from typing import Any
from weakref import WeakSet

import torch
from torch import Tensor
from transformers import DynamicCache
from transformers.cache_utils import DynamicLayer, DynamicSlidingWindowLayer

from sapo_verifier.model.base import BaseLoadError
from sapo_verifier.model.forward import head
from sapo_verifier.model.trial import FAILURES, TOLERANCE, distance, plain_logits, trial_tokens, words_of


class Decoding:
    """A batch of sequences under way: a cache, and which of its columns are padding (on the left)."""

    def __init__(self, model: Any, sequences: Sequence[Sequence[int]]) -> None:
        different = {tuple(sequence): None for sequence in sequences}  # a group's prompt is run once for all of it
        longest = max(map(len, different))
        ids = torch.zeros(len(different), longest, dtype=torch.long)
        mask = torch.zeros(len(different), longest, dtype=torch.long)
        for row, sequence in enumerate(different):
            ids[row, longest - len(sequence) :] = torch.tensor(sequence)
            mask[row, longest - len(sequence) :] = 1
        self._model = model
        self._mask = mask.to(model.device)
        self._cache = cache_for(model)
        self.states = self._run(ids.to(model.device), (self._mask.cumsum(-1) - 1).clamp(min=0))
        if len(different) < len(sequences):
            place = {sequence: row for row, sequence in enumerate(different)}
            self.keep([place[tuple(sequence)] for sequence in sequences])

    def _run(self, ids: Tensor, positions: Tensor) -> Tensor:
        output = self._model.get_decoder()(
            input_ids=ids,
            attention_mask=self._mask,
            position_ids=positions,
            cache=self._cache,
            use_cache=True,
        )
        return output.last_hidden_state[:, -1]  # type: ignore[no-any-return]

    def logits(self, rows: slice) -> Tensor:
        """(N, V) float32: what follows the last token of these rows."""
        return head(self._model, self.states[rows])

    def append(self, tokens: Tensor) -> None:
        """One more token per row: (N,) int64."""
        self._mask = torch.cat([self._mask, torch.ones_like(self._mask[:, :1])], dim=-1)
        self.states = self._run(tokens.unsqueeze(-1), self._mask.sum(-1, keepdim=True) - 1)

    def keep(self, rows: Sequence[int]) -> None:
        """These rows, in this order, and no others; a row that is named twice is there twice."""
        index = torch.tensor(rows, device=self._mask.device)
        self._mask = self._mask[index]
        self.states = self.states[index]
        self._cache.reorder_cache(index)


def cache_for(model: Any) -> Any:
    """An empty cache. Keys and values of attention need no more than the plain one, which keeps all of them; layers
    with other states (recurrent, convolutional, indexed) have kinds of their own, which the config names."""
    cache = DynamicCache(config=model.config)
    if all(type(layer) in (DynamicLayer, DynamicSlidingWindowLayer) for layer in cache.layers):
        return DynamicCache()
    return cache


_TRIED: WeakSet[Any] = WeakSet()


@torch.no_grad()
def try_decoding(model: Any, vocab: int) -> None:
    """Decode a padded batch by a few tokens, and compare with plain passes; once per model.

    Raises BaseLoadError where they differ. A model that is not finite is left to whoever samples with it.
    """
    if model in _TRIED:
        return
    try:
        off = _decoded_wrong(model, vocab)
    except FAILURES as error:
        raise BaseLoadError(
            f"{type(model).__name__} does not decode a batch token by token ({words_of(error)}); take a "
            "base of another family (docs/settings.md has a table), or the vllm engine"
        ) from error
    if off is None:
        return
    if off > TOLERANCE:
        raise BaseLoadError(
            f"{type(model).__name__} decodes other numbers in a padded batch than alone (off by {off:.1e} of its "
            "largest logit): completions would not be the policy's. Take a base of another family (docs/settings.md "
            "has a table), or the vllm engine"
        )
    _TRIED.add(model)


def _decoded_wrong(model: Any, vocab: int) -> float | None:
    """The largest distance between a decoded position and the plain pass; None where plain passes are not finite."""
    more = 2
    sequences = trial_tokens(vocab)
    plain = [plain_logits(model, sequence) for sequence in sequences]
    if not all(bool(torch.isfinite(logits).all()) for logits in plain):
        return None
    rows = list(range(len(sequences)))
    decoding = Decoding(model, [sequence[:-more] for sequence in sequences])
    worst = 0.0
    for t in range(-more, 1):
        at = t - 1  # of the position whose logits are at hand
        found = decoding.logits(slice(0, len(rows)))
        worst = max(worst, *(distance(found[k], plain[row][at]) for k, row in enumerate(rows)))
        if t == 0:
            break
        if t > -more:  # a completion has ended
            rows = rows[:0:-1]
            decoding.keep(range(len(rows), 0, -1))
        decoding.append(torch.tensor([sequences[row][t] for row in rows], device=model.device))
    return worst
