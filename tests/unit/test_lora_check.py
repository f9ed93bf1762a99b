"""The policy check of adapters: honest ones pass, hostile ones are their producer's fault, and nothing stays behind."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save

from policy_batches import Made, World, declared, first_place, made_by, world
from sapo_client.policy.lora import LoraOptions
from sapo_client.policy.policy import Policy, PolicyOptions
from sapo_verifier.checks import check_batch
from sapo_verifier.cid import BLOCK_LIMIT, block_digest
from sapo_verifier.errors import ObjectError
from sapo_verifier.intervals import REJECT_TOLERANCE
from sapo_verifier.model.policy_check import PolicyModels
from sapo_verifier.model.positions import policy_intervals
from sapo_verifier.objects import PolicyManifest
from sapo_verifier.spec import Spec
from sapo_verifier.tasks import TaskWorker

pytestmark = pytest.mark.usefixtures("one_thread")

RANK, ALPHA = 4, 8
TARGETS = ["down_proj", "gate_proj", "k_proj", "o_proj", "q_proj", "up_proj", "v_proj"]
LORA = {"rank": RANK, "alpha": ALPHA, "targets": TARGETS}
Tensors = dict[str, torch.Tensor]
A = "base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight"
B = "base_model.model.model.layers.0.self_attn.q_proj.lora_B.weight"


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """A base that takes adapters up to rank 4."""
    with TaskWorker() as worker:
        made = world(tmp_path_factory.mktemp("lora") / "base", worker)
        base = made.spec.bases[0].model_copy(update={"max_rank": RANK})
        spec = Spec.model_validate(made.spec.model_copy(update={"bases": [base]}).to_json())
        yield replace(made, spec=spec)


def adapted(shared: World, *, seed: int = 1, targets: tuple[str, ...] = (), rank: int = RANK) -> Policy:
    """A policy some way from its base."""
    options = PolicyOptions(LoraOptions(rank, targets=targets))
    policy = Policy.load(shared.folder, shared.spec.bases[0], options=options)
    generator = torch.Generator().manual_seed(seed)
    tensors = {name: 0.1 * torch.randn(t.shape, generator=generator) for name, t in policy.adapters.tensors().items()}  # type: ignore[union-attr]
    policy.load_weights(bytes(save(tensors)))
    return policy


@pytest.fixture(scope="module")
def policy(shared: World) -> Policy:
    return adapted(shared)


@pytest.fixture(scope="module")
def models(shared: World) -> PolicyModels:
    """One for all tests: what one batch leaves behind must not touch the next."""
    return PolicyModels(shared.bases)


def tensors_of(policy: Policy) -> Tensors:
    assert policy.adapters is not None
    return {name: tensor.clone() for name, tensor in policy.adapters.tensors().items()}


def says(data: bytes, **lora: object) -> tuple[bytes, dict[bytes, Any]]:
    return declared(data, kind="lora", lora={**LORA, **lora})


# --- honest work -----------------------------------------------------------------------------------------------------


def test_honest_adapters_pass_in_turn_with_the_base_and_with_full_weights(
    shared: World, policy: Policy, models: PolicyModels
) -> None:
    """One model holds them all, one after the other, with other targets and ranks too."""
    full = shared.policy()
    with torch.no_grad():
        for parameter in full.parameters():
            parameter.mul_(1.1)
    full.untouched = False
    few = adapted(shared, seed=2, targets=("v_proj",), rank=2)
    batches = [made_by(shared, each, slots=1) for each in (shared.policy(), policy, few, full)]
    for at in (0, 1, 2, 0, 1, 3, 0, 3, 1, 1, 2):
        outcome = batches[at].check(models)
        assert outcome.status == "pass", (at, outcome)


@pytest.mark.parametrize("batch_tokens", [1, 1 << 20])
def test_the_largest_difference_is_a_rounding(shared: World, policy: Policy, batch_tokens: int) -> None:
    outcome = made_by(shared, policy).check(PolicyModels(shared.bases, batch_tokens=batch_tokens))
    assert outcome.status == "pass"
    assert float(outcome.reason.rsplit(" ", 1)[1]) < 1e-5


# --- another policy than the declared one ----------------------------------------------------------------------------


@pytest.mark.parametrize("what", ["an older adapter", "another alpha", "the base", "without its last layer"])
def test_sampling_from_another_policy_fails_at_its_first_position(
    shared: World, policy: Policy, models: PolicyModels, what: str
) -> None:
    tensors = tensors_of(policy)
    declares = says(bytes(save(tensors)))
    sampler = policy
    match what:
        case "an older adapter":
            sampler = adapted(shared, seed=3)
        case "another alpha":
            declares = says(bytes(save(tensors)), alpha=4 * ALPHA)
        case "the base":
            sampler = shared.policy()
        case "without its last layer":
            for name in tensors:
                if "layers.1.mlp" in name:
                    tensors[name].zero_()
            declares = says(bytes(save(tensors)))
    made = made_by(shared, sampler, says=declares)
    outcome = made.check(models)
    assert outcome.status == "fail"
    held = models._held[shared.spec.bases[0].digest].model

    def own(prompt: Any, tokens: Any) -> list[tuple[int, int]]:
        return policy_intervals(held, prompt, tokens, shared.spec.bases[0].vocab)

    expected = first_place(made, own, REJECT_TOLERANCE)
    assert (outcome.slot, outcome.k, outcome.t) == expected


# --- files that are no adapter of this base --------------------------------------------------------------------------


def drop(tensors: Tensors) -> None:
    del tensors[A]


def extra(tensors: Tensors) -> None:
    tensors["base_model.model.lm_head.lora_A.weight"] = torch.zeros(RANK, 32)


def full_weight(tensors: Tensors) -> None:
    tensors["model.layers.0.self_attn.q_proj.weight"] = torch.zeros(32, 32)


def another_base(tensors: Tensors) -> None:
    for name in list(tensors):
        tensors[name.replace("layers.0", "layers.7")] = tensors.pop(name)


def without_prefix(tensors: Tensors) -> None:
    for name in list(tensors):
        tensors[name.removeprefix("base_model.model.")] = tensors.pop(name)


def transposed(tensors: Tensors) -> None:
    tensors[A] = tensors[A].T.contiguous()


def larger(tensors: Tensors) -> None:
    for name in list(tensors):
        shape = list(tensors[name].shape)
        shape[0 if "lora_A" in name else 1] += 1
        tensors[name] = torch.zeros(shape)


def one_number(tensors: Tensors) -> None:
    tensors[B] = torch.zeros(1)


def halves(tensors: Tensors) -> None:
    tensors[A] = tensors[A].half()


def doubles(tensors: Tensors) -> None:
    tensors[A] = tensors[A].double()


def magnitude(tensors: Tensors) -> None:
    tensors[A.replace("lora_A.weight", "lora_magnitude_vector")] = torch.ones(32)


@pytest.mark.parametrize(
    "spoil",
    [
        drop,
        extra,
        full_weight,
        another_base,
        without_prefix,
        transposed,
        larger,
        one_number,
        halves,
        doubles,
        magnitude,
    ],
)
def test_other_tensors_than_the_declared_ones_fail(
    shared: World, policy: Policy, models: PolicyModels, spoil: Callable[[Tensors], None]
) -> None:
    tensors = tensors_of(policy)
    spoil(tensors)
    outcome = made_by(shared, policy, slots=1, says=says(bytes(save(tensors)))).check(models)
    assert outcome.status == "fail", outcome
    assert outcome.slot is None
    assert made_by(shared, shared.policy(), slots=1).check(models).status == "pass"


@pytest.mark.parametrize("spoil", ["cut", "trailing", "pickle", "huge header"])
def test_bytes_that_are_no_safetensors_file_fail(
    shared: World, policy: Policy, models: PolicyModels, spoil: str
) -> None:
    data = policy.weight_bytes()
    bad = {
        "cut": data[:-4],
        "trailing": data + bytes(4),
        "pickle": b"\x80\x04" + data,
        "huge header": b"\xff" * 8 + data,
    }
    outcome = made_by(shared, policy, slots=1, says=says(bad[spoil])).check(models)
    assert outcome.status == "fail", outcome


@pytest.mark.parametrize(
    "lora",
    [
        {"rank": 3},
        {"rank": 1},
        {"targets": TARGETS[:-1]},
        {"targets": ["q_proj"]},
        {"targets": [*TARGETS, "x_proj"]},
        {"targets": TARGETS[::-1]},
        {"targets": [*TARGETS, "v_proj"]},
        {"targets": ["lm_head"]},
        {"targets": ["embed_tokens"]},
        {"targets": ["self_attn"]},
        {"targets": ["norm"]},
        {"targets": [""]},
        {"targets": [".*"]},
        {"targets": ["model.layers.0.self_attn.q_proj"]},
        {"targets": ["q_proj\u0000"] * 32},
    ],
)
def test_a_manifest_that_describes_another_adapter_fails(
    shared: World, policy: Policy, models: PolicyModels, lora: dict[str, Any]
) -> None:
    outcome = made_by(shared, policy, slots=1, says=says(policy.weight_bytes(), **lora)).check(models)
    assert outcome.status == "fail", outcome
    assert made_by(shared, policy, slots=1).check(models).status == "pass"


@pytest.mark.parametrize("where", [A, B])
@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_numbers_that_are_not_finite_are_void(
    shared: World, policy: Policy, models: PolicyModels, where: str, value: float
) -> None:
    tensors = tensors_of(policy)
    tensors[where][1, 2] = value
    outcome = made_by(shared, policy, slots=1, says=says(bytes(save(tensors)))).check(models)
    assert outcome.status == "void", outcome
    assert made_by(shared, policy, slots=1).check(models).status == "pass"


@pytest.mark.parametrize("how", ["alpha", "values"])
def test_finite_adapters_whose_weights_are_not_are_void(
    shared: World, policy: Policy, models: PolicyModels, how: str
) -> None:
    """Also where only the last layer overflows: the base must be whole again afterwards."""
    tensors = tensors_of(policy)
    last = [name for name in tensors if "layers.1.mlp.down_proj" in name]
    for name in last:
        tensors[name].fill_(1e15 if how == "alpha" else 3e38)
    declares = says(bytes(save(tensors)), alpha=2**53 - 1) if how == "alpha" else says(bytes(save(tensors)))
    outcome = made_by(shared, policy, slots=1, says=declares).check(models)
    assert outcome.status == "void", outcome
    assert "NaN or infinite" in outcome.reason
    for honest in (shared.policy(), policy):
        assert made_by(shared, honest, slots=1).check(models).status == "pass"


@pytest.mark.parametrize("alpha", [0, -1, 2**53, 1.5, "16", None, True])
def test_an_alpha_that_is_no_count_is_no_manifest(alpha: object) -> None:
    digest = "0x" + "00" * 32
    fields = {"v": 2, "audit": digest, "base": "pocket", "kind": "lora", "size": 1, "blocks": [digest]}
    PolicyManifest.model_validate(fields | {"lora": LORA})
    with pytest.raises((ValueError, ObjectError)):
        PolicyManifest.model_validate(fields | {"lora": {**LORA, "alpha": alpha}})


# --- bounds ----------------------------------------------------------------------------------------------------------


def test_a_rank_beyond_the_base_s_fails_before_a_byte_of_it_is_wanted(
    shared: World, policy: Policy, models: PolicyModels
) -> None:
    made = made_by(shared, policy, slots=1, says=says(policy.weight_bytes(), rank=RANK + 1))
    assert made.audit(models).weight_blocks() == []
    *_, last = check_batch(made.audit(models))
    assert (last.check, last.status) == ("binding", "fail")
    assert "rank is 5" in last.reason


def test_a_size_beyond_the_base_s_fails_before_a_byte_of_it_is_wanted(
    shared: World, policy: Policy, models: PolicyModels
) -> None:
    most = shared.spec.bases[0].max_adapter_bytes
    chunks = [block_digest(bytes([i])) for i in range(most // BLOCK_LIMIT + 1)]
    made = made_by(shared, policy, slots=1, says=declared(b"", kind="lora", lora=LORA, size=most + 1, blocks=chunks))
    assert made.audit(models).weight_blocks() == []
    *_, last = check_batch(made.audit(models))
    assert (last.check, last.status) == ("binding", "fail")


def test_adapters_are_fetched_like_weights(shared: World, policy: Policy) -> None:
    made: Made = made_by(shared, policy, slots=1)
    (wanted,) = made.audit(None).weight_blocks()
    assert wanted == (block_digest(policy.weight_bytes()), len(policy.weight_bytes()))
    del made.blocks[wanted[0]]
    outcome = made.check(PolicyModels(shared.bases))
    assert (outcome.status, "never fetched" in outcome.reason) == ("void", True)


def test_bases_in_bfloat16_come_back_bit_for_bit_from_half_the_memory(tmp_path: Path) -> None:
    from sapo_verifier.model.lora import Originals

    exact, odd = torch.nn.Linear(8, 8), torch.nn.Linear(8, 8)
    with torch.no_grad():
        exact.weight.copy_(exact.weight.bfloat16())
    before = [layer.weight.clone() for layer in (exact, odd)]
    kept, layers = Originals(), {"exact": exact, "odd": odd}
    kept.keep(layers)
    with torch.no_grad():
        exact.weight.fill_(1)
        odd.weight.fill_(2)
    kept.keep(layers)  # once is for ever
    kept.restore(layers)
    assert all(torch.equal(layer.weight, was) for layer, was in zip((exact, odd), before, strict=True))
    assert {name: tensor.dtype for name, tensor in kept._kept.items()} == {
        "exact": torch.bfloat16,
        "odd": torch.float32,
    }
