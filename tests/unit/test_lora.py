"""Adapters in training: what is published, what is taken back, and that sampling and learning see one policy."""

import json
from pathlib import Path

import pytest
import safetensors.torch
import torch

from sapo_client.batches.committed import committed_weights
from sapo_client.policy.checkpoint import latest_checkpoint, save_checkpoint
from sapo_client.policy.log_probs import token_log_probs
from sapo_client.policy.lora import LoraOptions
from sapo_client.policy.memory import MemoryOptions
from sapo_client.policy.policy import Policy, PolicyError, PolicyOptions, save_policy
from sapo_client.training.groups import Group, Sample
from sapo_client.training.sapo import TrainConfig, make_optimizer, train_step
from sapo_devnet.testkit.tiny_policy import tiny_folder, tiny_rule
from sapo_verifier.errors import SapoError
from sapo_verifier.model.base import load_base
from sapo_verifier.model.forward import Passage
from sapo_verifier.model.lora import adapted_layers, merge, read_adapter, target_names
from sapo_verifier.model.sampling import NotFiniteError
from sapo_verifier.model.weights import WeightsError, tensors_of
from sapo_verifier.objects import NO_AUDIT, PolicyManifest

pytestmark = pytest.mark.usefixtures("one_thread")

RANK = 4
ALL = ["down_proj", "gate_proj", "k_proj", "o_proj", "q_proj", "up_proj", "v_proj"]
PASSAGES = [Passage([4, 5, 6], [7, 8, 9, 1]), Passage([10, 11], [12, 1])]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_folder(tmp_path_factory.mktemp("base") / "tiny")


def lora_policy(
    folder: Path, *, rank: int = RANK, targets: tuple[str, ...] = (), memory: MemoryOptions | None = None, seed: int = 0
) -> Policy:
    options = PolicyOptions(LoraOptions(rank, targets=targets), memory or MemoryOptions(), seed)
    return Policy.load(folder, tiny_rule(max_rank=8), options=options)


def groups() -> list[Group]:
    samples = [Sample(p.prompt, p.completion, None, reward) for p, reward in zip(PASSAGES, (1.0, 0.0), strict=True)]
    return [Group(samples, 1, None, 0, "0x0", external=False)]


def learn(policy: Policy, steps: int = 3, rate: float = 0.03) -> Policy:
    config = TrainConfig(learning_rate=rate)
    optimizer = make_optimizer(policy, config)
    for _ in range(steps):
        train_step(policy, optimizer, groups(), config)
    return policy


@pytest.fixture(scope="module")
def trained(folder: Path) -> Policy:
    return learn(lora_policy(folder))


def base_weights(folder: Path) -> dict[str, torch.Tensor]:
    return tensors_of(load_base(folder, tiny_rule()))


def same(left: dict[str, torch.Tensor], right: dict[str, torch.Tensor]) -> bool:
    return left.keys() == right.keys() and all(torch.equal(left[name], right[name]) for name in left)


# --- one policy, however it is looked at -----------------------------------------------------------------------------


def test_adapters_start_as_the_base_bit_for_bit(folder: Path) -> None:
    policy = lora_policy(folder)
    assert same(policy.weights(), base_weights(folder))
    assert PolicyManifest.parse(policy.publish().manifest).kind == "base"
    assert policy.adapters is not None
    assert policy.adapters.lora.targets == ALL == target_names(policy.model)


def test_only_the_adapters_learn(folder: Path, trained: Policy) -> None:
    layers = adapted_layers(trained.model, ALL)
    inputs = sum(layer.in_features + layer.out_features for layer in layers.values())
    assert sum(parameter.numel() for parameter in trained.parameters()) == RANK * inputs
    before, after = base_weights(folder), trained.weights()
    changed = {name for name in before if not torch.equal(before[name], after[name])}
    assert changed == {f"{name}.weight" for name in layers}


@pytest.mark.parametrize("targets", [("q_proj", "v_proj"), ("down_proj",)])
def test_fewer_targets_change_fewer_layers(folder: Path, targets: tuple[str, ...]) -> None:
    policy = learn(lora_policy(folder, targets=targets), steps=1)
    before, after = base_weights(folder), policy.weights()
    changed = {name.split(".")[-2] for name in before if not torch.equal(before[name], after[name])}
    assert changed == set(targets)
    lora = PolicyManifest.parse(policy.publish().manifest).lora
    assert lora is not None
    assert (lora.rank, lora.alpha, lora.targets) == (RANK, 2 * RANK, sorted(targets))


