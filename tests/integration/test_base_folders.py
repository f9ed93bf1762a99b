"""Folders of models that are broken, lie or mean harm: each is refused in a sentence that names the file."""

import json
import os
import re
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from answering import chat_folder
from sapo_client.policy.policy import Policy
from sapo_verifier.errors import SapoError
from sapo_verifier.folders import batch_context, check_folder
from sapo_verifier.model import base as loading
from sapo_verifier.model.base import load_base
from sapo_verifier.networks import measure, unlisted_base

pytestmark = pytest.mark.usefixtures("one_thread")

DEEP = "[" * 100_000
Change = Callable[[Path], None]


def config(**changes: Any) -> Change:
    def change(folder: Path) -> None:
        path = folder / "config.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | changes))

    return change


def text(name: str, content: str | bytes) -> Change:
    def change(folder: Path) -> None:
        (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())

    return change


def cut(name: str) -> Change:
    return lambda folder: os.truncate(folder / name, (folder / name).stat().st_size // 2)


def typed(dtype: torch.dtype, name: str = "model.layers.0.mlp.up_proj.weight") -> Change:
    def change(folder: Path) -> None:
        tensors = load_file(folder / "model.safetensors")
        save_file(tensors | {name: tensors[name].to(dtype)}, folder / "model.safetensors", metadata={"format": "pt"})

    return change


def header(edit: Callable[[dict[str, Any]], Any]) -> Change:
    """Rewrites the header of the weights, which then lies about the same bytes."""

    def change(folder: Path) -> None:
        path = folder / "model.safetensors"
        data = path.read_bytes()
        length = struct.unpack_from("<Q", data)[0]
        document = json.loads(data[8 : 8 + length])
        made = edit(document)
        written = json.dumps(document if made is None else made).encode()
        path.write_bytes(struct.pack("<Q", len(written)) + written + data[8 + length :])

    return change


def first(document: dict[str, Any]) -> dict[str, Any]:
    return next(entry for name, entry in document.items() if name != "__metadata__")  # type: ignore[no-any-return]


def index(places: Any) -> Change:
    """The weights in a shard, and an index that says so of the tensors; `places` replaces entries."""

    def change(folder: Path) -> None:
        (folder / "model.safetensors").rename(folder / "model-1.safetensors")
        named = dict.fromkeys(load_file(folder / "model-1.safetensors"), "model-1.safetensors")
        said = {"metadata": {}, "weight_map": named | places if isinstance(places, dict) else places}
        (folder / "model.safetensors.index.json").write_text(json.dumps(said))

    return change


def gone(name: str) -> Change:
    return lambda folder: (folder / name).unlink()


def more(folder: Path) -> None:
    with (folder / "model.safetensors").open("ab") as file:
        file.write(b"x")


def a_folder(folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    (folder / "model.safetensors").mkdir()


def an_adapter(folder: Path) -> None:
    (folder / "model.safetensors").rename(folder / "adapter_model.safetensors")
    (folder / "adapter_config.json").write_text("{}")


def negative(document: dict[str, Any]) -> None:
    first(document)["shape"] = [-1, 4]


def beyond(document: dict[str, Any]) -> None:
    entry = first(document)
    entry["shape"], entry["data_offsets"] = [1 << 50], [0, 1 << 52]


def backwards(document: dict[str, Any]) -> None:
    first(document)["data_offsets"].reverse()


ROPE = {"rope_parameters": {"rope_type": "spiral", "rope_theta": 10000.0}, "rope_scaling": None}
BROKEN: dict[str, tuple[Change, str]] = {
    "quantization_config": (
        config(quantization_config={"quant_method": "gptq", "bits": 4}),
        r"config\.json: quantiz.* in float32",
    ),
    "nested quantization_config": (
        config(text_config={"quantization_config": {}}),
        r"text_config\.quantization_config",
    ),
    "int8 weights": (typed(torch.int8), r"model\.safetensors: model\.layers\.0.*I8: quantized"),
    "fp8 weights": (typed(torch.float8_e4m3fn), r"model\.safetensors: .*F8_E4M3: quantized"),
    "packed weights": (typed(torch.int32), r"model\.safetensors: .*I32: quantized"),
    "integers for weights": (typed(torch.int64), r"model\.safetensors: .*I64: quantized"),
    "an adapter": (an_adapter, "holds an adapter"),
    "weights named in the config": (config(transformers_weights="../x.safetensors"), "transformers_weights"),
    "unknown rope": (config(**ROPE), "does not load as a model"),
    "unknown activation": (config(hidden_act="wobble"), "does not load as a model"),
    "unknown family": (config(model_type="wobble"), "does not load as a model"),
    "no family": (config(model_type=None), r"config\.json needs model_type"),
    "refused family": (config(model_type="mamba"), "family mamba are not supported"),
    "heads that do not divide": (config(num_attention_heads=5, head_dim=None), "does not load as a model"),
    "groups that do not divide": (config(num_attention_heads=4, num_key_value_heads=3), "does not load as a model"),
    "vocab below the tokenizer's": (
        config(vocab_size=250),
        r"tokenizer\.json has 256 tokens and config\.json a vocab_size of 250",
    ),
    "negative size": (config(hidden_size=-32), r"config\.json: hidden_size is '-32' and must be a whole number"),
    "no size": (config(num_hidden_layers=0), r"config\.json: num_hidden_layers is '0'"),
    "text for a size": (config(hidden_size="32"), r"config\.json: hidden_size is '32'"),
    "truth for a size": (config(vocab_size=True), r"config\.json: vocab_size is 'True'"),
    "a fraction of a size": (config(intermediate_size=63.5), r"config\.json: intermediate_size is '63\.5'"),
    "a context beyond all numbers": (config(max_position_embeddings=2**60), r"config\.json: max_position_embeddings"),
    "a negative context": (config(max_position_embeddings=-1), r"config\.json: max_position_embeddings"),
    "huge width": (
        config(hidden_size=10**9),
        r"config\.json: hidden_size is 1000000000, and the safetensors files hold",
    ),
    "large width": (
        config(hidden_size=2**16),
        r"config\.json describes a model of \d+ parameters, and the safetensors",
    ),
    "huge heads": (config(head_dim=2**18), r"config\.json describes a model of \d+ parameters"),
    "endless layers": (
        config(num_hidden_layers=10**9),
        r"config\.json: num_hidden_layers is 1000000000, and .* tensors",
    ),
    "wrong type of a flag": (config(rms_norm_eps="small"), "does not load as a model"),
    "a list for a rope": (config(rope_parameters=[1, 2], rope_scaling=None), "does not load as a model"),
    "an end that is none": (config(eos_token_id={"a": 1}), "as end tokens"),
    "ends that are none": (config(eos_token_id=[True, 1.5]), "as end tokens"),
    "config: no JSON": (text("config.json", "{'a': 1}"), r"config\.json is not JSON"),
    "config: no text": (text("config.json", b"\xff\xfe\x00{"), r"config\.json is not JSON"),
    "config: cut": (cut("config.json"), r"config\.json is not JSON"),
    "config: a list": (text("config.json", "[]"), r"config\.json is no JSON object"),
    "config: deep": (text("config.json", DEEP), r"config\.json is nested too deeply"),
    "config: gone": (gone("config.json"), r"config\.json cannot be read: No such file"),
    "tokenizer: no JSON": (text("tokenizer.json", "no"), r"tokenizer\.json cannot be read as a tokenizer"),
    "tokenizer: cut": (cut("tokenizer.json"), r"tokenizer\.json cannot be read as a tokenizer"),
    "tokenizer: other types": (
        text("tokenizer.json", '{"model": 7, "added_tokens": {}}'),
        r"tokenizer\.json cannot be read as",
    ),
    "tokenizer: deep": (text("tokenizer.json", DEEP), r"tokenizer\.json cannot be read as a tokenizer"),
    "tokenizer: gone": (gone("tokenizer.json"), r"has no tokenizer\.json"),
    "tokenizer_config: no JSON": (text("tokenizer_config.json", "no"), r"tokenizer_config\.json is not JSON"),
    "tokenizer_config: a list": (text("tokenizer_config.json", "[]"), r"tokenizer_config\.json is no JSON object"),
    "generation_config: cut": (text("generation_config.json", '{"eos'), r"generation_config\.json is not JSON"),
    "generation_config: deep": (text("generation_config.json", DEEP), r"generation_config\.json is nested too deeply"),
    "weights: gone": (gone("model.safetensors"), r"neither model\.safetensors nor model\.safetensors\.index\.json"),
    "weights: cut": (cut("model.safetensors"), r"model\.safetensors is no whole safetensors file: it has \d+ bytes"),
    "weights: empty": (text("model.safetensors", ""), r"model\.safetensors is no whole safetensors file: its header"),
    "weights: more": (more, r"model\.safetensors is no whole"),
    "weights: a folder": (a_folder, r"model\.safetensors cannot be read"),
    "weights: endless header": (
        text("model.safetensors", struct.pack("<Q", 1 << 62) + b"{}"),
        "its header does not fit",
    ),
    "weights: header no JSON": (text("model.safetensors", struct.pack("<Q", 2) + b"{x"), "its header is not JSON"),
    "weights: header deep": (
        text("model.safetensors", struct.pack("<Q", len(DEEP)) + DEEP.encode()),
        "its header is not JSON",
    ),
    "weights: header a list": (header(lambda _: [1]), "its header is no JSON object"),
    "weights: negative shape": (header(negative), "its header is wrong about"),
    "weights: beyond the end": (header(beyond), "its header is wrong about|it has"),
    "weights: backwards": (header(backwards), "its header is wrong about"),
    "index: outside": (
        index({"lm_head.weight": "../other/model.safetensors"}),
        r"index\.json says that lm_head.*no safetensors file of its own",
    ),
    "index: absolute": (
        index({"lm_head.weight": "/etc/passwd"}),
        r"index\.json says that lm_head.*no safetensors file of its own",
    ),
    "index: no text": (index({"lm_head.weight": 7}), r"index\.json says that lm_head"),
    "index: a pickle": (index({"lm_head.weight": "model.bin"}), r"index\.json says that lm_head"),
    "index: missing shard": (
        index({"lm_head.weight": "model-2.safetensors"}),
        r"names model-2\.safetensors, which is not there",
    ),
    "index: missing tensor": (index({"other.weight": "model-1.safetensors"}), r"says that other\.weight is in model-1"),
    "index: no map": (index([1]), r"index\.json has no weight_map"),
}


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return chat_folder(tmp_path_factory.mktemp("good") / "chat")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return chat_folder(tmp_path / "chat")


@pytest.mark.parametrize("how", BROKEN)
def test_a_broken_folder_is_a_sentence(folder: Path, how: str) -> None:
    change, words = BROKEN[how]
    change(folder)
    with pytest.raises(SapoError, match=words) as caught:
        Policy.load(folder)
    said = str(caught.value)
    assert "\n" not in said
    assert len(said) < 1000
    assert caught.value.exit_status == 1


@pytest.mark.parametrize("how", [how for how in BROKEN if "tokenizer" not in how and "end" not in how])
def test_the_auditors_loader_says_so_too(folder: Path, good: Path, how: str) -> None:
    """It has the spec's rule for the base, and measures nothing."""
    rule = unlisted_base(good)
    change, words = BROKEN[how]
    change(folder)
    with pytest.raises(SapoError) as caught:
        load_base(folder, rule)
    assert "vocab" in how or caught.match(words)


def test_what_stands_beside_the_base_is_not_loaded(folder: Path) -> None:
    """Pickles, weights of other names, code, an adapter, another version's configuration."""
    rule = unlisted_base(folder)
    expected = load_base(folder, rule).state_dict()
    other = {name: tensor + 1 for name, tensor in load_file(folder / "model.safetensors").items()}
    for name in ("consolidated.safetensors", "model.fp16.safetensors", "adapter_model.safetensors"):
        save_file(other, folder / name, metadata={"format": "pt"})
    torch.save(other, folder / "pytorch_model.bin")
    for name in ("adapter_config.json", "chat_template.jinja", "special_tokens_map.json", "modeling_own.py"):
        (folder / name).write_text("no JSON, and no code")
    index({})(folder)
    (folder / "model-1.safetensors").rename(folder / "model.safetensors")  # which comes before its index
    model = load_base(folder, rule)
    assert model.config.to_dict()["_name_or_path"] == model.name_or_path == str(folder), "of any number of loads alike"
    found = model.state_dict()
    assert found.keys() == expected.keys()
    assert all(torch.equal(found[name], expected[name]) for name in expected)


def test_a_configuration_that_names_another_file_is_not_followed(folder: Path) -> None:
    """transformers takes the newest that its version may read; the digest is over config.json alone."""
    rule = unlisted_base(folder)
    other = json.loads((folder / "config.json").read_text()) | {"rms_norm_eps": 0.5}
    (folder / "config.4.0.0.json").write_text(json.dumps(other))
    config(configuration_files=["config.4.0.0.json"])(folder)
    with pytest.raises(SapoError, match=r"does not load as a model.*config\.4\.0\.0\.json"):
        load_base(folder, rule)


def test_whole_folders_pass(folder: Path) -> None:
    expected = load_base(folder, unlisted_base(folder)).state_dict()
    index({})(folder)
    assert check_folder(folder).tensors == len(load_file(folder / "model-1.safetensors"))
    found = load_base(folder, unlisted_base(folder)).state_dict()
    assert all(torch.equal(found[name], expected[name]) for name in expected)


def test_masks_in_old_files_are_no_packed_weights(folder: Path) -> None:
    path = folder / "model.safetensors"
    more = {"h.0.attn.bias": torch.ones(1, 1, 4, 4, dtype=torch.uint8), "a.tid2eid": torch.zeros(4, dtype=torch.int64)}
    save_file(load_file(path) | more, path, metadata={"format": "pt"})
    check_folder(folder)


def test_a_model_larger_than_the_machine_is_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rule = unlisted_base(folder)
    monkeypatch.setattr(loading.os, "sysconf", lambda name: 4096 if name == "SC_PAGE_SIZE" else 2)
    with pytest.raises(SapoError, match=r"takes 0 GiB in float32, and this machine has 0 GiB"):
        load_base(folder, rule)


def test_the_context_is_where_one_set_of_frequencies_ends(folder: Path) -> None:
    rope = {"type": "longrope", "short_factor": [1.0], "long_factor": [2.0]}
    config(rope_scaling=rope, original_max_position_embeddings=512)(folder)
    assert measure(folder).context == 512
    assert batch_context({"rope_parameters": {"full": {**rope, "original_max_position_embeddings": 7}, "x": {}}}) == 7
    assert batch_context({"rope_scaling": {"type": "linear", "factor": 2.0}}) is None
    assert batch_context({"rope_scaling": [1]}) is None


@pytest.mark.parametrize(
    "how", ["quantization_config", "unknown rope", "weights: cut", "tokenizer: deep", "index: outside", "large width"]
)
def test_the_command_ends_with_a_sentence(folder: Path, how: str, tmp_path: Path) -> None:
    change, words = BROKEN[how]
    change(folder)
    command = [sys.executable, "-m", "sapo_client", "train", "--home", tmp_path / "home", "--policy", folder]
    done = subprocess.run([*command, "--base", "chat", "--rounds", "1"], capture_output=True, text=True)
    assert done.returncode == 1, done.stderr
    assert "Traceback" not in done.stderr
    assert re.search(words, done.stderr)
    assert not (tmp_path / "home" / "checkpoints").exists()


@pytest.mark.parametrize("how", ["fp8 weights", "refused family", "index: missing shard"])
def test_no_spec_is_written_for_it(folder: Path, how: str, tmp_path: Path) -> None:
    change, words = BROKEN[how]
    change(folder)
    command = [sys.executable, "-m", "sapo_client", "network", "spec", "--base", f"chat={folder}"]
    done = subprocess.run([*command, "--out", tmp_path / "spec.json"], capture_output=True, text=True)
    assert done.returncode == 1, done.stderr
    assert "Traceback" not in done.stderr
    assert re.search(words, done.stderr)
    assert not (tmp_path / "spec.json").exists()
