"""Policies: what is published, what is taken from others, and text to ids and back."""

import json
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch
from safetensors.torch import load_file, save_file
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

from sapo_client.generation.torch_engine import TorchEngine
from sapo_client.pocket import EOS_ID, VOCAB
from sapo_client.policy.policy import Policy, PolicyError, save_policy
from sapo_client.policy.tokenization import Encoder
from sapo_devnet.testkit.tiny_policy import MAX_NEW_TOKENS, TAMPERINGS, tampered, tiny_folder, tiny_policy, tiny_rule
from sapo_verifier.bases import Tokenizer as BaseTokenizer
from sapo_verifier.cid import BLOCK_LIMIT, block_digest
from sapo_verifier.errors import SapoError
from sapo_verifier.model.base import BaseLoadError, load_base
from sapo_verifier.model.forward import check_head
from sapo_verifier.model.sampling import NotFiniteError
from sapo_verifier.model.weights import WeightsError
from sapo_verifier.objects import PolicyManifest


@pytest.fixture
def policy(tmp_path: Path) -> Policy:
    return tiny_policy(tmp_path / "base")


def changed(policy: Policy) -> Policy:
    with torch.no_grad():
        policy.parameters()[0].add_(0.01)
    policy.untouched = False
    return policy


# --- publishing ------------------------------------------------------------------------------------------------------


def test_an_untouched_policy_is_its_base(policy: Policy) -> None:
    published = policy.publish()
    manifest = PolicyManifest.parse(published.manifest)
    assert (manifest.kind, manifest.size, manifest.blocks, published.blocks) == ("base", 0, [], [])
    assert published.digest == block_digest(published.manifest)


@pytest.mark.parametrize("tied", [False, True])
def test_what_one_publishes_another_becomes(tmp_path: Path, tied: bool) -> None:
    """Through manifest and blocks, bit for bit; equal weights have equal digests; tied weights travel once."""
    policy = changed(tiny_policy(tmp_path / "a", tied=tied))
    other = tiny_policy(tmp_path / "b", tied=tied)
    published = policy.publish()
    manifest = PolicyManifest.parse(published.manifest)
    assert manifest.kind == "full"
    assert [block_digest(block) for block in published.blocks] == manifest.blocks
    assert ("lm_head.weight" in policy.weights()) != tied
    other.load_weights(b"".join(published.blocks))
    assert other.publish() == published
    ids = torch.tensor([[4, 5, 6]])
    assert torch.equal(policy.model(ids).logits, other.model(ids).logits)


def test_large_weights_are_cut_into_blocks(tmp_path: Path) -> None:
    policy = changed(tiny_policy(tmp_path, rows=9000))
    published = policy.publish()
    assert [len(block) for block in published.blocks[:-1]] == [BLOCK_LIMIT] * (len(published.blocks) - 1)
    assert len(published.blocks) == 3
    assert b"".join(published.blocks) == policy.weight_bytes()


def test_weights_beyond_the_specs_limit_are_not_published(tmp_path: Path) -> None:
    with pytest.raises(PolicyError, match="the spec allows 1000"):
        changed(tiny_policy(tmp_path, max_adapter_bytes=1000)).publish()


# --- a peer's weights are hostile ------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", TAMPERINGS)
def test_wrong_weights_are_refused_and_change_nothing(policy: Policy, how: str) -> None:
    before = policy.weight_bytes()
    words = {"extra": "other tensors", "missing": "other tensors", "type": "is F16", "shape": r"is F32 \[33\]"}
    with pytest.raises(NotFiniteError if how in ("nan", "infinite") else WeightsError, match=words.get(how, "weights")):
        policy.load_weights(tampered(policy.weights(), how))
    assert policy.weight_bytes() == before
    assert policy.untouched


# --- folders ---------------------------------------------------------------------------------------------------------


def test_a_saved_policy_loads_as_a_plain_model(policy: Policy, tmp_path: Path) -> None:
    changed(policy)
    save_policy(policy, tmp_path / "saved")
    again = Policy.load(tmp_path / "saved", policy.base)
    assert again.weight_bytes() == policy.weight_bytes()