def test_what_learns_and_what_samples_agree(trained: Policy) -> None:
    with torch.no_grad():
        learning = trained.log_probs(PASSAGES)
        sampling = token_log_probs(trained.model, PASSAGES, trained.base.vocab)
    assert torch.allclose(learning, sampling, atol=1e-5)


def test_the_base_comes_back_bit_for_bit_after_many_updates(folder: Path) -> None:
    """Subtracting what was added would leave rounding behind, a little more each round."""
    policy = lora_policy(folder)
    for _ in range(10):
        learn(policy, steps=1, rate=0.1)
        assert not same(policy.weights(), base_weights(folder))
    policy.load_base()
    assert same(policy.weights(), base_weights(folder))
    assert PolicyManifest.parse(policy.publish().manifest).kind == "base"


def test_equal_seeds_start_equal_adapters_and_torch_s_random_state_stays(folder: Path) -> None:
    torch.manual_seed(5)
    before = torch.get_rng_state()
    first, again, other = (lora_policy(folder, seed=seed).weight_bytes() for seed in (1, 1, 2))
    assert torch.equal(torch.get_rng_state(), before)
    assert first == again != other


# --- what is published is what anybody gets --------------------------------------------------------------------------


def test_what_one_publishes_another_becomes(folder: Path, trained: Policy) -> None:
    other = lora_policy(folder, seed=9)
    other.load_weights(b"".join(trained.publish().blocks))
    assert other.publish() == trained.publish()
    assert same(other.weights(), trained.weights())


def test_the_verifier_s_merge_is_the_producer_s_bit_for_bit(folder: Path, trained: Policy) -> None:
    published = trained.publish()
    lora = PolicyManifest.parse(published.manifest).lora
    assert lora is not None
    model = load_base(folder, tiny_rule())
    layers = adapted_layers(model, lora.targets)
    merge(layers, read_adapter(b"".join(published.blocks), layers, lora.rank), lora.alpha / lora.rank)
    assert same(tensors_of(model), trained.weights())


def test_peft_reads_the_file_and_merges_to_the_same_bits(folder: Path, trained: Policy) -> None:
    from peft import LoraConfig, get_peft_model, set_peft_model_state_dict

    lora = PolicyManifest.parse(trained.publish().manifest).lora
    assert lora is not None
    config = LoraConfig(r=lora.rank, lora_alpha=lora.alpha, target_modules=lora.targets)
    model = get_peft_model(load_base(folder, tiny_rule()), config)
    found = set_peft_model_state_dict(model, safetensors.torch.load(trained.weight_bytes()))
    assert not found.unexpected_keys
    assert same(tensors_of(model.merge_and_unload()), trained.weights())


def test_a_saved_policy_is_a_plain_model_with_the_adapters_in_it(trained: Policy, tmp_path: Path) -> None:
    save_policy(trained, tmp_path / "saved")
    assert same(tensors_of(load_base(tmp_path / "saved", tiny_rule())), trained.weights())


def test_adapters_beyond_the_spec_are_refused_in_words(folder: Path) -> None:
    with pytest.raises(PolicyError, match="lora_rank is 9; the spec allows 8"):
        lora_policy(folder, rank=9)
    with pytest.raises(PolicyError, match="train all weights"):
        Policy.load(folder, tiny_rule(), options=PolicyOptions(LoraOptions(1)))
    with pytest.raises(SapoError, match=r"lora_targets: .*'lm_head'.*choose from down_proj"):
        lora_policy(folder, targets=("lm_head",))
    small = Policy.load(folder, tiny_rule(max_rank=8, max_adapter_bytes=1000), options=PolicyOptions(LoraOptions(4)))
    with pytest.raises(PolicyError, match="Reduce lora_rank"):
        learn(small, steps=1).publish()


