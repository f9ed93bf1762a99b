"""What a model's folder says of itself, read without torch: whoever made it may have meant another program, or harm.

Each refusal names the file and says what to do. Nothing here makes room for what a file only claims.
"""

import json
import math
import os
import struct
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from sapo_verifier.errors import SapoError

CONFIG, TOKENIZER, ADAPTER = "config.json", "tokenizer.json", "adapter_config.json"
WEIGHTS, INDEX = "model.safetensors", "model.safetensors.index.json"
GENERATION = "generation_config.json"
MORE = (GENERATION, "tokenizer_config.json")  # need not be there
JSON_BYTES = 1 << 26  # of a config or an index
HEADER_BYTES = 100_000_000  # of a safetensors file: as the format's own readers have it
FLOATS = {"F64": 8, "F32": 4, "F16": 2, "BF16": 2}
PLAIN = ("I64", "BOOL")  # of tables and masks that are no weights; older files have masks in bytes
MASKS = ("bias", "masked_bias")
LARGEST = 2**53 - 1  # the largest number that a rule can hold
SIZES = (
    "vocab_size", "hidden_size", "intermediate_size", "moe_intermediate_size", "head_dim", "num_hidden_layers",
    "num_attention_heads", "num_key_value_heads", "num_experts", "num_local_experts", "n_routed_experts",
    "n_embd", "n_layer", "n_head", "n_inner", "d_model", "n_layers", "n_heads", "max_position_embeddings",
    "n_positions",
)  # fmt: skip
UNBOUNDED = ("max_position_embeddings", "n_positions")  # by the weights: positions need none
LAYERS = ("num_hidden_layers", "n_layer", "n_layers")
HARMLESS = {True: 256, False: 1 << 20}  # layers, numbers: as many as any config may name, whether used or not
# Families that no pass of ours is right for, whatever their config says; tests/integration/test_families.py shows it.
# What depends on the config is found when a model is loaded (model/trial.py).
REFUSED = {
    "falcon_mamba": "its states run through the padding of a batch",
    "mamba": "its states run through the padding of a batch",
    "minimax": "it needs a cache of its own",
    "recurrent_gemma": "it caps logits after its output layer, and its states run through the padding of a batch",
    "rwkv": "its states run through the padding of a batch",
}
QUANTIZED = ("quantization_config", "compression_config")


class BaseLoadError(SapoError):
    """A folder that does not load as a base: broken, of a kind that is not supported, or another model."""


class Held(NamedTuple):
    """What the weights' files hold, by their headers."""

    tensors: int
    elements: int


def read_object(path: Path) -> dict[str, Any]:
    """A JSON object from a file of a model's folder. Raises BaseLoadError, naming it."""
    try:
        if path.stat().st_size > JSON_BYTES:
            raise BaseLoadError(f"{path} has more than {JSON_BYTES >> 20} MiB; give the folder of a model")
        document = json.loads(path.read_bytes())
    except OSError as error:
        words = f"{path} cannot be read: {error.strerror}"
        raise BaseLoadError(f"{words}, so its folder does not load as a model; give the folder of a model") from error
    except RecursionError as error:
        raise BaseLoadError(f"{path} is nested too deeply; fetch the model again") from error
    except ValueError as error:
        raise BaseLoadError(f"{path} is not JSON: {error}; fetch the model again") from error
    if not isinstance(document, dict):
        raise BaseLoadError(f"{path} is no JSON object; give the folder of a model")
    return document


def check_supported(folder: Path) -> None:
    """What config.json alone tells of a model that no node could run. Raises BaseLoadError; says nothing of a folder
    without that file, which is for whoever loads it. An adapter beside a whole model is a stray file, as others are."""
    if (folder / ADAPTER).exists() and not any((folder / name).exists() for name in (WEIGHTS, INDEX)):
        raise BaseLoadError(f"{folder} holds an adapter ({ADAPTER}) and no whole model; give the folder of its base")
    if not (folder / CONFIG).exists():
        return
    config = read_object(folder / CONFIG)
    for words, part in _parts(config):
        for name in QUANTIZED:
            if part.get(name) is not None:
                raise BaseLoadError(
                    f"{folder / CONFIG}: {words}{name} says that the weights are quantized, which is not supported: "
                    "take the model's folder in float32, bfloat16 or float16"
                )
    if config.get("transformers_weights") is not None:
        raise BaseLoadError(
            f"{folder / CONFIG} names files of weights of its own (transformers_weights), which is not supported; name "
            f"them {WEIGHTS}, or in {INDEX}"
        )
    if isinstance(kind := config.get("model_type"), str) and kind in REFUSED:
        raise BaseLoadError(
            f"{folder / CONFIG}: models of the family {kind} are not supported: {REFUSED[kind]}. Take a base of "
            "another family (docs/settings.md has a table)"
        )


