"""Adapters (LoRA, arXiv 2106.09685): which layers they change, how they are read from a stranger's bytes, and the one
arithmetic that producers and verifiers share (docs/protocol.md, Adapters):

    W' = W + (B · A) · (alpha / rank)        in float32, the product first, then the scale, then the sum

Names and shapes are those of peft's files. No code of peft's is needed to check them.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from sapo_verifier.model.sampling import NotFiniteError
from sapo_verifier.model.weights import WeightsError, read_weights

PREFIX = "base_model.model."
Layers = dict[str, nn.Linear]


class Pair(NamedTuple):
    """One layer's adapter: a (rank, inputs) and b (outputs, rank), float32."""

    a: Tensor
    b: Tensor


def linear_layers(model: Any) -> Layers:
    """What an adapter may change: every linear layer but the output layer, by its name in the model."""
    head = model.get_output_embeddings()
    return {name: module for name, module in model.named_modules() if type(module) is nn.Linear and module is not head}


def target_names(model: Any) -> list[str]:
    """All targets that a base has: the last parts of its linear layers' names, sorted."""
    return sorted({_last(name) for name in linear_layers(model)})


def adapted_layers(model: Any, targets: Sequence[str]) -> Layers:
    """The layers that these targets name. Raises WeightsError unless they are sorted, distinct and the base's."""
    if list(targets) != sorted(set(targets)):
        raise WeightsError(f"the adapter's targets are not sorted, each once: {', '.join(targets)[:200]}")
    layers = linear_layers(model)
    if unknown := set(targets) - {_last(name) for name in layers}:
        raise WeightsError(f"the base has no linear layer {sorted(unknown)[0][:200]!r} that an adapter could change")
    wanted = set(targets)
    return {name: layer for name, layer in layers.items() if _last(name) in wanted}


def tensor_names(layer: str) -> tuple[str, str]:
    """What A and B of a layer are called in the file."""
    return f"{PREFIX}{layer}.lora_A.weight", f"{PREFIX}{layer}.lora_B.weight"


def read_adapter(data: bytes, layers: Mapping[str, nn.Linear], rank: int) -> dict[str, Pair]:
    """The adapter in a safetensors file, by layer.

    Raises WeightsError unless the file holds exactly these layers' tensors, NotFiniteError for NaN or infinity in it.
    """
    expected: dict[str, Tensor] = {}
    for layer, module in layers.items():
        for name, shape in zip(
            tensor_names(layer), [(rank, module.in_features), (module.out_features, rank)], strict=True
        ):
            expected[name] = torch.empty(shape, dtype=torch.float32, device="meta")
    given = read_weights(data, expected)
    pairs = {layer: tensor_names(layer) for layer in layers}
    return {layer: Pair(given[a], given[b]) for layer, (a, b) in pairs.items()}


@torch.no_grad()
def merge(layers: Mapping[str, nn.Linear], pairs: Mapping[str, Pair], scale: float) -> None:
    """Add adapters to the layers' weights, which must be the base's own. scale: alpha / rank.

    Raises NotFiniteError where a weight would not be finite; layers before that one have changed then.
    """
    for name, pair in pairs.items():
        weight = layers[name].weight
        change = (pair.b.to(weight.device) @ pair.a.to(weight.device)) * scale
        if not bool(torch.isfinite(merged := weight + change).all()):
            raise NotFiniteError(f"the adapter makes weights of {name} NaN or infinite")
        weight.copy_(merged)


class Originals:
    """The base's own weights of layers that adapters changed, to put them back bit for bit.

    Subtracting an adapter again would leave its rounding behind. Kept as small as they are exact: most bases are
    bfloat16 in their files, and half of float32 is enough for those.
    """

    def __init__(self) -> None:
        self._kept: dict[str, Tensor] = {}

    @torch.no_grad()
    def keep(self, layers: Mapping[str, nn.Linear]) -> None:
        """Before the layers change for the first time."""
        for name, layer in layers.items():
            if name not in self._kept:
                weight = layer.weight.detach()
                small = weight.to(torch.bfloat16)
                self._kept[name] = small if torch.equal(small.to(weight.dtype), weight) else weight.clone()

    @torch.no_grad()
    def restore(self, layers: Mapping[str, nn.Linear]) -> None:
        """The base's own weights again, in those of the layers that were kept."""
        for name, layer in layers.items():
            if name in self._kept:
                layer.weight.copy_(self._kept[name])


def _last(name: str) -> str:
    return name.rpartition(".")[2]
