"""Training adapters: peft's layers stand around a model's linear ones while the policy learns, and only then.

Otherwise the model is a plain one with the adapters merged into its weights, by the verifier's own arithmetic
(`sapo_verifier.model.lora`): records, generation and checks see the same numbers.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from torch import Tensor

from sapo_verifier.errors import UsageError
from sapo_verifier.model.lora import (
    Layers,
    Originals,
    Pair,
    adapted_layers,
    read_adapter,
    target_names,
    tensor_names,
)
from sapo_verifier.model.lora import (
    merge as merge_into,
)
from sapo_verifier.model.sampling import NotFiniteError
from sapo_verifier.model.weights import WeightsError
from sapo_verifier.objects import Lora

DEFAULT_SCALE = 2  # alpha / rank
ADAPTER = "default"  # what peft's layers call the only one


@dataclass(frozen=True)
class LoraOptions:
    """rank: of every adapter; alpha: None for twice the rank; targets: the last parts of layer names, none for all."""

    rank: int
    alpha: int | None = None
    targets: tuple[str, ...] = ()


class Adapters:
    """The adapters of a model, in float32. A starts at random and B at zero, so the policy starts as its base."""

    def __init__(self, model: Any, options: LoraOptions, *, seed: int) -> None:
        """Raises UsageError for targets that the model does not have, and for a model without any."""
        if not target_names(model):
            raise UsageError(
                f"{type(model).__name__} has no linear layers that adapters could change; set lora_rank to 0 and train "
                "all weights"
            )
        self.lora = Lora(
            rank=options.rank,
            alpha=options.alpha or DEFAULT_SCALE * options.rank,
            targets=sorted(set(options.targets)) or target_names(model),
        )
        try:
            self._layers = adapted_layers(model, self.lora.targets)
        except WeightsError as error:
            raise UsageError(f"lora_targets: {error}; choose from {', '.join(target_names(model))}") from error
        self._model = model
        self._originals = Originals()
        self._originals.keep(self._layers)
        for parameter in model.parameters():
            parameter.requires_grad_(False)
        self._wrappers = _wrap(model, self._layers, self.lora, seed)
        self._unmerged = True  # peft has put its layers into the model
        self.merge()

    def parameters(self) -> list[torch.nn.Parameter]:
        """A and B of every layer, in the model's order."""
        return [matrix.weight for name in self._wrappers for matrix in self._matrices(name)]

    def unmerge(self) -> None:
        """The base's own weights, and peft's layers around them: gradients reach the adapters."""
        if not self._unmerged:
            self._originals.restore(self._layers)
            _put(self._model, self._wrappers)
            self._unmerged = True

    def merge(self) -> None:
        """A plain model whose weights are the policy's. Raises NotFiniteError, each time, if they are not finite."""
        if not self._unmerged:
            return
        pairs = {name: Pair(*(m.weight.detach() for m in self._matrices(name))) for name in self._wrappers}
        try:
            merge_into(self._layers, pairs, self.lora.alpha / self.lora.rank)
        except NotFiniteError:
            self._originals.restore(self._layers)
            raise
        _put(self._model, self._layers)
        self._unmerged = False

    def tensors(self) -> dict[str, Tensor]:
        """By the names that they have in files. Detached, not copied."""
        return {
            key: matrix.weight.detach()
            for name in self._wrappers
            for key, matrix in zip(tensor_names(name), self._matrices(name), strict=True)
        }

    def peft_config(self, base: Path) -> bytes:
        """adapter_config.json: with it peft loads `file`, as adapter_model.safetensors, over the base in `base`."""
        others = {name.rpartition(".")[2] for name, _ in self._model.named_modules() if name not in self._layers}
        alone = others.isdisjoint(self.lora.targets)  # else the targets would name layers that have no adapter
        document = {
            "base_model_name_or_path": str(base),
            "bias": "none",
            "fan_in_fan_out": False,
            "inference_mode": True,
            "lora_alpha": self.lora.alpha,
            "lora_dropout": 0.0,
            "modules_to_save": None,
            "peft_type": "LORA",
            "r": self.lora.rank,
            "target_modules": list(self.lora.targets) if alone else sorted(self._layers),
            "task_type": "CAUSAL_LM",
            "use_dora": False,
            "use_rslora": False,
        }
        return json.dumps(document, indent=1).encode()

    def file(self) -> bytes:
        """One safetensors file; equal adapters give equal bytes."""
        return bytes(safetensors.torch.save({name: t.cpu().contiguous() for name, t in self.tensors().items()}))

    def load(self, data: bytes) -> None:
        """As strictly as a stranger's. Raises WeightsError or NotFiniteError before anything changes."""
        pairs = read_adapter(data, self._layers, self.lora.rank)
        before = {name: Pair(*(m.weight.detach().clone() for m in self._matrices(name))) for name in self._wrappers}
        self._take(pairs)
        try:
            self.merge()
        except NotFiniteError:
            self._take(before)
            raise

    @torch.no_grad()
    def _take(self, pairs: Mapping[str, Pair]) -> None:
        self.unmerge()
        for name, pair in pairs.items():
            for matrix, given in zip(self._matrices(name), pair, strict=True):
                matrix.weight.copy_(given)

    def reset(self) -> None:
        """The base: B is zero everywhere."""
        with torch.no_grad():
            for name in self._wrappers:
                self._matrices(name)[1].weight.zero_()
        self.unmerge()
        self.merge()

    def _matrices(self, name: str) -> tuple[Any, Any]:
        wrapper = self._wrappers[name]
        return wrapper.lora_A[ADAPTER], wrapper.lora_B[ADAPTER]


def _wrap(model: Any, layers: Layers, lora: Lora, seed: int) -> dict[str, Any]:
    """Put peft's layers into the model; gives them by name. Torch's random state stays as it was.

    One by one: asked to find them itself, peft takes a name such as gate_proj for that of all experts' weights, too.
    """
    from peft import LoraConfig
    from peft.tuners.lora.layer import Linear

    config = LoraConfig(r=lora.rank, lora_alpha=lora.alpha, lora_dropout=0.0, bias="none")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        wrappers = {
            name: Linear(layer, ADAPTER, config=config, r=lora.rank, lora_alpha=lora.alpha)
            for name, layer in layers.items()
        }
    _put(model, wrappers)
    model.eval()
    return wrappers


def _put(model: Any, modules: Mapping[str, torch.nn.Module]) -> None:
    """Set the model's modules of these names."""
    for name, module in modules.items():
        parent, _, last = name.rpartition(".")
        setattr(model.get_submodule(parent), last, module)
