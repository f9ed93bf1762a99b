"""Models made by hand that answer with a random digit in brackets: right now and then, without any training.

Each is a Llama of a few thousand random numbers whose residual stream is the last token's class and whose output layer
says what may follow it. Two of them share nothing: other tokenizers, templates, end tokens.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from sapo_client.pocket import make_tokenizer, save_tokenizer
from sapo_verifier.networks import base_rule, chat_template, pocket_base, pocket_spec, with_changes
from sapo_verifier.spec import BaseRule, Spec, TaskRule

WIDTH = 32
SHARP = 2.5  # of an output layer's row: what is meant follows nearly always
MAX_RANK = 8
TASKS = [  # whose answers are often one digit
    TaskRule(name="count_bits", config={"min_n": 1, "max_n": 255}, weight=1),
    TaskRule(name="gcd", config={"min_numbers": 2, "max_numbers": 2, "min_value": 1, "max_value": 60}, weight=1),
]
DIGITS = "12345678"


def compact_folder(folder: Path) -> Path:
    """With the pocket policy's tokenizer; prompts end with `=`."""
    tokenizer = make_tokenizer()
    _write(folder, tokenizer, "=", end=1, context=128, seed=1)
    save_tokenizer(tokenizer, folder)
    return folder


def chat_folder(folder: Path) -> Path:
    """One token per byte and ChatML's two; prompts end with a line feed."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE(vocab={character: i for i, character in enumerate(alphabet)}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(name, special=True) for name in ("<|im_start|>", "<|im_end|>")])
    end = tokenizer.token_to_id("<|im_end|>")
    _write(folder, tokenizer, "\n", end=end, context=2048, seed=2)
    described: Any = PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<|im_end|>", pad_token="<|im_end|>")
    described.save_pretrained(folder)
    return folder


def chat_base(folder: Path) -> BaseRule:
    return base_rule(folder, "chat", chat_template("brackets"), max_adapter_bytes=1 << 20, max_rank=MAX_RANK)


def two_bases(compact: Path, chat: Path) -> Spec:
    """The pocket spec with both bases and tasks that a digit answers."""
    spec = pocket_spec(compact)
    return with_changes(spec, tasks=TASKS, bases=[pocket_base(compact), chat_base(chat)])


def _write(folder: Path, tokenizer: Tokenizer, before: str, *, end: int, context: int, seed: int) -> None:
    """before: what a prompt ends with, and an answer's `<` follows."""
    (start,), (opening,), (closing,) = (tokenizer.encode(text).ids for text in (before, "<", ">"))
    digits = [tokenizer.encode(digit).ids[0] for digit in DIGITS]
    _save(folder, tokenizer.get_vocab_size(), {start: [opening], opening: digits, closing: [end]}, digits, closing,
          end=end, context=context, seed=seed)  # fmt: skip


def _save(
    folder: Path,
    vocab: int,
    follows: Mapping[int, list[int]],
    digits: list[int],
    closing: int,
    *,
    end: int,
    context: int,
    seed: int,
) -> None:
    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=vocab,
        hidden_size=WIDTH,
        intermediate_size=2 * WIDTH,
        num_hidden_layers=2,
        num_attention_heads=2,
        max_position_embeddings=context,
        initializer_range=0.02,
        tie_word_embeddings=False,
        eos_token_id=end,
        pad_token_id=end,
        bos_token_id=None,
    )
    model: Any = LlamaForCausalLM(config)
    classes = {token: i for i, token in enumerate([*follows, digits[0]])}
    with torch.no_grad():
        embedding, head = model.get_input_embeddings().weight, model.get_output_embeddings().weight
        embedding.zero_()
        head.zero_()
        embedding[:, WIDTH - 1] = 1.0  # any other token: nothing in particular follows
        for token, i in [*classes.items(), *((digit, len(follows)) for digit in digits)]:
            embedding[token] = torch.nn.functional.one_hot(torch.tensor(i), WIDTH).float()
        for token, after in [*follows.items(), (digits[0], [closing])]:
            head[after, classes[token]] = SHARP
    folder.mkdir(parents=True, exist_ok=True)
    config.save_pretrained(folder)
    save_file(dict(model.named_parameters()), folder / "model.safetensors", metadata={"format": "pt"})