def lacking(tensors: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    return {name: tensor for name, tensor in tensors.items() if name != "model.layers.1.mlp.up_proj.weight"}


BROKEN: dict[str, tuple[Any, str]] = {
    "a tensor is missing": (lacking, r"lack model\.layers\.1\.mlp\.up_proj\.weight\. Do config"),
    "a tensor too many": (lambda t: t | {"more.weight": torch.zeros(2)}, r"does not have: more\.weight\. Do config"),
    "a tensor of another shape": (lambda t: t | {"model.norm.weight": torch.zeros(2)}, "does not load as a model"),
    "prefixed names": (
        lambda t: {f"transformer.{name}": tensor for name, tensor in t.items()},
        r"lack lm_head\.weight, model\.embed_tokens\.weight, .* and \d+ more",
    ),
}


@pytest.mark.parametrize("change", BROKEN)
def test_a_base_that_is_not_whole_is_refused_by_name(tmp_path: Path, change: str) -> None:
    """And not filled up with random numbers, which differ from process to process."""
    make, words = BROKEN[change]
    file = tiny_folder(tmp_path) / "model.safetensors"
    save_file(make(load_file(file)), file, metadata={"format": "pt"})
    with pytest.raises(BaseLoadError, match=words):
        load_base(tmp_path, tiny_rule())


@pytest.mark.parametrize("layers", [1, 3])
def test_a_config_with_another_number_of_layers_is_refused(tmp_path: Path, layers: int) -> None:
    file = tiny_folder(tmp_path) / "config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"num_hidden_layers": layers}))
    with pytest.raises(BaseLoadError, match="is not one whole model"):
        load_base(tmp_path, tiny_rule())


def test_a_folder_without_a_model_is_refused_in_words(tmp_path: Path) -> None:
    with pytest.raises(BaseLoadError, match="does not load as a model"):
        Policy.load(tmp_path, tiny_rule())


def test_pickled_weights_are_not_loaded(tmp_path: Path) -> None:
    folder = tiny_folder(tmp_path)
    tensors = safetensors.torch.load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    torch.save(tensors, folder / "pytorch_model.bin")
    with pytest.raises(BaseLoadError, match="does not load as a model"):
        Policy.load(folder, tiny_rule())


def test_a_model_that_knows_too_few_tokens_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BaseLoadError, match=f"knows {VOCAB} tokens"):
        tiny_policy(tmp_path, vocab=VOCAB + 1)


@pytest.mark.parametrize("device", ["cuda:77", "gpu"])
def test_a_device_that_is_not_there_is_said_in_words(tmp_path: Path, device: str) -> None:
    with pytest.raises(BaseLoadError, match=f"does not go to '{device}'.*choose another device"):
        Policy.load(tiny_folder(tmp_path), tiny_rule(), device=device)


def test_a_model_that_changes_its_logits_is_refused(policy: Policy) -> None:
    """Some architectures cap or scale logits after the output layer; records would not be the model's."""
    check_head(policy.model)
    plain = policy.model.forward

    def capped(**arguments: object) -> object:
        output = plain(**arguments)
        output.logits = 5 * torch.tanh(output.logits / 5)
        return output

    policy.model.forward = capped
    with pytest.raises(SapoError, match="not supported"):
        check_head(policy.model)


def test_sampling_is_in_float32_without_dropout(policy: Policy) -> None:
    assert {parameter.dtype for parameter in policy.parameters()} == {torch.float32}
    assert not policy.model.training


# --- text ------------------------------------------------------------------------------------------------------------


def test_text_leaves_out_one_final_end_and_nothing_else(policy: Policy) -> None:
    ids = policy.tokenizer.prompt("<12>")
    assert policy.text([*ids, EOS_ID]) == policy.text(ids) == "<12>"
    assert policy.text([0, *ids]) == "<pad><12>"
    assert policy.text([EOS_ID]) == ""


def test_generated_text_is_the_decoded_tokens(policy: Policy) -> None:
    (tokens,) = TorchEngine(policy, MAX_NEW_TOKENS).generate([policy.tokenizer.prompt("B1+1=")], [[]], [bytes(32)])
    assert policy.tokenizer.decode(tokens).startswith(policy.text(tokens))


def chat_tokenizer(folder: Path) -> tuple[BaseTokenizer, Encoder]:
    """A byte-level tokenizer with a special token, as chat models have."""
    tokenizer = Tokenizer(
        models.BPE(vocab={c: i for i, c in enumerate(pre_tokenizers.ByteLevel.alphabet())}, merges=[])
    )
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken("<|im_end|>", special=True)])
    tokenizer.enable_padding(length=64)
    tokenizer.enable_truncation(8)
    tokenizer.save(str(folder / "tokenizer.json"))
    return BaseTokenizer(folder), Encoder(folder)


def test_special_tokens_are_recognised_in_templates_and_split_in_a_peers_text(tmp_path: Path) -> None:
    tokenizer, encoder = chat_tokenizer(tmp_path)
    special = 256
    assert tokenizer.prompt("hi<|im_end|>")[-1] == special
    assert len(tokenizer.prompt("hi<|im_end|>")) == 3
    external = encoder.external("hi<|im_end|>")
    assert external is not None
    assert special not in external
    assert len(external) == 12


def test_nothing_is_padded_cut_or_added(tmp_path: Path) -> None:
    tokenizer, encoder = chat_tokenizer(tmp_path)
    assert len(tokenizer.prompt("a" * 30)) == 30
    assert encoder.external("") == []


def test_what_cannot_be_spelled_is_not_learned_from(policy: Policy) -> None:
    """The pocket tokenizer has no ä and would leave it out silently."""
    assert policy.encoder.external("<1ä>") is None
    assert policy.encoder.external("<eos>") is not None
    assert EOS_ID not in (policy.encoder.external("<eos>") or [])
    with pytest.raises(SapoError, match="cannot spell"):
        policy.tokenizer.prompt("Sä=")
    with pytest.raises(SapoError, match="cannot spell"):
        policy.tokenizer.prompt("")


def test_a_base_without_a_tokenizer_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SapoError, match=r"no tokenizer\.json"):
        Encoder(tmp_path)
