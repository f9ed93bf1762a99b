"""Generation with torch: forced sampling over a key-value cache, many completions at a time."""

from collections.abc import Sequence

import torch

from sapo_client.generation.decoding import Decoding, try_decoding
from sapo_client.generation.engine import begin
from sapo_client.policy.policy import Policy
from sapo_verifier.model.forward import row_chunks
from sapo_verifier.model.sampling import choose, scaled_cumulative
from sapo_verifier.protocol import stream_value


class TorchEngine:
    """Generates with the policy's own model, float32, with the weights of the moment of each call."""

    def __init__(self, policy: Policy, max_new_tokens: int, *, batch_tokens: int = 16384) -> None:
        """batch_tokens: cached at a time, which bounds memory. Raises BaseLoadError for a model that decodes wrong."""
        try_decoding(policy.model, policy.base.vocab)
        self._policy = policy
        self._max_new_tokens = max_new_tokens
        self._batch_tokens = batch_tokens

    @torch.no_grad()
    def generate(
        self, prompts: Sequence[Sequence[int]], prefixes: Sequence[Sequence[int]], keys: Sequence[bytes]
    ) -> list[list[int]]:
        """See Engine. Raises ValueError for an empty prompt, NotFiniteError for a broken model."""
        completions, open_rows = begin(prompts, prefixes, self._ended)
        lengths = [len(prompt) + self._max_new_tokens for prompt in prompts]
        # Sorted by what is there already, so that a batch has little padding.
        open_rows.sort(key=lambda row: len(prompts[row]) + len(completions[row]))
        batch: list[int] = []
        for row in open_rows:
            if batch and max(lengths[row], *(lengths[i] for i in batch)) * (len(batch) + 1) > self._batch_tokens:
                self._complete(prompts, completions, keys, batch)
                batch = []
            batch.append(row)
        if batch:
            self._complete(prompts, completions, keys, batch)
        return completions

    def sleep(self) -> None:
        """See Engine. The model is the trainer's, too; there is nothing to let go of."""

    def _ended(self, tokens: Sequence[int]) -> bool:
        return len(tokens) >= self._max_new_tokens or (bool(tokens) and tokens[-1] in self._policy.base.eos)

    def _complete(
        self, prompts: Sequence[Sequence[int]], completions: list[list[int]], keys: Sequence[bytes], batch: list[int]
    ) -> None:
        vocab = self._policy.base.vocab
        decoding = Decoding(self._policy.model, [[*prompts[row], *completions[row]] for row in batch])
        while True:
            us = [stream_value(keys[row], len(completions[row])) for row in batch]
            tokens = torch.cat(
                [
                    choose(scaled_cumulative(decoding.logits(rows), vocab), us[rows])
                    for rows in row_chunks(len(batch), vocab)
                ]
            )
            for row, token in zip(batch, tokens.tolist(), strict=True):
                completions[row].append(token)
            going_on = [at for at, row in enumerate(batch) if not self._ended(completions[row])]
            if not going_on:
                return
            if len(going_on) < len(batch):
                batch = [batch[at] for at in going_on]
                tokens = tokens[going_on]
                decoding.keep(going_on)
            decoding.append(tokens)
