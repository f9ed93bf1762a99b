"""Which policies a devnet's nodes train, and the rules that all of these bases fit."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from sapo_devnet.pocket import pocket_policy
from sapo_devnet.smollm2 import smollm2
from sapo_verifier.networks import mixed_spec, pocket_base, pocket_spec, smollm2_base, with_changes
from sapo_verifier.spec import Spec

SMOLLM2_RANK = 16


@dataclass(frozen=True)
class DevnetPolicy:
    """A base of the devnet's spec, and how its nodes train it."""

    base: str  # its id
    folder: Path
    lora_rank: int


def find_policies(root: Path, names: str, pocket_steps: int | None, lora_rank: int | None) -> list[DevnetPolicy]:
    """names: `pocket`, `smollm2` or a pocket policy's folder, separated by commas; built where they are not there yet.

    lora_rank: of SmolLM2's adapters; None: SMOLLM2_RANK.
    """
    policies = []
    for name in names.split(","):
        if name == "smollm2":
            policies.append(DevnetPolicy("smollm2", smollm2(root), SMOLLM2_RANK if lora_rank is None else lora_rank))
        else:
            folder = pocket_policy(root, steps=pocket_steps) if name == "pocket" else Path(name).resolve()
            policies.append(DevnetPolicy("pocket", folder, 0))
    return policies


def devnet_spec(policies: Sequence[DevnetPolicy], spot: int | None = None) -> Spec:
    """A base for each policy: the pocket spec for pocket policies, a mixed one as soon as SmolLM2 is among them.

    spot: completions of a batch that each voter recomputes; None: all.
    """
    folders = {policy.base: policy.folder for policy in policies}
    if "smollm2" not in folders:
        spec = pocket_spec(folders["pocket"])
    else:
        bases = [pocket_base(folders["pocket"])] if "pocket" in folders else []
        spec = mixed_spec([*bases, smollm2_base(folders["smollm2"], "brackets")])
    return spec if spot is None else with_changes(spec, spot=spot)