def base_files(folder: Path) -> list[str]:
    """The names of the files that make a base, sorted: its digest is over these, and nothing else is read of a folder.

    config.json, tokenizer.json, model.safetensors or else its index with the shards that it names; and of MORE what is
    there. Links are followed. Raises BaseLoadError, naming the file that is missing, or an index that names others.
    """
    names = [CONFIG, TOKENIZER, *(name for name in MORE if (folder / name).exists()), *_weight_files(folder)]
    return _there(folder, names)


@contextmanager
def model_alone(folder: Path) -> Iterator[Path]:
    """A folder with links to the model's files among the base's and nothing beside them, until the block ends: what a
    library would pick up from a full folder is not there. Raises BaseLoadError as base_files does."""
    names = [CONFIG, *(name for name in (GENERATION,) if (folder / name).exists()), *_weight_files(folder)]
    with TemporaryDirectory(prefix="sapo-base-") as aside:
        for name in _there(folder, names):
            (Path(aside) / name).symlink_to((folder / name).resolve())
        yield Path(aside)


def _weight_files(folder: Path) -> list[str]:
    """As the loader looks for them: an index beside a whole file counts as little as other strangers."""
    return [WEIGHTS] if (folder / WEIGHTS).exists() else [INDEX, *set(_places(folder).values())]


def _there(folder: Path, names: list[str]) -> list[str]:
    for name in names:
        if not (folder / name).is_file():
            raise BaseLoadError(f"{folder} has no {name}; a base needs one: give the whole folder of a model")
    return sorted(names)


def check_config(folder: Path) -> dict[str, Any]:
    """config.json; that it is supported, and that it and the other configs can be. Raises BaseLoadError."""
    check_supported(folder)
    config = read_object(folder / CONFIG)
    for name in MORE:
        if (folder / name).exists():
            read_object(folder / name)
    if not isinstance(config.get("model_type"), str):
        raise BaseLoadError(f"{folder / CONFIG} needs model_type, a text; fetch the model again")
    for words, part in _parts(config):
        for name in SIZES:
            value = part.get(name)
            if value is None or isinstance(value, list):  # some have a list, one for each layer
                continue
            least = 0 if "expert" in name or "moe" in name else 1
            if type(value) is not int or not least <= value <= LARGEST:
                raise BaseLoadError(
                    f"{folder / CONFIG}: {words}{name} is {str(value)[:40]!r} and must be a whole number from {least} "
                    "on; fetch the model again"
                )
    return config


def check_folder(folder: Path) -> Held:
    """Configs and the weights' headers, and that they can belong together. Raises BaseLoadError. Reads no weights."""
    config = check_config(folder)
    held = _held(folder)
    for words, part in _parts(config):
        for name in SIZES:
            value = part.get(name)
            most, what = (held.tensors, "tensors") if name in LAYERS else (held.elements, "numbers")
            if isinstance(value, int) and name not in UNBOUNDED and value > max(most, HARMLESS[name in LAYERS]):
                raise BaseLoadError(
                    f"{folder / CONFIG}: {words}{name} is {value}, and the safetensors files hold {most} {what} in "
                    "all. Do config.json and the files belong together?"
                )
    return held


def batch_context(config: Mapping[str, Any]) -> int | None:
    """How many tokens a sequence may have so that its numbers do not depend on the others in its batch: where a config
    has two sets of frequencies (longrope), the longest row of a batch decides for all of them. None: any number."""
    limits = []
    ropes = [rope for name in ("rope_parameters", "rope_scaling") if isinstance(rope := config.get(name), dict)]
    for each in [*ropes, *(part for rope in ropes for part in rope.values())]:  # some have one for each kind of layer
        if isinstance(each, dict) and (each.get("rope_type") or each.get("type")) in ("longrope", "su"):
            limit = config.get("original_max_position_embeddings") or each.get("original_max_position_embeddings")
            if isinstance(limit, int):
                limits.append(limit)
    return min(limits, default=None)