def test_another_policy_s_file_is_refused_and_changes_nothing(folder: Path, trained: Policy) -> None:
    before = trained.weights()
    before = {name: tensor.clone() for name, tensor in before.items()}
    for other in (
        lora_policy(folder, rank=2),
        lora_policy(folder, targets=("q_proj",)),
        Policy.load(folder, tiny_rule()),
    ):
        with pytest.raises(WeightsError):
            trained.load_weights(other.weight_bytes())
    tensors = {name: tensor.clone() for name, tensor in safetensors.torch.load(trained.weight_bytes()).items()}
    for value in (float("nan"), 3e38):  # the second one overflows when it is merged
        for name in [name for name in tensors if "layers.0.mlp.up_proj" in name]:
            tensors[name].fill_(value)
        with pytest.raises(NotFiniteError):
            trained.load_weights(bytes(safetensors.torch.save(tensors)))
    assert same(trained.weights(), before)


def test_adapters_that_diverged_are_an_error_each_time_and_not_half_a_model(folder: Path) -> None:
    policy = lora_policy(folder)
    saved = learn(policy, steps=1).weight_bytes()
    policy.log_probs(PASSAGES)
    with torch.no_grad():
        policy.parameters()[-1].fill_(float("inf"))
    for _ in range(2):
        with pytest.raises(NotFiniteError, match="NaN or infinite"):
            policy.weights()
    policy.load_weights(saved)
    assert policy.weight_bytes() == saved
    policy.load_base()
    assert same(policy.weights(), base_weights(folder))


# --- checkpoints -----------------------------------------------------------------------------------------------------


def test_a_checkpoint_holds_adapters_and_goes_on_as_if_nothing_had_happened(folder: Path, tmp_path: Path) -> None:
    config = TrainConfig(learning_rate=0.03)
    policy = lora_policy(folder)
    optimizer = make_optimizer(policy, config)
    train_step(policy, optimizer, groups(), config)
    saved = save_checkpoint(tmp_path, policy, optimizer, round_=1, state={})
    assert (saved / "weights.safetensors").stat().st_size == len(policy.weight_bytes())
    kept = safetensors.torch.load_file(saved / "weights.safetensors")
    assert all("lora_" in name for name in kept)
    train_step(policy, optimizer, groups(), config)

    again = lora_policy(folder, seed=3)
    resumed = make_optimizer(again, config)
    checkpoint = latest_checkpoint(tmp_path, print)
    assert checkpoint is not None
    checkpoint.restore(again, resumed)
    assert not again.untouched
    train_step(again, resumed, groups(), config)
    assert again.weight_bytes() == policy.weight_bytes()
    assert same(again.weights(), policy.weights())


def test_older_weights_come_back_for_a_round_that_is_asked_for_again(folder: Path, tmp_path: Path) -> None:
    """A reorganization asks for what the base, or an older checkpoint, was committed for."""
    policy = lora_policy(folder)
    base = policy.publish()
    learn(policy)
    latest, merged = policy.publish(), {name: tensor.clone() for name, tensor in policy.weights().items()}
    with committed_weights(policy, latest, base.digest, [NO_AUDIT], tmp_path) as published:
        assert published == base
        assert same(policy.weights(), base_weights(folder))
    assert policy.publish() == latest
    assert same(policy.weights(), merged)


def test_peft_loads_a_checkpoint_as_it_is(folder: Path, tmp_path: Path) -> None:
    """Over the base that it names, or another copy of it, and to the same logits."""
    from peft import AutoPeftModelForCausalLM, PeftModel

    policy = learn(lora_policy(folder, targets=("q_proj", "down_proj")))
    saved = save_checkpoint(tmp_path, policy, make_optimizer(policy, TrainConfig()), round_=1, state={})
    described = json.loads((saved / "adapter_config.json").read_text())
    assert described["base_model_name_or_path"] == str(folder)
    assert (described["peft_type"], described["task_type"]) == ("LORA", "CAUSAL_LM")
    assert (described["r"], described["lora_alpha"]) == (RANK, 2 * RANK)
    assert described["target_modules"] == ["down_proj", "q_proj"]
    ids = torch.tensor([[4, 5, 6, 7, 8]])
    for model in (PeftModel.from_pretrained(load_base(folder, tiny_rule()), saved),
                  AutoPeftModelForCausalLM.from_pretrained(saved).eval()):  # fmt: skip
        with torch.no_grad():
            found, own, base = (m(ids).logits for m in (model, policy.model, load_base(folder, tiny_rule())))
        assert torch.allclose(found, own, atol=1e-5)
        assert not torch.allclose(found, base, atol=1e-2)


