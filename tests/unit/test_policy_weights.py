"""Weights that a stranger declares: fetched only for the policy check, bounded, and every fault told for what it is."""

import ast
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

import sapo_verifier
from policy_batches import Made, World, declared, made_by, world
from sapo_client.batches.auditing import Auditor
from sapo_client.batches.pins import PinBook
from sapo_client.pocket import EOS_ID
from sapo_client.policy.policy import Policy
from sapo_devnet.testkit.tiny_policy import TAMPERINGS, tampered
from sapo_verifier.audit import Cost, Found, fetch_batch
from sapo_verifier.checks import check_batch
from sapo_verifier.cid import BLOCK_LIMIT, block_digest
from sapo_verifier.ipfs import BlockTooLarge, BlockUnavailable, StoreFailed
from sapo_verifier.model import policy_check
from sapo_verifier.model.policy_check import PolicyModels
from sapo_verifier.model.weights import load_weights
from sapo_verifier.objects import Record
from sapo_verifier.schedule import KEEP_AFTER, SERVE_AFTER
from sapo_verifier.spots import Spots
from sapo_verifier.tasks import TaskWorker

pytestmark = pytest.mark.usefixtures("one_thread")

VERIFIER = Path(sapo_verifier.__file__).parent


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with TaskWorker() as worker:
        yield world(tmp_path_factory.mktemp("policy") / "base", worker)


@pytest.fixture(scope="module")
def models(shared: World) -> PolicyModels:
    return PolicyModels(shared.bases)


@pytest.fixture(scope="module")
def policy(shared: World) -> Policy:
    policy = shared.policy()
    with torch.no_grad():
        for parameter in policy.parameters():
            parameter.mul_(1.1)
    policy.untouched = False
    return policy


@pytest.fixture
def honest(shared: World, policy: Policy) -> Made:
    return made_by(shared, policy, slots=1)


def weight_blocks(made: Made) -> list[bytes]:
    return [digest for digest, _ in made.audit(None).weight_blocks()]


# --- faults of the weights -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", TAMPERINGS)
def test_weights_that_are_not_the_base_s_fail_and_those_not_finite_are_void(
    shared: World, policy: Policy, models: PolicyModels, how: str
) -> None:
    """And leave the model as it was for the next batch."""
    data = tampered(policy.weights(), how)
    says = declared(data) if data else declared(b"\0")
    outcome = made_by(shared, policy, slots=1, says=says).check(models)
    assert outcome.status == ("void" if how in ("nan", "infinite") else "fail"), outcome
    assert "weights" in outcome.reason
    assert made_by(shared, policy, slots=1).check(models).status == "pass"


def test_weights_not_finite_are_void_even_where_no_completion_meets_them(
    shared: World, policy: Policy, models: PolicyModels
) -> None:
    tensors = {name: tensor.clone() for name, tensor in policy.weights().items()}
    tensors["model.embed_tokens.weight"][EOS_ID] = float("nan")  # nothing follows an end
    says = declared(tampered(tensors, "not at all"))
    outcome = made_by(shared, policy, slots=1, says=says).check(models)
    assert outcome.status == "void"
    assert "holds NaN" in outcome.reason


def test_finite_weights_whose_logits_are_not_are_void(shared: World, policy: Policy, models: PolicyModels) -> None:
    tensors = {name: tensor.clone() for name, tensor in policy.weights().items()}
    tensors["model.norm.weight"].fill_(3e38)
    says = declared(tampered(tensors, "not at all"))
    outcome = made_by(shared, policy, slots=1, says=says).check(models)
    assert outcome.status == "void"
    assert "not finite" in outcome.reason


