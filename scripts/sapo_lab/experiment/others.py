"""Policies that differ from the one that the others start from: for swarms that are not all alike."""

import hashlib
import random
import shutil
from importlib.metadata import version
from pathlib import Path

from sapo_devnet.built import build_once
from sapo_lab.experiment.sparse import ITEMS, POCKET_FORMAT, RIGHT_FORMAT, SEED, STEPS

SMALL = {"hidden_size": 64, "intermediate_size": 176, "num_hidden_layers": 2}  # 108,000 weights, instead of 343,000


def other_tokenizer(root: Path, base: Path) -> Path:
    """The same policy under a tokenizer that gives every character another id: to the first one's nodes its ids and
    intervals say nothing, and its text has to be spelled anew."""
    folder = root / ".cache" / f"{base.name}-other-tokenizer"

    def build(aside: Path) -> None:
        shutil.copytree(base, aside)
        _rename_tokens(aside)

    return build_once(folder, "giving the policy another tokenizer", build)


def _rename_tokens(folder: Path) -> None:
    import json

    import torch
    from safetensors.torch import load_file, save

    file = folder / "tokenizer.json"
    document = json.loads(file.read_text(encoding="utf-8"))
    vocab: dict[str, int] = document["model"]["vocab"]
    special = {token["id"] for token in document["added_tokens"]}
    ids = sorted(set(vocab.values()) - special)
    others = random.Random(SEED).sample(ids, len(ids))
    renamed = dict(zip(ids, others, strict=True))
    document["model"]["vocab"] = {text: renamed.get(i, i) for text, i in vocab.items()}
    file.write_text(json.dumps(document), encoding="utf-8")
    weights = load_file(folder / "model.safetensors")
    for name in ("model.embed_tokens.weight", "lm_head.weight"):
        rows = weights[name].clone()
        rows[torch.tensor(others)] = weights[name][torch.tensor(ids)]
        weights[name] = rows
    (folder / "model.safetensors").write_bytes(save(weights, metadata={"format": "pt"}))


def smaller(root: Path, base: Path, right_format: float = RIGHT_FORMAT) -> Path:
    """A policy with less than a third of the weights, brought up like the first one. It is another base, so to the
    others' nodes its groups are text alone, as theirs are to its."""
    made_of = f"{SMALL} {STEPS} {ITEMS} {SEED} {version('torch').partition('+')[0]}"
    folder = root / ".cache" / f"{base.name}-smaller-{hashlib.sha256(made_of.encode()).hexdigest()[:12]}"

    def build(aside: Path) -> None:
        shutil.copytree(base, aside)
        _bring_up(aside, right_format)

    return build_once(folder, "bringing up a smaller policy (once, a few minutes)", build)


def _bring_up(folder: Path, right_format: float) -> None:
    import torch
    from safetensors.torch import save
    from transformers import AutoConfig, AutoModelForCausalLM

    from sapo_client import pocket

    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # the same bytes on one kind of machine
    torch.manual_seed(SEED)
    config = AutoConfig.from_pretrained(folder, local_files_only=True)
    config.update({**SMALL, "head_dim": SMALL["hidden_size"] // config.num_attention_heads})
    model = AutoModelForCausalLM.from_config(config).eval()  # type: ignore[no-untyped-call]
    rng = random.Random(f"smaller/{SEED}")
    pupil = pocket.Pupil(model, pocket.make_tokenizer(), pocket.make_items(SEED, 2 * ITEMS), rng)
    pupil.train(pocket.STEPS, pocket.PEAK_RATE, lambda: pocket.RIGHT, print)
    pupil.train_formats(pocket.STEPS // 10, POCKET_FORMAT, print)
    pupil.train_formats(STEPS, right_format, print)
    config.save_pretrained(folder)
    (folder / "model.safetensors").write_bytes(save(dict(model.named_parameters()), metadata={"format": "pt"}))
    torch.set_num_threads(threads)
