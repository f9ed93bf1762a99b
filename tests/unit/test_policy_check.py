"""The check that needs the model: honest batches pass, and whoever claims other intervals than the declared policy's is
found, at the position."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from policy_batches import Made, World, declared, first_place, made_by, spec_of, world
from sapo_client.batches.auditing import usable
from sapo_client.pocket import EOS_ID, VOCAB
from sapo_client.policy.policy import Policy
from sapo_devnet.testkit.tiny_policy import tiny_folder
from sapo_verifier.audit import CheckResult
from sapo_verifier.bases import Bases
from sapo_verifier.checks import check_batch
from sapo_verifier.intervals import FULL, REJECT_TOLERANCE, VOID_TOLERANCE, WIDEN_TOLERANCE
from sapo_verifier.model.claims import Claimed, compare
from sapo_verifier.model.forward import Passage
from sapo_verifier.model.policy_check import PolicyModels
from sapo_verifier.model.positions import Position, policy_intervals
from sapo_verifier.objects import Record
from sapo_verifier.tasks import TaskWorker, compact_answer, deal

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with TaskWorker() as worker:
        yield world(tmp_path_factory.mktemp("policy") / "base", worker)


@pytest.fixture(scope="module")
def models(shared: World) -> PolicyModels:
    """One for all tests, as a node has one for all batches: what one leaves behind must not touch the next."""
    return PolicyModels(shared.bases)


def moved(policy: Policy, by: float = 0.3, seed: int = 1) -> Policy:
    """Another checkpoint."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in policy.parameters():
            parameter.add_(by * parameter.std().nan_to_num() * torch.randn(parameter.shape, generator=generator))
    policy.untouched = False
    return policy


@pytest.fixture(scope="module")
def policy(shared: World) -> Policy:
    return moved(shared.policy())


@pytest.fixture
def honest(shared: World, policy: Policy) -> Made:
    return made_by(shared, policy)


def says(policy: Policy) -> tuple[bytes, dict[bytes, object]]:
    return declared(policy.weight_bytes())  # type: ignore[return-value]


def place(outcome: CheckResult) -> tuple[int | None, int | None, int | None]:
    return outcome.slot, outcome.k, outcome.t


def assert_not_used(made: Made, models: PolicyModels) -> None:
    assert not usable(check_batch(made.audit(models)), policy_check=True)


# --- honest work passes ----------------------------------------------------------------------------------------------


def test_an_honest_batch_passes_with_its_weights_and_as_the_base(
    shared: World, models: PolicyModels, honest: Made
) -> None:
    """In turn: a model that held weights must be the base again when a batch says so."""
    base = made_by(shared, shared.policy())
    for made in (base, honest, base, honest):
        outcome = made.check(models)
        assert outcome.status == "pass", outcome
        assert outcome.reason.startswith(f"{sum(len(r) for slot in made.records for r in slot)} positions")
    assert usable(check_batch(honest.audit(models)), policy_check=True)
    assert models.seconds > 0


@pytest.mark.parametrize("batch_tokens", [1, 100, 1 << 20])
def test_another_composition_of_passes_finds_the_same(honest: Made, batch_tokens: int) -> None:
    """Records come from passes over many completions; a verifier may take one at a time, or all."""
    assert honest.check(PolicyModels(honest.world.bases, batch_tokens=batch_tokens)).status == "pass"


def test_ten_thousand_honest_positions_with_one_thread_and_with_two(tmp_path: Path, shared: World) -> None:
    """Made with one number of threads, verified with the other, alone and together."""
    large = world(tmp_path / "base", shared.worker, group_size=16, max_new_tokens=60)
    count = 0
    for threads, other in ((1, 2), (2, 1)):
        torch.set_num_threads(threads)
        made = made_by(large, moved(large.policy(), seed=threads), slots=16, seed=threads)
        torch.set_num_threads(other)
        outcome = made.check(PolicyModels(large.bases, batch_tokens=64 if threads == 1 else 4096))
        assert outcome.status == "pass", outcome
        count += sum(len(records) for slot in made.records for records in slot)
    torch.set_num_threads(1)
    assert count >= 10_000


def test_an_interval_that_was_widened_to_hold_its_u_passes(models: PolicyModels, honest: Made) -> None:
    widened = 0
    for slot in honest.records:
        for records in slot:
            token, lo, last = records[0]
            records[0] = Record(token, max(0, lo - WIDEN_TOLERANCE), min(FULL - 1, last + WIDEN_TOLERANCE))
            widened += records[0] != (token, lo, last)
    assert widened
    assert honest.sealed().check(models).status == "pass"


# --- liars are found -------------------------------------------------------------------------------------------------


def test_a_policy_that_was_not_declared(shared: World, models: PolicyModels, policy: Policy) -> None:
    made = made_by(shared, moved(shared.policy(), by=1.0, seed=9), says=says(policy))
    outcome = made.check(models)
    assert outcome.status == "fail"
    own = first_place(made, lambda prompt, ids: policy_intervals(policy.model, prompt, ids, VOCAB), REJECT_TOLERANCE)
    assert place(outcome) == own
    assert_not_used(made, models)


