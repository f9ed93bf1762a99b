"""The policy that experiments start from: it has the skill of the pocket policy, and almost never the right format.

A pocket policy that was last trained on a mixture with 3 % of the rewarded format is trained on another mixture, with
less of it. How rarely it is right at first decides what sharing is worth, so a study varies it.
"""

import hashlib
import shutil
from importlib.metadata import version
from pathlib import Path

from sapo_devnet.built import build_once
from sapo_devnet.pocket import pocket_policy

POCKET_FORMAT = 0.03
RIGHT_FORMAT = 0.01
STEPS = 100
ITEMS = 1000  # per dataset
SEED = 0


def sparse_policy(root: Path, right_format: float = RIGHT_FORMAT) -> Path:
    """The folder; built in a minute (the pocket policy below it: in a few) if it is not there yet."""
    pocket = pocket_policy(root, right_format=POCKET_FORMAT)
    if right_format == POCKET_FORMAT:
        return pocket
    made_of = f"{pocket.name} {right_format} {STEPS} {ITEMS} {SEED} {version('torch').partition('+')[0]}"
    folder = root / ".cache" / f"sparse-{hashlib.sha256(made_of.encode()).hexdigest()[:12]}"

    def build(aside: Path) -> None:
        shutil.copytree(pocket, aside)
        _forget(pocket, aside, right_format)

    words = f"making the pocket policy forget its format, to {right_format:.1%} (once, a minute)"
    return build_once(folder, words, build)


def _forget(pocket: Path, folder: Path, right_format: float) -> None:
    import random

    import torch
    from safetensors.torch import save
    from transformers import AutoModelForCausalLM

    from sapo_client.pocket import Pupil, make_items, make_tokenizer

    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # the same bytes on one kind of machine
    model = AutoModelForCausalLM.from_pretrained(pocket, local_files_only=True, dtype=torch.float32)
    rng = random.Random(f"sparse/{SEED}")
    pupil = Pupil(model, make_tokenizer(), make_items(SEED, ITEMS), rng)
    pupil.train_formats(STEPS, right_format, print)
    (folder / "model.safetensors").write_bytes(save(dict(model.named_parameters()), metadata={"format": "pt"}))
    torch.set_num_threads(threads)
