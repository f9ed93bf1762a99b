"""What would fail has to survive float64 and jittered weights; spots alone are run; answers are judged."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
import torch

from sapo_lab.sweeps.chaos_policies import PAIR, POLICIES, wide_base
from sapo_lab.sweeps.stability import Case, Remembering, make_case, play
from sapo_lab.sweeps.tally import Tally
from sapo_verifier.audit import Audit, CheckResult
from sapo_verifier.bases import Bases
from sapo_verifier.intervals import FULL, REJECT_TOLERANCE, VOID_TOLERANCE, miss
from sapo_verifier.model.answers import judged
from sapo_verifier.model.base import load_base
from sapo_verifier.model.claims import Claimed, read_claims
from sapo_verifier.model.forward import Passage
from sapo_verifier.model.positions import policy_intervals, positions
from sapo_verifier.model.stability import STABLE_TOLERANCE, InDouble, Jittered, Place, run_again
from sapo_verifier.objects import Record
from sapo_verifier.spots import Spots
from sapo_verifier.tasks import TaskWorker

pytestmark = pytest.mark.usefixtures("one_thread")


@dataclass
class Shared:
    """Cases by their policies, on one base; and what judges them in this process."""

    folder: Path
    worker: TaskWorker
    cases: dict[str, Case]
    bases: Bases
    models: Remembering

    def audit(self, policy: str, voter: int = 0) -> Audit:
        return self.cases[policy].audits(self.worker, self.bases)[voter]


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shared]:
    folder = wide_base(tmp_path_factory.mktemp("stability") / "base")
    bases = Bases([folder])
    with TaskWorker() as worker:
        cases = {name: make_case(name, 0, folder, worker) for name in POLICIES}
        yield Shared(folder, worker, cases, bases, Remembering(bases))


# --- processor settings ----------------------------------------------------------------------------------------------


def test_no_setting_rejects_what_was_made_by_the_rules_or_another_setting_s_answers(shared: Shared) -> None:
    """A sample of `scripts/fuzz stability`; honest policies, however sharp, pass everywhere."""
    tally = Tally(3600, 1 << 20)
    cases = [replace(case, voters=1) for case in shared.cases.values()]
    play(cases, shared.folder, ["AVX2", "compatible"], tally)
    assert 0 < tally.outcomes["chaotic, one pass: fail"] == tally.outcomes["chaotic: void"]
    assert tally.outcomes["sixteen times as sharp: pass"] > 0
    assert tally.outcomes["chaotic beside, answers: pass"] > 0


# --- a policy's failure ----------------------------------------------------------------------------------------------


def test_what_is_rounding_is_void_and_the_model_stays_as_it_was(shared: Shared) -> None:
    audit = shared.audit("chaotic")
    found = shared.models(audit)
    assert (shared.models.first, found.result.status, found.answers) == ("fail", "void", ())
    assert "ill-conditioned" in found.result.reason
    assert (found.result.slot, found.result.k, found.result.t) != (None, None, None)
    held = shared.models._held[audit.base.digest].model
    before = {name: tensor.clone() for name, tensor in held.state_dict().items()}
    assert shared.models(audit).result.status == "void"
    assert all(torch.equal(before[name], tensor) for name, tensor in held.state_dict().items())
    assert shared.models.cost.passes > 0


def test_a_false_completion_of_a_chaotic_policy_hides(shared: Shared) -> None:
    """Records that no pass comes near: void, and to be disputed."""
    audit = shared.audit("chaotic")
    found = shared.models(forged(replace(audit, spots=only(audit, 5)), 5))
    assert (found.result.status, found.hides) == ("void", True)


def forged(audit: Audit, leaf: int) -> Audit:
    """The completion claims a quarter of all numbers for its first token, on the other side than its own."""
    slot, k = divmod(leaf, audit.spec.group_size)
    token, lo, last = audit.completions[slot][k][0]
    high = lo + last < FULL
    audit.completions[slot][k][0] = Record(token, 3 * FULL // 4 if high else 0, FULL - 1 if high else FULL // 4)
    return audit


def only(audit: Audit, leaf: int) -> Spots:
    """Of some voter who looks at this completion alone."""
    size = audit.facts.slots * audit.spec.group_size
    draws = (Spots(voter.to_bytes(32, "big"), size, 1) for voter in range(1000))
    return next(spots for spots in draws if spots.leaves == (leaf,))


@pytest.mark.parametrize("policy", ["honest", "four times as sharp"])
def test_a_false_completion_fails_inside_the_spots_and_passes_outside(shared: Shared, policy: str) -> None:
    audit = shared.audit(policy)
    found = shared.models(forged(replace(audit, spots=only(audit, 6)), 6))
    assert (found.result.status, found.result.slot, found.result.k, found.result.t) == ("fail", 1, 2, 0)
    assert (found.answers, found.hides) == ((), False)
    found = shared.models(forged(replace(audit, spots=only(audit, 3)), 6))
    assert found.result.status == "pass"
    assert found.result.reason.startswith(f"{len(audit.completions[0][3])} positions"), "the spot alone is run"
    assert len(found.answers) == 1


def test_a_false_completion_of_a_policy_too_sharp_to_tell_hides_at_worst(shared: Shared) -> None:
    audit = shared.audit("sixteen times as sharp")
    found = shared.models(forged(replace(audit, spots=only(audit, 6)), 6))
    assert found.result.status == "fail" or (found.result.status, found.hides) == ("void", True)
    assert (found.result.slot, found.result.k, found.result.t) == (1, 2, 0)


def test_float64_is_what_a_model_in_float64_finds_and_jitter_is_a_draw(shared: Shared) -> None:
    audit = shared.audit("four times as sharp")
    model = load_base(shared.folder, audit.base)
    passages, us = [Passage([3, 4, 5], [7, 8, 9])], [[0, 0, 0]]

    def off(a: object, b: object) -> float:
        pairs = zip(a[0], b[0], strict=True)  # type: ignore[index]
        return max(max(abs(x.lo - y.lo), abs(x.last - y.last)) for x, y in pairs) / FULL

    plain = positions(model, passages, us, audit.base.vocab)
    with InDouble():
        exact = positions(model, passages, us, audit.base.vocab)
    draws = []
    for seed in (1, 1, 2):
        with Jittered(seed):
            draws.append(positions(model, passages, us, audit.base.vocab))
    assert draws[0] == draws[1] != draws[2]
    assert 0 < off(plain, draws[0]) < 1e-4
    assert positions(model, passages, us, audit.base.vocab) == plain
    assert off(exact, positions(model.double(), passages, us, audit.base.vocab)) < 1e-6
    assert 0 < off(plain, exact) < 1e-5


def test_a_failure_that_some_pass_takes_back_does_not_count(shared: Shared) -> None:
    """Where a token owns one integer here and none there, no edge moves far; yet one of both would have rejected."""
    audit = shared.audit("honest")
    model = load_base(shared.folder, audit.base)
    passages = [Passage([3, 4, 5], [7, 8, 9])]
    first = positions(model, passages, [[0, 0, 0]], audit.base.vocab)
    places = [Place(0, 1, lambda _: False), Place(0, 1, lambda _: True)]
    never, ever = run_again(model, passages, places, first, audit.base.vocab, batch_tokens=64)
    assert never.moved == ever.moved <= STABLE_TOLERANCE
    assert (never.stable, ever.stable) == (True, False)


# --- answers ---------------------------------------------------------------------------------------------------------


def verdict(shared: Shared, policy: str, change: dict[int, int], voter: int = 0) -> CheckResult:
    audit = shared.audit(policy, voter)
    answers = list(shared.models(audit).answers)
    for spot, answer in change.items():
        answers[spot] = answer
    return shared.models.judge(audit, answers)


@pytest.mark.parametrize("policy", [name for name in POLICIES if name != "chaotic"])
def test_right_answers_are_right(shared: Shared, policy: str) -> None:
    found = verdict(shared, policy, {})
    assert (found.check, found.status, found.reason) == ("answers", "pass", "8 answers are right")


def test_an_answer_of_another_token_is_false_or_beyond_the_vocab_is_false(shared: Shared) -> None:
    audit = shared.audit("honest")
    right = shared.models(audit).answers
    wrong = far_token(shared, audit, 2)
    found = verdict(shared, "honest", {2: wrong})
    slot, k = divmod(audit.spots.leaves[2], audit.spec.group_size)  # type: ignore[union-attr]
    assert (found.check, found.status, found.slot, found.k) == ("answers", "fail", slot, k)
    assert found.t is not None
    assert f"the answer {wrong} is false" in found.reason
    for beyond in (audit.base.vocab, 2**32 - 1):
        assert verdict(shared, "honest", {0: beyond}).status == "fail"
    for number in (right[:-1], [*right, 0], []):
        assert shared.models.judge(audit, list(number)).status == "fail"


def far_token(shared: Shared, audit: Audit, spot: int) -> int:
    return missing(shared, audit, spot, REJECT_TOLERANCE, FULL)[0]


def missing(shared: Shared, audit: Audit, spot: int, above: int, most: int) -> list[int]:
    """Tokens whose intervals miss what the spot asks for by more than `above`, by at most `most`."""
    assert audit.spots is not None
    leaf = audit.spots.leaves[spot]
    claim = next(claim for claim in read_claims(audit, shared.bases) if claim.leaf(audit) == leaf)
    t, u = audit.spots.question(leaf, claim.records)
    assert u is not None
    shared.models(audit)
    model, before = shared.models._held[audit.base.digest].model, claim.passage.completion[:t]
    found = []
    for token in range(audit.base.vocab):
        lo, last = policy_intervals(model, claim.passage.prompt, [*before, token], audit.base.vocab)[-1]
        if above < miss(u, lo, last) <= most:
            found.append(token)
    return found


def test_an_answer_that_misses_by_little_is_doubtful(shared: Shared) -> None:
    audit = shared.audit("honest")
    near = ((spot, missing(shared, audit, spot, VOID_TOLERANCE, REJECT_TOLERANCE)) for spot in range(8))
    spot, token = next((spot, tokens[0]) for spot, tokens in near if tokens)
    found = verdict(shared, "honest", {spot: token})
    assert (found.check, found.status) == ("answers", "void")
    other = next(i for i in range(8) if i != spot)
    assert verdict(shared, "honest", {spot: token, other: far_token(shared, audit, other)}).status == "fail"


def test_what_is_not_stable_is_right_and_what_is_stable_beside_it_is_not(shared: Shared) -> None:
    """Chaos chooses which of two tokens owns a fifth; what every other one owns it does not touch."""
    for voter in range(2):
        audit = shared.audit("chaotic beside", voter)
        answers = shared.models(audit).answers
        spots = [spot for spot, answer in enumerate(answers) if answer in PAIR]
        if spots and len(spots) < len(answers):
            break
    swapped = {spot: sum(PAIR) - answers[spot] for spot in spots}
    found = verdict(shared, "chaotic beside", swapped, voter)
    assert (found.status, found.reason) == (
        "pass",
        f"8 answers are right, {len(spots)} of them as the policy is not stable there",
    )
    other = next(spot for spot in range(8) if spot not in spots)
    wrong = min(token for token in missing(shared, audit, other, REJECT_TOLERANCE, FULL) if token not in PAIR)
    assert verdict(shared, "chaotic beside", {**swapped, other: wrong}, voter).status == "fail"


def test_answers_about_a_false_spot_are_false_and_about_an_ill_conditioned_one_void(shared: Shared) -> None:
    audit = shared.audit("honest")
    right = list(shared.models(audit).answers)
    forged(audit, 6)
    found = shared.models.judge(audit, right)
    assert (found.check, found.status, found.slot, found.k, found.t) == ("answers", "fail", 1, 2, 0)
    assert shared.models.judge(shared.audit("chaotic"), [0] * 8).status == "void"


def test_where_nothing_is_asked_the_answer_is_0(shared: Shared) -> None:
    audit = shared.audit("honest")
    audit = replace(audit, spots=only(audit, 0))
    (claim,) = read_claims(audit, shared.bases)
    token = claim.records[0].token
    full = Claimed(0, 0, [Record(token, 0, FULL - 1)], Passage(claim.passage.prompt, [token]))
    model = load_base(shared.folder, audit.base)
    found = positions(model, [full.passage], [[0]], audit.base.vocab)
    said = [judged(model, audit, [full], found, [answer], batch_tokens=64).status for answer in (0, 1)]
    assert said == ["pass", "fail"]


def test_a_base_that_is_not_here_leaves_answers_unknown(shared: Shared) -> None:
    found = Remembering(Bases([])).judge(shared.audit("honest"), [0] * 8)
    assert (found.check, found.status) == ("answers", "unknown")
