"""A base as a model in float32: its own files and no others, safetensors only, no remote code."""

import os
from collections.abc import Collection
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError

from sapo_verifier.folders import BaseLoadError as BaseLoadError
from sapo_verifier.folders import Held, batch_context, check_folder, model_alone
from sapo_verifier.model.forward import check_head
from sapo_verifier.model.trial import FAILURES, try_batches, words_of
from sapo_verifier.spec import BaseRule

# What config.json may describe beyond what the files hold: tied weights are there once, masks not at all.
SLACK_PARAMETERS, SLACK_BUFFERS = 1 << 20, 1 << 28


def load_base(folder: Path, base: BaseRule, *, device: str = "cpu") -> Any:
    """The base's model in evaluation mode, float32 proper, tried in a batch (trial.py). Raises BaseLoadError."""
    from transformers import AutoModelForCausalLM
    from transformers.utils.logging import disable_progress_bar

    disable_progress_bar()  # type: ignore[no-untyped-call]
    torch.backends.cuda.matmul.allow_tf32 = False  # intervals are made in float32 proper
    torch.backends.cudnn.allow_tf32 = False
    held = check_folder(folder)
    try:
        with model_alone(folder) as files:
            _check_size(folder, files, held)
            loaded: Any = AutoModelForCausalLM.from_pretrained(
                files,
                local_files_only=True,
                use_safetensors=True,
                trust_remote_code=False,
                dtype=torch.float32,
                output_loading_info=True,
            )
    except (*FAILURES, SafetensorError) as error:
        raise BaseLoadError(
            f"{folder} does not load as a model: {words_of(error)}; give the folder of a base"
        ) from error
    model, info = loaded
    _check_whole(folder, info["missing_keys"], info["unexpected_keys"])
    model.name_or_path = model.config.name_or_path = str(folder)  # and not the links', which are gone
    try:
        model.to(device).eval()
    except (RuntimeError, AssertionError) as error:  # how torch says that there is no such device, or no room on it
        raise BaseLoadError(f"the model does not go to {device!r}: {error}; choose another device") from error
    try:
        _check_rule(folder, model, base)
        check_head(model)
        try_batches(model, base.vocab)
    except FAILURES as error:
        raise BaseLoadError(
            f"{folder} does not run as a causal language model ({type(model).__name__}): {words_of(error)}; give the "
            "folder of another base"
        ) from error
    return model


def _check_size(folder: Path, files: Path, held: Held) -> None:
    """Before anything is allocated: what config.json describes is what the files hold, and fits this machine.

    folder: in errors; files: where config.json is read.
    """
    from transformers import AutoConfig, AutoModelForCausalLM

    config = AutoConfig.from_pretrained(files, local_files_only=True, trust_remote_code=False)
    with torch.device("meta"):
        described: Any = AutoModelForCausalLM.from_config(config)  # type: ignore[no-untyped-call]
    parameters = sum(parameter.numel() for parameter in described.parameters())
    buffers = sum(buffer.numel() for buffer in described.buffers())
    if parameters > 2 * held.elements + SLACK_PARAMETERS or buffers > 2 * held.elements + SLACK_BUFFERS:
        raise BaseLoadError(
            f"{folder / 'config.json'} describes a model of {parameters} parameters, and the safetensors files hold "
            f"{held.elements}. Do config.json and the files belong together?"
        )
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    if 4 * parameters > memory:
        raise BaseLoadError(
            f"the model in {folder} takes {4 * parameters >> 30} GiB in float32, and this machine has {memory >> 30} "
            "GiB of memory; take a smaller base, or a larger machine"
        )


def _check_rule(folder: Path, model: Any, base: BaseRule) -> None:
    vocab = model.get_output_embeddings().weight.shape[0]
    if vocab < base.vocab:
        raise BaseLoadError(f"the model in {folder} knows {vocab} tokens, the spec's base {base.id} has {base.vocab}")
    most = batch_context(model.config.get_text_config().to_dict())
    if most is not None and base.context > most:
        raise BaseLoadError(
            f"{folder / 'config.json'}: beyond {most} tokens the longest row of a batch changes the numbers of all "
            f"others (longrope), and the base {base.id} has a context of {base.context}; give it {most} in the spec"
        )


def _check_whole(folder: Path, missing: Collection[str], extra: Collection[str]) -> None:
    """What the files lack transformers fills with random numbers: another model in every process, under one digest."""
    for words, names in (("lack", missing), ("hold what the model of config.json does not have:", extra)):
        if names:
            first = ", ".join(sorted(names)[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
            raise BaseLoadError(
                f"{folder} is not one whole model: its safetensors files {words} {first}. Do config.json and the files "
                "belong together?"
            )