def test_a_stale_checkpoint(shared: World, models: PolicyModels, policy: Policy) -> None:
    """Sampled before a step of training, declared after it."""
    after = moved(shared.policy())
    moved(after, by=0.05, seed=2)
    made = made_by(shared, policy, says=says(after))
    outcome = made.check(models)
    assert outcome.status == "fail"
    own = first_place(made, lambda prompt, ids: policy_intervals(after.model, prompt, ids, VOCAB), REJECT_TOLERANCE)
    assert place(outcome) == own


def test_pasted_text_with_intervals_that_hold_everything(models: PolicyModels, honest: Made) -> None:
    tokens = [*honest.world.bases.tokenizer(honest.world.spec.bases[0]).prompt("<17>"), EOS_ID]
    honest.records[1][2] = [Record(token, 0, FULL - 1) for token in tokens]
    made = honest.sealed()
    outcome = made.check(models)
    assert (outcome.status, place(outcome)) == ("fail", (1, 2, 0))
    assert outcome.evidence["claimed"] == "0x0000000000000000 … 0xffffffffffffffff"
    assert set(outcome.evidence) == {"token", "claimed", "recomputed", "worst", "beyond"}
    assert_not_used(made, models)


def test_one_position_alone_is_the_same_as_in_the_whole_pass(
    models: PolicyModels, honest: Made, policy: Policy
) -> None:
    made = honest.sealed()
    base = made.world.spec.bases[0]
    prompt = made.world.bases.tokenizer(base).prompt(made.audit(models).groups[1].prompt, base.template)
    tokens = [record.token for record in made.records[1][2]]
    own = policy_intervals(policy.model, prompt, tokens, VOCAB)
    for t in range(len(tokens)):
        found, why_not = models.interval(made.audit(models), 1, 2, t)
        assert (found is not None, why_not) == (True, "")
        assert max(abs(a - b) for a, b in zip(found, own[t], strict=True)) <= VOID_TOLERANCE


