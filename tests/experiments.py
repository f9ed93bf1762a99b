"""A swarm that learns within seconds: a tiny policy that was shown how answers look, and two small tasks."""

import random
from pathlib import Path

import torch
from safetensors.torch import save

from sapo_client.pocket import EOS_ID, Item, Pupil, make_tokenizer
from sapo_devnet.testkit.tiny_policy import tiny_folder
from sapo_lab.experiment.runner import Ground, pocket_rules
from sapo_verifier.networks import with_changes
from sapo_verifier.spec import Spec, TaskRule
from sapo_verifier.tasks import TaskWorker

STEPS = 60
TASKS = [
    TaskRule(name="count_bits", config={"min_n": 1, "max_n": 15}, weight=1),
    TaskRule(name="gcd", config={"min_numbers": 2, "max_numbers": 2, "min_value": 1, "max_value": 6}, weight=1),
]


def taught_folder(folder: Path, *, seed: int = 0) -> Path:
    """A tiny policy that answers `<1>`, `<2>`, `<3>` or `<4>`, whatever it is asked."""
    from transformers import AutoModelForCausalLM

    torch.set_num_threads(1)
    made = tiny_folder(folder, seed=seed)
    model = AutoModelForCausalLM.from_pretrained(made, local_files_only=True, dtype=torch.float32).eval()
    items = [Item(f"{letter}{n}=", str(a)) for letter in "OG" for n in range(1, 16) for a in (1, 2, 3, 4)]
    assert EOS_ID == 1
    Pupil(model, make_tokenizer(), [items], random.Random(seed)).train(STEPS, 1e-2, lambda: "<{}>", lambda _: None)
    (made / "model.safetensors").write_bytes(save(dict(model.named_parameters()), metadata={"format": "pt"}))
    return made


def small_rules(*folders: Path) -> Spec:
    return with_changes(pocket_rules(folders), tasks=TASKS, group_size=4, max_slots=16, max_new_tokens=6)


def ground(worker: TaskWorker, *folders: Path) -> Ground:
    return Ground.lay(small_rules(*folders), list(folders), worker, held_out=4)
