"""A policy small enough for unit tests: a random Llama of width 32 with the pocket tokenizer, and its base rule."""

import json
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save, save_file

from sapo_client.pocket import CONTEXT, EOS_ID, VOCAB, make_tokenizer, save_tokenizer
from sapo_client.policy.policy import Policy
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


def tiny_folder(
    folder: Path, *, seed: int = 0, tied: bool = False, rows: int = VOCAB, width: int = 32, context: int = CONTEXT
) -> Path:
    """A Hugging Face folder. rows: output rows, which may be more than the base's vocab; width: of two heads."""
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=rows,
        hidden_size=width,
        intermediate_size=2 * width,
        num_hidden_layers=2,
        num_attention_heads=2,
        max_position_embeddings=context,
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


def tampered(weights: dict[str, torch.Tensor], how: str) -> bytes:
    """A safetensors file of the weights, spoilt in one way."""
    tensors = {name: tensor.clone() for name, tensor in weights.items()}
    name, other = "model.norm.weight", "model.layers.0.input_layernorm.weight"  # both of 32 values
    match how:
        case "missing":
            del tensors[name]
        case "extra":
            tensors["extra"] = torch.zeros(1)
        case "shape":
            tensors[name] = torch.zeros(33)
        case "one value for all":
            tensors[name] = torch.zeros(1)
        case "type":
            tensors[name] = tensors[name].half()
        case "nan":
            tensors[name][3] = float("nan")
        case "infinite":
            tensors[name][3] = float("inf")
    data = bytes(save(tensors))
    size = int.from_bytes(data[:8], "little")
    match how:
        case "cut":
            return data[:-10]
        case "trailing":
            return data + bytes(4)
        case "empty":
            return b""
        case "huge header":
            return b"\xff" * 8 + data[8:]
        case "long header":
            padding = 1 << 17  # white space is legal JSON
            return (size + padding).to_bytes(8, "little") + data[8 : 8 + size] + b" " * padding + data[8 + size :]
        case "no json":
            return data[:8] + b"[" * size + data[8:]
        case "no object":
            return data[:8] + b"[1]".ljust(size) + data[8 + size :]
        case "pickle":
            return b"\x80\x04\x95" + data
        case "overlap":
            header = json.loads(data[8 : 8 + size])
            header[name]["data_offsets"] = header[other]["data_offsets"]
            return data[:8] + json.dumps(header, separators=(",", ":")).encode().ljust(size)[:size] + data[8 + size :]
        case "a name twice":  # readers may take the first or the last
            first = json.dumps({name: {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}})[:-1] + ","
            header_bytes = first.encode() + data[9 : 8 + size]
            return len(header_bytes).to_bytes(8, "little") + header_bytes + data[8 + size :]
    return data


TAMPERINGS = (
    "missing", "extra", "shape", "one value for all", "type", "nan", "infinite", "cut", "trailing", "empty",
    "huge header", "long header", "no json", "no object", "pickle", "overlap", "a name twice",
)  # fmt: skip
