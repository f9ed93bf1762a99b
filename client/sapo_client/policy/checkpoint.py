"""Checkpoints of a node's learning: weights, optimizer, torch's random state, round. Written whole or not at all.

    <root>/round-00000012/{weights.safetensors, optimizer.safetensors, rng.safetensors, state.json}

With adapters also what peft looks for, {adapter_config.json, adapter_model.safetensors}; the latter is a link to the
weights. A checkpoint is written aside, forced to disk and renamed; state.json holds the digests of the other files, so
one that was cut off by a power failure is noticed and passed over. No pickle anywhere.
"""

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from safetensors import SafetensorError
from torch import Tensor

from sapo_client.policy.policy import Policy
from sapo_verifier.errors import SapoError
from sapo_verifier.files import sync_folder, write_file

_WEIGHTS, _OPTIMIZER, _RNG, _STATE = "weights.safetensors", "optimizer.safetensors", "rng.safetensors", "state.json"
_PEFT_CONFIG, _PEFT_WEIGHTS = "adapter_config.json", "adapter_model.safetensors"  # names that peft fixes
_PREFIX, _ASIDE = "round-", ".writing-"


class CheckpointError(SapoError):
    """A checkpoint that cannot be written, or does not fit the policy that asks for it."""


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint found whole on disk, not yet given to a policy."""

    folder: Path
    round: int
    state: dict[str, Any]  # what the caller saved with it, as JSON
    untouched: bool  # the weights are the base's own

    def restore(self, policy: Policy, optimizer: torch.optim.Optimizer) -> None:
        """Put weights, optimizer and torch's random state back: the next step is the one that would have followed.

        The optimizer's settings, such as its learning rate, stay those that it was made with.
        Raises CheckpointError or WeightsError, before the optimizer changes, if another base or optimizer was saved.
        """
        tensors = safetensors.torch.load_file(self.folder / _OPTIMIZER)
        described = optimizer.state_dict()["param_groups"]
        known = {number for group in described for number in group["params"]}
        state: dict[int, dict[str, Tensor]] = {}
        for name, tensor in tensors.items():
            number, key = name.split(".", 1)
            state.setdefault(int(number), {})[key] = tensor
        if not state.keys() <= known:
            raise CheckpointError(f"{self.folder} was made with other parameters; start from the base in a new folder")
        self.load_weights(policy)
        optimizer.load_state_dict({"state": state, "param_groups": described})
        rng = safetensors.torch.load_file(self.folder / _RNG)
        torch.set_rng_state(rng["cpu"])
        if "cuda" in rng and torch.cuda.is_available():
            torch.cuda.set_rng_state(rng["cuda"])

    def load_weights(self, policy: Policy) -> None:
        """Put the weights back, and nothing else. Raises WeightsError if another base was saved."""
        policy.load_weights((self.folder / _WEIGHTS).read_bytes())
        policy.untouched = self.untouched


def save_checkpoint(
    root: Path, policy: Policy, optimizer: torch.optim.Optimizer, *, round_: int, state: dict[str, Any], keep: int = 3
) -> Path:
    """Write the checkpoint of a round, then remove all but the last `keep`. `state` is any JSON.

    Saving a round again replaces it. Raises CheckpointError if the disk does not take it; older ones then still stand.
    """
    try:
        return _save(root, policy, optimizer, round_, state, keep)
    except OSError as error:
        for left_over in root.glob(f"{_ASIDE}*"):  # what a full disk took of it would only keep it full
            shutil.rmtree(left_over, ignore_errors=True)
        raise CheckpointError(f"the checkpoint of round {round_} could not be written to {root}: {error}") from error


def _save(
    root: Path, policy: Policy, optimizer: torch.optim.Optimizer, round_: int, state: dict[str, Any], keep: int
) -> Path:
    root.mkdir(parents=True, exist_ok=True)
    for left_over in root.glob(f"{_ASIDE}*"):  # of a writer that was stopped; a node has only one
        shutil.rmtree(left_over)
    aside = root / f"{_ASIDE}{os.getpid()}"
    aside.mkdir()
    tensors = {
        f"{number}.{key}": value.detach().cpu().contiguous()
        for number, values in optimizer.state_dict()["state"].items()
        for key, value in values.items()
    }
    rng = {"cpu": torch.get_rng_state()}
    if torch.cuda.is_available():
        rng["cuda"] = torch.cuda.get_rng_state()
    files = {
        _WEIGHTS: policy.weight_bytes(),
        _OPTIMIZER: safetensors.torch.save(tensors),
        _RNG: safetensors.torch.save(rng),
    }
    described = {
        "v": 1,
        "round": round_,
        "untouched": policy.untouched,
        "files": {name: hashlib.sha256(data).hexdigest() for name, data in files.items()},
        "state": state,
    }
    files[_STATE] = json.dumps(described, indent=1, allow_nan=False).encode()
    if policy.adapters is not None:
        files[_PEFT_CONFIG] = policy.adapters.peft_config(policy.folder)
        (aside / _PEFT_WEIGHTS).symlink_to(_WEIGHTS)
    for name, data in files.items():
        write_file(aside / name, data, synced="data")
    sync_folder(aside)
    target = root / f"{_PREFIX}{round_:08d}"
    if target.exists():
        # A directory cannot be replaced in one step; the previous round's checkpoint stands meanwhile.
        shutil.rmtree(target)
    aside.rename(target)
    sync_folder(root)
    for old in _folders(root)[keep:]:
        shutil.rmtree(old, ignore_errors=True)
    return target


def latest_checkpoint(root: Path, log: Callable[[str], None]) -> Checkpoint | None:
    """The newest checkpoint that is whole, or None. Says in words which ones were passed over, and why."""
    for left_over in root.glob(f"{_ASIDE}*"):
        log(f"{left_over} was not finished when its writer stopped; it is ignored")
    return next(whole_checkpoints(root, log), None)


def whole_checkpoints(root: Path, log: Callable[[str], None]) -> Iterator[Checkpoint]:
    """Those that are whole, the newest first. Says in words which ones are passed over, and why."""
    for folder in _folders(root):
        found = _read(folder)
        if isinstance(found, Checkpoint):
            yield found
        else:
            log(f"checkpoint {folder} is passed over: {found}")


def _read(folder: Path) -> Checkpoint | str:
    """The checkpoint, or what is wrong with it."""
    try:
        described = json.loads((folder / _STATE).read_text())
        for name in (_WEIGHTS, _OPTIMIZER, _RNG):
            with (folder / name).open("rb") as file:
                if hashlib.file_digest(file, "sha256").hexdigest() != described["files"][name]:
                    return f"{name} is not what was written"
            with safetensors.safe_open(folder / name, "pt"):
                pass
        return Checkpoint(
            folder,
            int(described["round"]),
            dict(described["state"]),
            bool(described["untouched"]),
        )
    except (OSError, ValueError, KeyError, TypeError, SafetensorError) as error:
        return f"{type(error).__name__}: {error}"


def _folders(root: Path) -> list[Path]:
    """Checkpoint folders, the newest first."""
    return sorted((path for path in root.glob(f"{_PREFIX}*") if path.is_dir()), reverse=True)
