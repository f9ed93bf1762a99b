"""A policy small enough for unit tests: a random Llama of width 32 with the pocket tokenizer, and its base rule."""

from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

from sapo_client.pocket import CONTEXT, EOS_ID, VOCAB, make_tokenizer, save_tokenizer
from sapo_client.policy import Policy
from sapo_verifier.spec import BaseRule

MAX_NEW_TOKENS = 12


def tiny_rule(**changes: Any) -> BaseRule:
    fields: dict[str, Any] = {
        "id": "tiny",
        "digest": bytes(32),
        "vocab": VOCAB,
        "eos": [EOS_ID],
        "context": CONTEXT,
        "template": "compact",
        "max_token_bytes": 6,
        "max_adapter_bytes": 1 << 24,
        "max_rank": 0,
    }
    return BaseRule(**{**fields, **changes})


def tiny_folder(folder: Path, *, seed: int = 0, tied: bool = False, rows: int = VOCAB) -> Path:
    """A Hugging Face folder. rows: output rows, which may be more than the base's vocab."""
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=rows,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=2,
        max_position_embeddings=CONTEXT,
        initializer_range=0.3,  # sharp enough that tokens differ in probability
        tie_word_embeddings=tied,
        pad_token_id=EOS_ID,  # on purpose: nothing may infer a mask from padding
        bos_token_id=None,
        eos_token_id=EOS_ID,
    )
    model: Any = LlamaForCausalLM(config)
    folder.mkdir(parents=True, exist_ok=True)
    model.config.save_pretrained(folder)
    save_file(dict(model.named_parameters()), folder / "model.safetensors", metadata={"format": "pt"})
    save_tokenizer(make_tokenizer(), folder)
    return folder


def tiny_policy(folder: Path, *, seed: int = 0, tied: bool = False, rows: int = VOCAB, **changes: Any) -> Policy:
    return Policy.load(tiny_folder(folder, seed=seed, tied=tied, rows=rows), tiny_rule(**changes))