def test_equal_weights_of_two_rounds_are_loaded_once(
    shared: World, policy: Policy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their manifests differ in `audit`, and so do their digests."""
    loads: list[bytes] = []

    def counted(model: Any, data: bytes) -> None:
        loads.append(data)
        load_weights(model, data)

    monkeypatch.setattr(policy_check, "load_weights", counted)
    models, data = PolicyModels(shared.bases), policy.weight_bytes()
    for audit in (b"\1" * 32, b"\2" * 32):
        made = made_by(shared, policy, slots=1, says=declared(data, audit=audit))
        assert made.check(models).status == "pass"
    assert loads == [data]


def test_blocks_that_hold_less_than_the_manifest_says_fail(shared: World, policy: Policy, models: PolicyModels) -> None:
    says = declared(policy.weight_bytes(), size=len(policy.weight_bytes()) + 1)
    outcome = made_by(shared, policy, slots=1, says=says).check(models)
    assert outcome.status == "fail"
    assert "its manifest says" in outcome.reason


@pytest.mark.parametrize(
    ("found", "status", "words"),
    [
        (BlockUnavailable("nobody has it"), "void", "nobody has it"),
        (None, "void", "never fetched"),
        (BlockTooLarge("two mebibytes"), "void", "two mebibytes"),
        (bytes(BLOCK_LIMIT), "void", "more than"),
        (b"other", "void", "another digest"),
        (StoreFailed("the daemon does not answer"), "unknown", "daemon"),
    ],
)
def test_a_block_of_the_weights_that_is_not_at_hand(
    honest: Made, models: PolicyModels, found: Found | None, status: str, words: str
) -> None:
    (digest,) = weight_blocks(honest)
    del honest.blocks[digest]
    if found is not None:
        honest.blocks[digest] = found
    outcome = honest.check(models)
    assert (outcome.status, outcome.slot) == (status, None)
    assert words in outcome.reason
    assert "weights: block 0x" in outcome.reason


def test_more_than_the_spec_allows_is_never_looked_at(shared: World, policy: Policy, models: PolicyModels) -> None:
    most = shared.spec.bases[0].max_adapter_bytes
    chunks = [block_digest(bytes([i])) for i in range(most // BLOCK_LIMIT + 1)]
    made = made_by(shared, policy, slots=1, says=declared(b"", kind="full", size=most + 1, blocks=chunks))
    assert made.audit(models).weight_blocks() == []
    *_, last = check_batch(made.audit(models))
    assert (last.check, last.status) == ("binding", "fail")


# --- fetching --------------------------------------------------------------------------------------------------------


class Shelf:
    """A store that remembers what it was asked for."""

    def __init__(self, blocks: dict[bytes, Found]) -> None:
        self.blocks = blocks
        self.steps: list[list[tuple[bytes, int]]] = []

    def get_many(self, wants: Sequence[tuple[bytes, int]], peers: Sequence[str] = ()) -> dict[bytes, Found]:
        self.steps.append(list(wants))
        return {digest: self.blocks.get(digest, BlockUnavailable("nobody has it")) for digest, _ in wants}


def fetched(made: Made, *, weights: bool = True) -> tuple[Shelf, dict[bytes, Found]]:
    store = Shelf(made.blocks)
    return store, fetch_batch(store, made.world.spec, made.facts, [], weights=weights)


def test_weights_are_fetched_last_once_and_only_if_asked_for(honest: Made) -> None:
    (digest,) = weight_blocks(honest)
    size = honest.audit(None).policy.size
    store, blocks = fetched(honest)
    assert store.steps[3:] == [[(digest, size)]]
    assert blocks == honest.blocks
    store, blocks = fetched(honest, weights=False)
    assert len(store.steps) == 3
    assert digest not in blocks


def test_a_base_has_no_weights_to_fetch(shared: World) -> None:
    assert len(fetched(made_by(shared, shared.policy(), slots=1))[0].steps) == 3


@pytest.mark.parametrize("part", ["records", "group"])
def test_the_weights_of_a_batch_that_is_not_whole_are_not_fetched(honest: Made, part: str) -> None:
    audit = honest.audit(None)
    del honest.blocks[audit.groups[0].records if part == "records" else audit.manifest.groups[0]]
    assert len(fetched(honest)[0].steps) <= 3


def large(shared: World, policy: Policy) -> tuple[Made, list[bytes]]:
    """Four chunks, the first two of them equal."""
    data = bytes(2 * BLOCK_LIMIT) + b"\1" * BLOCK_LIMIT + b"\2" * 7
    made = made_by(shared, policy, slots=1, says=declared(data))
    return made, [block_digest(part) for part in (bytes(BLOCK_LIMIT), b"\1" * BLOCK_LIMIT, b"\2" * 7)]


def test_chunks_have_their_exact_limits_and_the_first_missing_one_ends_the_fetch(
    shared: World, policy: Policy, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, (zeros, ones, rest) = large(shared, policy)
    assert made.audit(None).weight_blocks() == [
        (zeros, BLOCK_LIMIT), (zeros, BLOCK_LIMIT), (ones, BLOCK_LIMIT), (rest, 7),
    ]  # fmt: skip
    monkeypatch.setattr("sapo_verifier.audit.WEIGHT_BLOCKS_AT_A_TIME", 1)
    assert [[d for d, _ in step] for step in fetched(made)[0].steps[3:]] == [[zeros], [ones], [rest]]
    del made.blocks[ones]
    assert [[d for d, _ in step] for step in fetched(made)[0].steps[3:]] == [[zeros], [ones]]


# --- a node's audit --------------------------------------------------------------------------------------------------


def auditor(made: Made, models: PolicyModels | None, pins: Path) -> tuple[Auditor, Shelf]:
    deployment = SimpleNamespace(
        chain_id=made.facts.chain_id, contracts=SimpleNamespace(rounds=made.facts.rounds), spec=made.world.spec
    )
    reader: Any = SimpleNamespace(beacon=lambda _: made.facts.beacon, deployment=deployment)
    store, book, worker = Shelf(made.blocks), PinBook(pins), made.world.worker
    bases = made.world.bases
    unused: Any = None
    return Auditor(reader, store, made.world.spec, worker, bases.tokenizer, models, book, "0x0", unused), store


def test_a_node_trains_on_what_passed_and_counts(
    honest: Made, policy: Policy, models: PolicyModels, tmp_path: Path
) -> None:
    audit, _ = auditor(honest, models, tmp_path / "pins")
    batch: Any = honest.facts
    seen, counts = audit.audit(batch, [], policy)
    assert len(seen.groups) == 1
    assert (counts.drawn, counts.fetched, counts.checked, counts.failed, counts.failures) == (1, 1, 1, 0, ())
    assert counts.weights_bytes == len(policy.weight_bytes())
    assert audit.cost().passes > 0
    assert counts.recomputed == honest.world.spec.group_size
    weights = set(weight_blocks(honest))
    assert honest.world.spec.pool_rounds < SERVE_AFTER
    judged = honest.facts.round + SERVE_AFTER
    assert audit.pins.expired(judged) == [], "also weights are served to who judges them last"
    assert set(audit.pins.expired(judged + 1)) == weights
    assert set(audit.pins.expired(honest.facts.round + KEEP_AFTER + 1)) == honest.blocks.keys()


def test_a_node_runs_the_policy_on_its_spots_answers_and_knows_p_theirs_there_only(
    honest: Made, policy: Policy, models: PolicyModels, tmp_path: Path
) -> None:
    audit, _ = auditor(honest, models, tmp_path / "pins")
    batch: Any = honest.facts
    spots = Spots.of(bytes(32), bytes(32), honest.facts.index, honest.world.spec.group_size, 1)
    seen, counts = audit.audit(batch, [], policy, None, spots)
    assert (counts.recomputed, counts.checked, seen.spots, len(seen.answers)) == (1, 1, spots, 1)
    known = [k for k, sample in enumerate(seen.groups[0].samples) if sample.sampling_logprobs is not None]
    assert known == list(spots.leaves)
    whole, _ = audit.audit(batch, [], policy)
    assert (whole.spots, whole.answers) == (None, ())


@pytest.mark.parametrize("fault", ["intervals", "no weights"])
def test_a_node_does_not_train_on_what_did_not_pass(
    honest: Made, policy: Policy, models: PolicyModels, tmp_path: Path, fault: str
) -> None:
    made = honest
    if fault == "intervals":
        made.records[0][0] = [Record(record.token, 0, 2**64 - 1) for record in made.records[0][0]]
        made = made.sealed()
    else:
        del made.blocks[weight_blocks(made)[0]]
    batch: Any = made.facts
    audit, _ = auditor(made, models, tmp_path / "pins")
    seen, counts = audit.audit(batch, [], policy)
    assert seen.groups == []
    assert (counts.checked, counts.failed) == (0, 1)
    (sentence,) = counts.failures
    assert ": policy " in sentence
    assert [digest for digest, _ in seen.missing] == ([weight_blocks(made)[0]] if fault == "no weights" else [])
    without, store = auditor(made, None, tmp_path / "other")
    seen, counts = without.audit(batch, [], policy)
    assert len(seen.groups) == 1
    assert len(store.steps) == 3
    assert counts.weights_bytes == counts.recomputed == 0
    assert without.cost() == Cost()


def test_a_policy_of_a_base_that_is_not_here_is_not_trained_on(
    honest: Made, policy: Policy, models: PolicyModels, tmp_path: Path
) -> None:
    changed = honest.world.spec.bases[0].model_copy(update={"digest": bytes(32)})
    spec = honest.world.spec.model_copy(update={"bases": [changed]})
    made = Made(replace(honest.world, spec=spec), honest.facts, honest.blocks)
    audit, _ = auditor(made, models, tmp_path / "pins")
    batch: Any = made.facts
    seen, counts = audit.audit(batch, [], policy)
    assert seen.groups == []
    assert "text unknown" in counts.failures[0]


# --- without torch ---------------------------------------------------------------------------------------------------


def python(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_a_missing_torch_is_told_with_what_to_install() -> None:
    said = python(
        "import sys; sys.modules['torch'] = None\n"
        "from sapo_verifier.bases import Bases; from sapo_verifier.model import policy_model\n"
        "model = policy_model(Bases([])); found = model(None).result\n"
        "print(model.runs, found.check, found.status, found.reason)"
    )
    assert said == "False policy unknown torch is not installed here: pip install 'sapo-network[model]'"


def test_only_the_model_package_imports_torch_and_none_of_it_is_imported_by_the_rest() -> None:
    heavy = {"torch", "transformers", "safetensors", "sapo_client"}
    for path in VERIFIER.rglob("*.py"):
        inside = path.parent.name == "model"
        for node in ast.walk(ast.parse(path.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            found = {name.split(".")[0] for name in names} & heavy
            assert found <= (heavy - {"sapo_client"} if inside else set()), path
    modules = "checks, audit, cli, networks, model, bases, intervals"
    assert python(f"import sys; from sapo_verifier import {modules}; print('torch' in sys.modules)") == "False"