def test_a_target_that_names_other_layers_too_is_spelled_out_for_peft(folder: Path) -> None:
    policy = lora_policy(folder, targets=("q_proj",))
    assert policy.adapters is not None
    policy.model.get_decoder().q_proj = torch.nn.Embedding(2, 2)
    named = json.loads(policy.adapters.peft_config(folder))["target_modules"]
    assert named == ["model.layers.0.self_attn.q_proj", "model.layers.1.self_attn.q_proj"]


def test_a_checkpoint_of_adapters_without_the_files_for_peft_is_resumed(folder: Path, tmp_path: Path) -> None:
    """As those of older versions are; one of all weights never has them."""
    policy = learn(lora_policy(folder))
    optimizer = make_optimizer(policy, TrainConfig())
    saved = save_checkpoint(tmp_path / "a", policy, optimizer, round_=1, state={})
    assert (saved / "adapter_model.safetensors").readlink() == Path("weights.safetensors")
    for name in ("adapter_config.json", "adapter_model.safetensors"):
        (saved / name).unlink()
    found = latest_checkpoint(tmp_path / "a", pytest.fail)
    assert found is not None
    again = lora_policy(folder, seed=3)
    found.restore(again, make_optimizer(again, TrainConfig()))
    assert again.weight_bytes() == policy.weight_bytes()
    full = Policy.load(folder, tiny_rule())
    saved = save_checkpoint(tmp_path / "b", full, make_optimizer(full, TrainConfig()), round_=1, state={})
    assert len(list(saved.iterdir())) == 4


def test_the_folder_of_a_checkpoint_is_no_base(folder: Path, tmp_path: Path) -> None:
    policy = lora_policy(folder)
    saved = save_checkpoint(tmp_path, policy, make_optimizer(policy, TrainConfig()), round_=1, state={})
    with pytest.raises(SapoError, match=r"holds an adapter .* give the folder of its base"):
        Policy.load(saved, tiny_rule())


# --- memory ----------------------------------------------------------------------------------------------------------


def gradients(policy: Policy) -> list[torch.Tensor]:
    for parameter in policy.parameters():
        parameter.grad = None
    policy.log_probs(PASSAGES).sum().backward()  # type: ignore[no-untyped-call]
    return [parameter.grad for parameter in policy.parameters() if parameter.grad is not None]


@pytest.mark.parametrize("lora", [True, False])
def test_checkpointed_layers_give_the_same_gradients(folder: Path, lora: bool) -> None:
    options = [
        PolicyOptions(LoraOptions(RANK) if lora else None, MemoryOptions(checkpointing=on)) for on in (False, True)
    ]
    plain, frugal = (Policy.load(folder, tiny_rule(max_rank=8), options=each) for each in options)
    runs = []
    for layer in frugal.model.get_decoder().layers:
        layer.mlp.register_forward_pre_hook(lambda *_: runs.append(1))
    found = gradients(frugal)
    assert len(runs) == 2 * len(frugal.model.get_decoder().layers), "each layer runs again in the backward pass"
    for mine, theirs in zip(found, gradients(plain), strict=True):
        assert torch.allclose(mine, theirs, atol=1e-6)
    assert not any(module.training for module in frugal.model.modules())


def test_bfloat16_passes_are_near_and_leave_float32_weights_and_records(folder: Path) -> None:
    half = lora_policy(folder, memory=MemoryOptions("bfloat16", checkpointing=True))
    plain = lora_policy(folder)
    with torch.no_grad():
        near, exact = half.log_probs(PASSAGES), plain.log_probs(PASSAGES)
    assert near.dtype == torch.float32
    assert 0 < float((near - exact).abs().max()) < 0.1
    learn(half, steps=1)
    assert {tensor.dtype for tensor in half.weights().values()} == {torch.float32}
    assert {parameter.dtype for parameter in half.parameters()} == {torch.float32}
