"""Forced sampling inside vLLM: a logits processor that leaves each request the one token that owns its u.

Loaded by vLLM itself, in the processes that run the model (see child.py); nothing else imports this file.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor
from vllm.v1.sample.logits_processor import BatchUpdate, LogitsProcessor, MoveDirectionality

from sapo_client.generation.vllm.rows import KEY, Rows
from sapo_verifier.model.forward import row_chunks
from sapo_verifier.model.sampling import choose, scaled_cumulative
from sapo_verifier.protocol import stream_value

if TYPE_CHECKING:
    from vllm import SamplingParams
    from vllm.config import VllmConfig


class Stream(NamedTuple):
    """One request: its stream, where its completion stood when it came, and the running list of what it got since."""

    key: bytes
    prefix: int
    vocab: int
    end: int  # a token that ends it
    output: list[int]

    @property
    def u(self) -> int:
        """Preempted and computed again, or in one go: what was sampled so far says at which position we are."""
        return stream_value(self.key, self.prefix + len(self.output))


class ForcedSampling(LogitsProcessor):  # type: ignore[misc]
    """The rule of `sapo_verifier.model.sampling`, row by row of vLLM's running batch."""

    def __init__(self, vllm_config: "VllmConfig", device: torch.device, is_pin_memory: bool) -> None:
        self._rows: Rows[Stream] = Rows()

    @classmethod
    def validate_params(cls, sampling_params: "SamplingParams") -> None:
        """Raises ValueError for a request without a stream: it would be sampled by another rule."""
        if KEY not in (sampling_params.extra_args or {}):
            raise ValueError("every request to this engine needs a stream")

    def is_argmax_invariant(self) -> bool:
        return False

    def update_state(self, batch_update: BatchUpdate | None) -> None:
        """Follow the batch: who left, who came (again, after a preemption), who has another row now."""
        if batch_update is None:
            return
        added = [(row, _stream(params, output)) for row, params, _, output in batch_update.added]
        swaps = [(a, b, how is MoveDirectionality.SWAP) for a, b, how in batch_update.moved]
        self._rows.update(batch_update.removed, added, swaps)

    def apply(self, logits: Tensor) -> Tensor:
        """(N, V) float32, a row per request; each comes back with one finite logit. Rows of nobody stay as they are."""
        rows = self._rows.below(len(logits))
        if rows:
            vocab = rows[0][1].vocab
            for part in row_chunks(len(rows), vocab):
                _force(logits, rows[part], vocab)
        return logits


def _stream(params: "SamplingParams", output: list[int]) -> Stream:
    given: dict[str, Any] = params.extra_args[KEY]
    return Stream(bytes.fromhex(given["key"]), given["prefix"], given["vocab"], given["end"], output)


def _force(logits: Tensor, rows: Sequence[tuple[int, Stream]], vocab: int) -> None:
    at = torch.tensor([row for row, _ in rows], device=logits.device)
    wanted = logits[at]
    # A broken model ends its completion here; what that is worth, and in what words, the records' pass decides.
    finite = torch.isfinite(wanted[:, :vocab]).all(dim=-1)
    chosen = choose(
        scaled_cumulative(torch.where(finite.unsqueeze(-1), wanted, 0.0), vocab), [stream.u for _, stream in rows]
    )
    ends = torch.tensor([stream.end for _, stream in rows], device=logits.device)
    forced = torch.full_like(wanted, -torch.inf)
    forced.scatter_(-1, torch.where(finite, chosen, ends).unsqueeze(-1), 0.0)
    logits[at] = forced


class CleanCache:
    """What vLLM's workers can do besides: an extension of their class."""

    model_runner: Any  # the worker's

    def sapo_clean_cache(self) -> None:
        """Zero everywhere in the cache's memory. What old weights left there is masked, but 0 · NaN is NaN."""
        for cache in self.model_runner.kv_caches:
            for tensor in [cache] if isinstance(cache, Tensor) else cache:
                tensor.zero_()