def _parts(config: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """The config, and that of its text part where a model has others."""
    yield "", config
    if isinstance(text := config.get("text_config"), dict):
        yield "text_config.", text


def _held(folder: Path) -> Held:
    headers = [_header(folder / WEIGHTS)] if (folder / WEIGHTS).exists() else _shards(folder)
    shapes = [entry["shape"] for header in headers for entry in header.values()]
    return Held(len(shapes), sum(map(math.prod, shapes)))


def _places(folder: Path) -> dict[str, str]:
    """By an index: the file of each tensor. Each is a safetensors file of the folder itself, and there."""
    index = folder / INDEX
    if not index.exists():
        raise BaseLoadError(
            f"{folder} does not load as a model: it has neither {WEIGHTS} nor {INDEX}; give the folder of a base, with "
            "its weights as safetensors"
        )
    places = read_object(index).get("weight_map")
    if not isinstance(places, dict) or not places:
        raise BaseLoadError(f"{index} has no weight_map; fetch the model again")
    for tensor, name in places.items():
        if not isinstance(name, str) or name != Path(name).name or not name.endswith(".safetensors"):
            raise BaseLoadError(
                f"{index} says that {tensor[:200]} is in {str(name)[:200]!r}, which is no safetensors file of its own "
                "folder; fetch the model again, from a source that you trust"
            )
    for name in sorted(set(places.values())):
        if not (folder / name).exists():
            raise BaseLoadError(f"{index} names {name}, which is not there; fetch the model again")
    return places


def _shards(folder: Path) -> list[dict[str, Any]]:
    """The headers of the files that an index names."""
    places = _places(folder)
    headers = {name: _header(folder / name) for name in sorted(set(places.values()))}
    for tensor, name in places.items():
        if tensor not in headers[name]:
            raise BaseLoadError(
                f"{folder / INDEX} says that {tensor[:200]} is in {name}, and it is not; fetch the model again"
            )
    return list(headers.values())


def _header(path: Path) -> dict[str, Any]:
    """The tensors of a safetensors file, by name: dtype, shape, data_offsets. Raises BaseLoadError for a file that is
    not as long as it says, and for numbers that are no floats."""
    broken = f"{path} is no whole safetensors file"
    try:
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            start = file.read(8)
            length = struct.unpack("<Q", start)[0] if len(start) == 8 else size
            if length > min(size - 8, HEADER_BYTES):
                raise BaseLoadError(f"{broken}: its header does not fit; fetch the model again")
            header = json.loads(file.read(length))
    except OSError as error:
        raise BaseLoadError(f"{path} cannot be read: {error.strerror}; give the folder of a model") from error
    except (ValueError, RecursionError) as error:
        raise BaseLoadError(f"{broken}: its header is not JSON ({error}); fetch the model again") from error
    if not isinstance(header, dict):
        raise BaseLoadError(f"{broken}: its header is no JSON object; fetch the model again")
    header.pop("__metadata__", None)
    ends = []
    for name, entry in header.items():
        words = f"{broken}: its header is wrong about {name[:200]}; fetch the model again"
        if not isinstance(entry, dict):
            raise BaseLoadError(words)
        dtype, shape, offsets = entry.get("dtype"), _sizes(entry.get("shape")), _sizes(entry.get("data_offsets"))
        if not isinstance(dtype, str) or shape is None or offsets is None or len(offsets) != 2:
            raise BaseLoadError(words)
        if dtype not in FLOATS and not name.endswith(MASKS) and (dtype not in PLAIN or "weight" in name):
            raise BaseLoadError(
                f"{path}: {name[:200]} is {dtype[:20]}: quantized or packed weights are not supported; take the "
                "model's folder in float32, bfloat16 or float16"
            )
        elements = math.prod(shape)
        if offsets[0] > offsets[1] or (dtype in FLOATS and offsets[1] - offsets[0] != elements * FLOATS[dtype]):
            raise BaseLoadError(words)
        ends.append(offsets[1])
    if 8 + length + max(ends, default=0) != size:
        raise BaseLoadError(f"{broken}: it has {size} bytes, not those that its header names; fetch the model again")
    return header


def _sizes(value: Any) -> list[int] | None:
    """What is a list of whole numbers from 0 on, none of them larger than a file can be."""
    if isinstance(value, list) and all(type(each) is int and 0 <= each <= LARGEST for each in value):
        return value
    return None
