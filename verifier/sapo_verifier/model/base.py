"""A base as a model in float32: local files only, safetensors only, no remote code."""

from collections.abc import Collection
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError

from sapo_verifier.errors import SapoError
from sapo_verifier.model.forward import check_head
from sapo_verifier.spec import BaseRule


class BaseLoadError(SapoError):
    """A folder that does not load as the spec's base."""


def load_base(folder: Path, base: BaseRule, *, device: str = "cpu") -> Any:
    """The base's model in evaluation mode, float32 proper. Raises BaseLoadError."""
    from transformers import AutoModelForCausalLM
    from transformers.utils.logging import disable_progress_bar

    disable_progress_bar()  # type: ignore[no-untyped-call]
    torch.backends.cuda.matmul.allow_tf32 = False  # intervals are made in float32 proper
    torch.backends.cudnn.allow_tf32 = False
    try:
        loaded: Any = AutoModelForCausalLM.from_pretrained(
            folder,
            local_files_only=True,
            use_safetensors=True,
            trust_remote_code=False,
            dtype=torch.float32,
            output_loading_info=True,
        )
    except (OSError, ValueError, RuntimeError, SafetensorError) as error:
        raise BaseLoadError(f"{folder} does not load as a model: {error}; give the folder of a base") from error
    model, info = loaded
    _check_whole(folder, info["missing_keys"], info["unexpected_keys"])
    try:
        model.to(device).eval()
    except (RuntimeError, AssertionError) as error:  # how torch says that there is no such device, or no room on it
        raise BaseLoadError(f"the model does not go to {device!r}: {error}; choose another device") from error
    vocab = model.get_output_embeddings().weight.shape[0]
    if vocab < base.vocab:
        raise BaseLoadError(f"the model in {folder} knows {vocab} tokens, the spec's base {base.id} has {base.vocab}")
    check_head(model)
    return model


def _check_whole(folder: Path, missing: Collection[str], extra: Collection[str]) -> None:
    """What the files lack transformers fills with random numbers: another model in every process, under one digest."""
    for words, names in (("lack", missing), ("hold what the model of config.json does not have:", extra)):
        if names:
            first = ", ".join(sorted(names)[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
            raise BaseLoadError(
                f"{folder} is not one whole model: its safetensors files {words} {first}. Do config.json and the files "
                "belong together?"
            )
