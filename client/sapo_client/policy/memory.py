"""What training keeps in memory: how many bits activations have, and whether they are kept or computed again."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import torch
from torch.utils.checkpoint import checkpoint

from sapo_verifier.errors import UsageError

LARGE = 1 << 25  # parameters
# Padded tokens in one training pass: what bounds memory. For a large model's products 2048 rows are enough to be fast.
PASS_TOKENS, PASS_TOKENS_OF_LARGE = 8192, 2048


@dataclass(frozen=True)
class MemoryOptions:
    """How the trainer's passes run; generation and records are always float32.

    dtype: of the passes up to the output layer, which stays float32. With bfloat16 the weights that are trained are
    float32 all the same (the master), and log-probabilities are off by some thousandths to hundredths. checkpointing:
    keep only what enters each layer, and compute the rest again in the backward pass: more time, far less memory. None:
    of large models; True: also return freed memory to the system at once (heap.return_large_blocks).
    """

    dtype: Literal["float32", "bfloat16"] = "float32"
    checkpointing: bool | None = None


@contextmanager
def frugal(model: Any, options: MemoryOptions) -> Iterator[None]:
    """Forward passes inside the block run as the options say. Their backward passes may run outside of it.

    Raises UsageError for a model that cannot be checkpointed.
    """
    wanted = is_large(model) if options.checkpointing is None else options.checkpointing
    layers = _checkpointing_layers(model) if wanted and torch.is_grad_enabled() else []
    enabled = options.dtype == "bfloat16"
    try:
        for layer in layers:
            # Not by the layer's own switch, which is that of training: it would turn dropout on in many families.
            layer.forward = partial(checkpoint, layer.forward, use_reentrant=False)
        with torch.autocast(model.device.type, dtype=torch.bfloat16, enabled=enabled):
            yield
    finally:
        for layer in layers:
            del layer.forward  # the class's own again


def is_large(model: Any) -> bool:
    """Whether a pass that keeps everything takes gigabytes."""
    return sum(int(parameter.numel()) for parameter in model.parameters()) > LARGE


def pass_tokens(model: Any) -> int:
    """How many padded tokens a training pass takes where nobody says otherwise."""
    return PASS_TOKENS_OF_LARGE if is_large(model) else PASS_TOKENS


def _checkpointing_layers(model: Any) -> list[Any]:
    from transformers.modeling_layers import GradientCheckpointingLayer

    layers = [module for module in model.modules() if isinstance(module, GradientCheckpointingLayer)]
    if not layers:
        raise UsageError(f"{type(model).__name__} has no layers that can be checkpointed; set checkpointing = false")
    return layers
