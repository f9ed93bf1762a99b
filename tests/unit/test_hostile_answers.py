"""What attackers answer that did not look, and policies of which nobody can say what they are. No chain."""

from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from policy_batches import CHAIN, NODE, ROUND, ROUNDS, Made, World, made_by, world
from sapo_client.batches.publish import Batch
from sapo_client.duties.ballots import BallotBox, Deal
from sapo_client.duties.verdicts import Verdicts
from sapo_devnet.adversaries import answering, chaos
from sapo_verifier import protocol
from sapo_verifier.audit import Audit
from sapo_verifier.checks import Verdict
from sapo_verifier.cid import block_digest
from sapo_verifier.facts import BatchFacts, BatchInfo
from sapo_verifier.model import policy_model
from sapo_verifier.model.policy_check import PolicyModels
from sapo_verifier.objects import Record
from sapo_verifier.spots import Spots, decode_answers
from sapo_verifier.tasks import TaskWorker

SLOTS = 2
SOME = Spots(b"\1" * 32, 8, 3)


@pytest.fixture(scope="module")
def net(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)  # with tiny models two are slower
    with TaskWorker() as worker:
        yield world(tmp_path_factory.mktemp("base") / "tiny", worker)
    torch.set_num_threads(before)


def audit_of(net: World, made: Made, spots: Spots | None, model: Any = None) -> Audit:
    return Audit(made.facts, net.spec, made.blocks, net.worker, net.bases.tokenizer, model, spots=spots)


@pytest.fixture
def box(tmp_path: Path) -> Iterator[BallotBox]:
    made = BallotBox(tmp_path / "ballots.sqlite")
    yield made
    made.close()


@pytest.mark.parametrize(("stage", "expected"), [(1, 3 + 4), (2, 0)])
def test_made_up_answers_are_as_many_as_are_asked_for(net: World, box: BallotBox, stage: int, expected: int) -> None:
    """One for each spot of what is accepted, where a batch has so many completions, and of tokens that there are."""
    spec = net.spec.model_copy(update={"spot": 4, "group_size": 3})
    seeds, actor = SimpleNamespace(seed=lambda _: b"\5" * 32), SimpleNamespace(node=NODE)
    parts: dict[str, Any] = {field.name: None for field in fields(Verdicts)}
    parts |= {"ballots": box, "seeds": seeds, "actor": actor, "auditor": SimpleNamespace(spec=spec)}
    deal = Deal(7, stage, b"\3" * 32, b"\4" * 32)
    window = [BatchInfo(i, "0x" + "cc" * 20, 7, i, bytes(32), bytes(32), bytes(32), 0) for i in (1, 2, 3)]
    said = {1: Verdict.ACCEPT, 2: Verdict.ACCEPT}
    answering.MadeUpAnswers(**parts).fill_in(deal, window, said, {index: [] for index in said})
    ballot = box.get(deal)
    assert ballot is not None
    answers = decode_answers(ballot.answers)
    assert len(answers) == expected
    assert all(answer < net.spec.bases[0].vocab for answer in answers)


def test_a_guess_is_never_the_token_that_stands_there_and_most_are_wrong(net: World) -> None:
    made, model = made_by(net, net.policy()), PolicyModels(net.bases)
    spots = Spots(SOME.key, 8, 8)
    guessed = answering.Guess()(audit_of(net, made, spots))
    assert guessed.result.status == "pass"
    flat = [records for slot in made.records for records in slot]
    for i, answer in zip(spots.leaves, guessed.answers, strict=True):
        question = spots.question(i, flat[i])
        assert answer != flat[i][question.t].token or question.u is None
    judged = model.judge(audit_of(net, made, spots, model), guessed.answers)
    assert (judged.check, judged.status) == ("answers", "fail"), judged


def test_in_stage_2_the_guesser_says_nothing(net: World) -> None:
    made = made_by(net, net.policy())
    guessed = answering.Guess()(audit_of(net, made, None))
    assert (guessed.result.status, guessed.answers) == ("unknown", ())


def test_what_a_true_author_hands_out_is_right_and_what_a_false_one_does_is_not(net: World) -> None:
    """The answers are the policy's in both cases: who takes them from a false author answers for its completions."""
    policy, model = net.policy(), PolicyModels(net.bases)
    made = made_by(net, policy)
    hear_say = answering.HearSay(model, policy, lambda: [made.facts.node])
    told = hear_say(audit_of(net, made, SOME))
    assert told.answers == model(audit_of(net, made, SOME)).answers
    assert hear_say.judge(audit_of(net, made, SOME), told.answers).status == "pass"
    for slot in made.records:
        for k, records in enumerate(slot):
            slot[k] = [Record(record.token, 0, 2**64 - 1) for record in records]
    false = made.sealed()
    told = hear_say(audit_of(net, false, SOME))
    assert told.result.status == "pass", "it did not look"
    judged = model.judge(audit_of(net, false, SOME), told.answers)
    assert judged.status == "fail", judged


def test_of_others_than_friends_it_looks_itself(net: World) -> None:
    made = made_by(net, net.policy())
    made.records[0][0] = [Record(record.token, 0, 2**64 - 1) for record in made.records[0][0]]
    hear_say = answering.HearSay(PolicyModels(net.bases), net.policy(), list)
    assert hear_say(audit_of(net, made.sealed(), None)).result.status == "fail"


def chaotic(net: World, attack: chaos.Chaotic) -> Made:
    """Its batch, with the policy that it commits."""
    policy = net.policy()
    published = attack.committed(policy, policy.publish())
    own: Any = SimpleNamespace(spec=net.spec, policy=policy, worker=net.worker)
    beacon = protocol.H("a test's beacon", ROUND)
    facts = BatchFacts.dealt(CHAIN, ROUNDS, ROUND, NODE, beacon, published.digest, SLOTS)
    batch = attack.make(own, facts)
    assert isinstance(batch, Batch)
    weights = {block_digest(block): block for block in [published.manifest, *published.blocks]}
    return Made(net, batch.facts, {**batch.blocks, **weights})


def test_nobody_rejects_an_honest_batch_of_a_chaotic_policy(net: World) -> None:
    """Other arrangements of its rows find other intervals, off by nearly all there is, and no voter is to be fined."""
    made = chaotic(net, chaos.Chaotic())
    found = [made.check(PolicyModels(net.bases, batch_tokens=tokens)) for tokens in (8192, 64)]
    assert {result.status for result in found} <= {"void", "pass"}, found
    assert "void" in {result.status for result in found}, "no chaos: the test is about nothing"


def test_pasted_answers_behind_a_chaotic_policy_are_void_and_hide(net: World) -> None:
    made = chaotic(net, chaos.HiddenByChaos())
    assert made.facts.claim.bit_count() >= SLOTS * net.spec.group_size // 2
    recomputed = made.audit(policy_model(net.bases)).recomputed
    assert recomputed is not None
    assert recomputed.result.status == "void", recomputed.result
    assert recomputed.hides, "to be disputed, or they would be false at a gain"
