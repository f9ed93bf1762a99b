"""A policy's weights: which tensors a base has, and taking them from bytes that a stranger published.

A safetensors file, read as strictly as it can be: exactly the base's names, shapes and types, nothing before, between
or behind them, all finite. The header is bounded and compared before a byte is taken for a weight. No pickle anywhere.
"""

import json
import struct
from collections.abc import Mapping
from typing import Any

import safetensors.torch
import torch
from safetensors import SafetensorError
from torch import Tensor

from sapo_verifier.errors import SapoError
from sapo_verifier.model.sampling import NotFiniteError

HEADER_BYTES = 1 << 16  # that a header may have beside its tensors, for metadata
HEADER_BYTES_PER_TENSOR = 256  # beside the name
_TYPES = {torch.float32: "F32", torch.int64: "I64", torch.bool: "BOOL"}


class WeightsError(SapoError):
    """Bytes that are no weights of this base, whoever reads them."""


def tensors_of(model: Any) -> dict[str, Tensor]:
    """Every tensor once, by its first name: a tied output layer is the embedding. Detached, not copied."""
    seen: set[int] = set()
    unique: dict[str, Tensor] = {}
    for name, tensor in model.state_dict().items():
        if tensor.data_ptr() not in seen:
            seen.add(tensor.data_ptr())
            unique[name] = tensor.detach()
    return unique


def load_weights(model: Any, data: bytes) -> None:
    """Put the weights of a safetensors file into the model.

    Raises, before anything changes, WeightsError for a file that is not this model's, NotFiniteError for NaN or
    infinity in it.
    """
    expected = tensors_of(model)
    given = read_weights(data, expected)
    with torch.no_grad():
        for name, tensor in expected.items():
            tensor.copy_(given[name])


def read_weights(data: bytes, expected: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors of a safetensors file that must have exactly the names, shapes and types of `expected`.

    Raises WeightsError for another file, NotFiniteError for NaN or infinity in it.
    """
    _check_header(data, expected)
    try:
        given = safetensors.torch.load(data)
    except (SafetensorError, ValueError, KeyError) as error:
        raise WeightsError(f"the weights are no safetensors file: {error}") from error
    for name, tensor in given.items():
        # Once more: what follows must not depend on two readers understanding a header alike.
        if name not in expected or (tensor.dtype, tensor.shape) != (expected[name].dtype, expected[name].shape):
            raise WeightsError(f"the weights' tensor {name[:200]} is not what the header said")
        if not bool(torch.isfinite(tensor).all()):
            raise NotFiniteError(f"the weights' tensor {name} holds NaN or infinity")
    return given


def _check_header(data: bytes, expected: Mapping[str, Tensor]) -> None:
    if len(data) < 8 or (size := struct.unpack_from("<Q", data)[0]) > len(data) - 8:
        raise WeightsError("the weights are no safetensors file: the header does not fit")
    limit = HEADER_BYTES + sum(HEADER_BYTES_PER_TENSOR + len(name) for name in expected)
    if size > limit:
        raise WeightsError(f"the weights' header takes {size} bytes, more than {limit}")
    try:
        header = json.loads(data[8 : 8 + size], object_pairs_hook=_unique)
    except (ValueError, RecursionError) as error:
        raise WeightsError(f"the weights are no safetensors file: {error}") from error
    if not isinstance(header, dict):
        raise WeightsError("the weights are no safetensors file: the header is no JSON object")
    header.pop("__metadata__", None)
    if missing := expected.keys() ^ header.keys():
        raise WeightsError(f"the weights have other tensors than the base, for example {sorted(missing)[0]}")
    for name, tensor in expected.items():
        entry = header[name] if isinstance(header[name], dict) else {}
        wanted = (_TYPES[tensor.dtype], list(tensor.shape))
        if (entry.get("dtype"), entry.get("shape")) != wanted:
            raise WeightsError(f"the weights' tensor {name} is {entry.get('dtype')} {entry.get('shape')}, not {wanted}")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(names := {name for name, _ in pairs}) != len(pairs):
        raise ValueError(f"a key of {sorted(names)[:3]} … comes twice")
    return dict(pairs)