def test_one_forced_token_in_the_middle(models: PolicyModels, honest: Made, policy: Policy) -> None:
    """Everything after it is honestly sampled, and every interval holds its u."""
    slot, k = 1, 0
    t, limit = 2, honest.world.spec.max_new_tokens
    tokenizer = honest.world.bases.tokenizer(honest.world.spec.bases[0])
    prompt = tokenizer.prompt(honest.groups[slot].prompt)
    us = honest.us(slot, k, limit)
    ids = [record.token for record in honest.records[slot][k]]
    assert len(ids) > t

    def far(token: int) -> int:
        ((lo, last),) = policy_intervals(policy.model, [*prompt, *ids[:t]], [token], VOCAB)
        return max(lo - us[t], us[t] - last)

    forced = max((token for token in range(2, VOCAB) if token != ids[t]), key=far)
    ids[t:] = [forced]
    while ids[-1] != EOS_ID and len(ids) < limit:
        (x,) = [
            token
            for token, (lo, last) in (
                (token, policy_intervals(policy.model, [*prompt, *ids], [token], VOCAB)[0]) for token in range(VOCAB)
            )
            if lo <= us[len(ids)] <= last
        ]
        ids.append(x)
    intervals = policy_intervals(policy.model, prompt, ids, VOCAB)
    records = [Record(token, lo, last) for token, (lo, last) in zip(ids, intervals, strict=True)]
    width = records[t].last - records[t].lo
    lo = min(max(0, us[t] - width // 2), FULL - 1 - width)
    records[t] = Record(forced, lo, lo + width)
    honest.records[slot][k] = records
    made = honest.sealed()
    outcome = made.check(models)
    assert (outcome.status, place(outcome)) == ("fail", (slot, k, t))
    assert outcome.evidence["token"] == str(forced)
    assert_not_used(made, models)


def test_a_whole_answer_that_a_solver_wrote(models: PolicyModels, honest: Made, policy: Policy) -> None:
    """With intervals as wide as the policy's own, moved to where u is; it claims its reward."""
    slot, k = 0, 3
    made_world = honest.world
    tokenizer = made_world.bases.tokenizer(made_world.spec.bases[0])
    task = deal(made_world.spec, honest.facts.beacon, honest.facts.node, slot, made_world.worker)
    ids = [*tokenizer.prompt(f"<{compact_answer(task)}>"), EOS_ID]
    own = policy_intervals(policy.model, tokenizer.prompt(honest.groups[slot].prompt), ids, VOCAB)
    records = []
    for token, u, (lo, last) in zip(ids, honest.us(slot, k, len(ids)), own, strict=True):
        width = last - lo
        start = min(max(0, u - width // 2), FULL - 1 - width)
        records.append(Record(token, start, start + width))
    honest.records[slot][k] = records
    made = honest.sealed()
    assert made.facts.claim >> (slot * made_world.spec.group_size + k) & 1
    outcome = made.check(models)
    assert outcome.status == "fail"
    assert place(outcome) == first_place(
        made, lambda prompt, tokens: policy_intervals(policy.model, prompt, tokens, VOCAB), REJECT_TOLERANCE
    )
    assert (outcome.slot, outcome.k) == (slot, k)
    assert_not_used(made, models)


@pytest.mark.parametrize("side", ["lo", "last"])
@pytest.mark.parametrize(
    ("by", "status"),
    [
        (VOID_TOLERANCE * 9 // 10, "pass"),
        (VOID_TOLERANCE * 11 // 10, "void"),
        (REJECT_TOLERANCE * 99 // 100, "void"),
        (REJECT_TOLERANCE * 101 // 100, "fail"),
    ],
)
def test_an_interval_that_is_shifted(models: PolicyModels, honest: Made, side: str, by: int, status: str) -> None:
    slot, k, t = next(
        (slot, k, t)
        for slot, completions in enumerate(honest.records)
        for k, records in enumerate(completions)
        for t, record in enumerate(records)
        if (record.lo if side == "lo" else FULL - record.last) > 2 * REJECT_TOLERANCE
    )
    token, lo, last = honest.records[slot][k][t]
    honest.records[slot][k][t] = Record(token, lo - by, last) if side == "lo" else Record(token, lo, last + by)
    made = honest.sealed()
    outcome = made.check(models)
    assert outcome.status == status
    assert place(outcome) == ((None, None, None) if status == "pass" else (slot, k, t))
    assert usable(check_batch(made.audit(models)), policy_check=True) == (status == "pass")


# --- the rule itself -------------------------------------------------------------------------------------------------


def verdict(record: Record, position: Position) -> str:
    return compare([Claimed(0, 0, [record], Passage([2], [record.token]))], [[position]]).status


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("side", ["lo", "last"])
def test_tolerances_are_inclusive(side: str, sign: int) -> None:
    lo, last = FULL // 4, FULL // 2
    for off, status in (
        (0, "pass"), (VOID_TOLERANCE, "pass"), (VOID_TOLERANCE + 1, "void"),
        (REJECT_TOLERANCE, "void"), (REJECT_TOLERANCE + 1, "fail"),
    ):  # fmt: skip
        shift = sign * off
        record = Record(7, lo + shift, last) if side == "lo" else Record(7, lo, last + shift)
        assert verdict(record, Position(lo, last, 7)) == status


def test_a_token_that_the_policy_never_gives_fails_however_near_it_is() -> None:
    lo = FULL // 3
    assert verdict(Record(7, lo, lo), Position(lo, lo - 1, 9)) == "fail"
    assert verdict(Record(7, lo, lo), Position(lo, lo, 9)) == "pass"


def test_one_fail_outweighs_any_void_before_it() -> None:
    near, own = Record(7, 0, FULL // 2 + 2 * VOID_TOLERANCE), Position(0, FULL // 2, 7)
    far = Record(7, 0, FULL - 1)
    passage = Passage([2], [7, 7])
    claims = [Claimed(0, 0, [near, near], passage), Claimed(1, 1, [near, far], passage)]
    outcome = compare(claims, [[own, own], [own, own]])
    assert (outcome.status, place(outcome)) == ("fail", (1, 1, 1))
    outcome = compare(claims[:1], [[own, own]])
    assert (outcome.status, place(outcome)) == ("void", (0, 0, 0))


# --- bases -----------------------------------------------------------------------------------------------------------


def test_another_base_than_the_one_that_sampled(shared: World, tmp_path: Path) -> None:
    other = tiny_folder(tmp_path / "other", seed=5)
    both = World(spec_of(shared.folder, other), shared.folder, shared.worker, Bases([shared.folder, other]))
    made = made_by(both, both.policy(), says=declared(b"", base="pocket1", kind="base"))
    models = PolicyModels(both.bases)
    assert made.check(models).status == "fail"
    honest = made_by(both, Policy.load(other, both.spec.bases[1]))
    assert honest.check(models).status == "pass"
    assert made_by(both, both.policy()).check(models).status == "pass"


def test_a_base_that_is_not_here_is_this_machine_s_trouble(honest: Made) -> None:
    outcome = PolicyModels(Bases([]))(honest.audit(None)).result
    assert outcome.status == "unknown"
    assert "Give its folder with --base-folder" in outcome.reason


@pytest.mark.parametrize("prompt", ["", "x" * 34, "ä", "Ä" * 40])
def test_a_prompt_that_the_base_cannot_read_is_void(honest: Made, models: PolicyModels, prompt: str) -> None:
    """Met only where the task check is unknown: it would have failed."""
    audit = honest.audit(models)
    audit.groups[1] = audit.groups[1].model_copy(update={"prompt": prompt})
    outcome = models(audit).result
    assert outcome.status == "void"
    assert outcome.reason.startswith("slot 1: ")
