"""Every false batch of scripts/sapo_devnet/adversaries, and the check that stops it: no chain, a tiny policy."""

from collections.abc import Iterator
from dataclasses import dataclass, fields
from functools import partial
from types import FunctionType
from typing import Any

import pytest
import torch

from policy_batches import CHAIN, NODE, ROUND, ROUNDS, World, world
from sapo_client.batches.publish import Batch, make_batch
from sapo_client.node.compose import HONEST, Makers
from sapo_client.policy.policy import Policy
from sapo_client.policy.published import Published
from sapo_devnet.adversaries import answering, content, friends, policies, self_slasher, serving
from sapo_devnet.adversaries.adversary import Adversary
from sapo_devnet.adversaries.attacks import CLASSES
from sapo_devnet.adversaries.names import ATTACKS
from sapo_verifier import protocol
from sapo_verifier.audit import Audit, CheckResult, Found
from sapo_verifier.checks import check_batch
from sapo_verifier.cid import block_digest
from sapo_verifier.facts import BatchFacts
from sapo_verifier.model import policy_model
from sapo_verifier.proofs import find_proof
from sapo_verifier.tasks import TaskWorker

SLOTS = 2


@pytest.fixture(scope="module")
def net(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)  # with tiny models two are slower
    with TaskWorker() as worker:
        yield world(tmp_path_factory.mktemp("base") / "tiny", worker)
    torch.set_num_threads(before)


@dataclass
class Own:
    """What an attack looks at of its node."""

    spec: Any
    policy: Policy
    worker: TaskWorker

    def honest(self, dealt: BatchFacts) -> Batch:
        return make_batch(self.spec, dealt, self.policy, self.worker)


def dealt(policy: bytes, round_: int = ROUND) -> BatchFacts:
    return BatchFacts.dealt(CHAIN, ROUNDS, round_, NODE, protocol.H("a test's beacon", round_), policy, SLOTS)


def judged(net: World, facts: BatchFacts, batch: Batch, published: Published) -> tuple[CheckResult, bool]:
    """The last outcome, and whether a fault can be proven on chain."""
    weights = dict(zip(_digests(published), published.blocks, strict=True))
    blocks: dict[bytes, Found] = {**batch.blocks, facts.policy: published.manifest, **weights}
    audit = Audit(batch.facts, net.spec, blocks, net.worker, net.bases.tokenizer, policy_model(net.bases))
    last = check_batch(audit)[-1]
    return last, last.check not in ("schema", "available") and find_proof(audit) is not None


def _digests(published: Published) -> list[bytes]:
    return [block_digest(block) for block in published.blocks]


def test_an_honest_batch_passes_and_nothing_can_be_proven(net: World) -> None:
    own = Own(net.spec, net.policy(), net.worker)
    published = own.policy.publish()
    facts = dealt(published.digest)
    outcome, provable = judged(net, facts, own.honest(facts), published)
    assert (outcome.check, outcome.status, provable) == ("policy", "pass", False), outcome


@pytest.mark.parametrize(
    ("attack", "check", "provable"),
    [
        (content.Solver, "policy", False),
        (content.Forger, "sampling", True),
        (content.FalseReward, "reward", False),
        (content.JunkClaimer, "reward", False),
        (friends.LowTurnoutCartel, "reward", False),
        (self_slasher.SelfSlasher, "sampling", True),
        (serving.WithholdsAfterReject, "policy", False),
        (serving.WithholdsToHurt, "policy", False),
        (answering.FalseAuthor, "policy", False),
        (content.MadeUpIntervals, "policy", False),
        (content.EarlyStop, "ending", False),
        (content.Filler, "ending", False),
        (content.BestOfN, "policy", False),
        (content.WrongRoot, "tree", False),
        (content.SchemaBomber, "schema", False),
    ],
)
def test_a_false_batch_is_stopped_by(net: World, attack: type[Adversary], check: str, provable: bool) -> None:
    own = Own(net.spec, net.policy(), net.worker)
    published = own.policy.publish()
    facts = dealt(published.digest)
    batch = attack().make(own, facts)
    outcome, proven = judged(net, facts, batch, published)
    assert (outcome.check, outcome.status) == (check, "fail"), outcome
    assert proven is provable


def test_the_solver_would_be_paid_for_everything_without_the_policy_check(net: World) -> None:
    own = Own(net.spec, net.policy(), net.worker)
    published = own.policy.publish()
    facts = dealt(published.digest)
    batch = content.Solver().make(own, facts)
    assert batch.facts.claim.bit_count() >= SLOTS * net.spec.group_size // 2
    blocks = {**batch.blocks, facts.policy: published.manifest}
    audit = Audit(batch.facts, net.spec, blocks, net.worker, net.bases.tokenizer)
    assert check_batch(audit)[-1].status == "unknown", "every check but the last passes"


def test_a_batch_that_is_submitted_again_answers_other_tasks_and_is_provable(net: World) -> None:
    own = Own(net.spec, net.policy(), net.worker)
    published = own.policy.publish()
    hostile = content.Replayer()
    first, second = dealt(published.digest, ROUND), dealt(published.digest, ROUND + 1)
    assert judged(net, first, hostile.make(own, first), published)[0].status == "pass"
    outcome, provable = judged(net, second, hostile.make(own, second), published)
    assert (outcome.check, outcome.status, provable) == ("task", "fail", True), outcome


@pytest.mark.parametrize(
    ("attack", "check"),
    [
        (policies.WrongPolicy, "policy"),
        (policies.StalePolicy, "policy"),
        (policies.UnrunnableBase, "binding"),
        (policies.UnloadableWeights, "policy"),
    ],
)
def test_a_false_policy_is_stopped_by(net: World, attack: type[Adversary], check: str) -> None:
    own = Own(net.spec, net.policy(), net.worker)
    hostile = attack()
    published = hostile.committed(own.policy, own.policy.publish())
    facts = dealt(published.digest)
    outcome, provable = judged(net, facts, hostile.make(own, facts), published)
    assert (outcome.check, outcome.status, provable) == (check, "fail", False), outcome


def test_every_attack_has_a_class_and_a_limit() -> None:
    assert CLASSES.keys() == ATTACKS.keys()


@pytest.mark.parametrize("name", sorted(CLASSES))
def test_what_an_attack_exchanges_is_a_part_of_the_client(name: str) -> None:
    """A part overrides what its base has, or it would play honestly under another name."""
    makers = CLASSES[name]().makers()
    for part in (getattr(makers, field.name) for field in fields(Makers)):
        made = part.func if isinstance(part, partial) else part
        ours = [kind for kind in made.__mro__ if kind.__module__.startswith("sapo_devnet.")]
        base = next(kind for kind in made.__mro__ if kind.__module__.startswith("sapo_client."))
        for kind in ours:
            methods = {name for name, value in vars(kind).items() if isinstance(value, FunctionType)}
            new = {"__init__", "__eq__", "__repr__", "honest", "wait_for"}
            assert methods - new <= set(dir(base)), f"{kind.__name__} overrides what is not there"
    exchanged = [field.name for field in fields(Makers) if getattr(makers, field.name) != getattr(HONEST, field.name)]
    assert exchanged, "nothing is exchanged"
