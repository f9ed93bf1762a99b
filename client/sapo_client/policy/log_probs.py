"""A policy's log-probabilities of given completions, with gradient, in no more memory than a chunk of logits takes."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from sapo_client.policy.memory import MemoryOptions, frugal
from sapo_verifier.model.forward import Passage, completion_states, head, row_chunks

PLAIN = MemoryOptions()


def token_log_probs(model: Any, passages: Sequence[Passage], vocab: int, *, memory: MemoryOptions = PLAIN) -> Tensor:
    """(Σ completion lengths,) float32: log p of each completion token among ids below `vocab`, at temperature 1.

    Logits of a large vocabulary are made chunk by chunk, and made again in the backward pass instead of being kept.
    memory: of the pass up to the output layer.
    """
    with frugal(model, memory):
        states = completion_states(model, passages)
    states = states.float()
    tokens = torch.tensor([token for passage in passages for token in passage.completion], device=states.device)
    chunks = list(row_chunks(len(tokens), vocab))

    def chunk_log_probs(rows: Tensor, targets: Tensor) -> Tensor:
        logits = head(model, rows)[:, :vocab]
        return logits.gather(-1, targets.unsqueeze(-1)).squeeze(-1) - torch.logsumexp(logits, dim=-1)

    if len(chunks) == 1 or not torch.is_grad_enabled():
        return torch.cat([chunk_log_probs(states[rows], tokens[rows]) for rows in chunks])
    return torch.cat([checkpoint(chunk_log_probs, states[rows], tokens[rows], use_reentrant=False) for rows in chunks])
