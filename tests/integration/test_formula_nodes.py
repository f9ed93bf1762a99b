"""Formula nodes: a whole network without a model, fast, and honest in all but the policy."""

import subprocess
import sys
import time
from pathlib import Path

import pytest

from sapo_devnet.chain import FUNDS
from sapo_devnet.formula.judging import FormulaModel
from sapo_devnet.formula.policy import EOS, formula_base, formula_spec
from sapo_devnet.testkit.formula import small_spec
from sapo_devnet.testkit.formula_network import FormulaNetwork, formula_network
from sapo_verifier.audit import Audit, fetch_batch
from sapo_verifier.chain.audits import AuditsReader, BatchState
from sapo_verifier.chain.events import pages
from sapo_verifier.checks import check_batch
from sapo_verifier.errors import UsageError
from sapo_verifier.facts import BatchFacts
from sapo_verifier.ipfs import GatewayReader
from sapo_verifier.schedule import FINAL_AFTER, REVEAL_AFTER

NODES, ROUNDS = 4, 10
CPU_SECONDS = 40.0  # of this process, whose threads take turns; wall time is what others leave of the machine
EVENTS = {
    "NodeRegistered", "PolicyCommitted", "BatchSubmitted", "VerdictsCommitted", "VerdictsRevealed", "RewardClaimed",
}  # fmt: skip


@pytest.fixture(scope="module")
def net(tmp_path_factory: pytest.TempPathFactory):
    began = time.process_time()
    with formula_network(tmp_path_factory.mktemp("formula"), nodes=NODES, rounds=ROUNDS) as made:
        assert time.process_time() - began < CPU_SECONDS
        yield made


def test_every_round_is_played_and_what_can_be_final_is_accepted(net: FormulaNetwork) -> None:
    audits = AuditsReader(net.reader)
    batches = net.reader.batches_at(range(net.reader.batch_count()))
    assert [batch.round for batch in batches] == [r for r in range(1, ROUNDS + 1) for _ in range(NODES)]
    for batch, outcome in zip(batches, audits.outcomes_of([b.index for b in batches]), strict=True):
        assert outcome.is_final == (batch.round + FINAL_AFTER <= ROUNDS)
        if outcome.is_final:
            assert outcome.state is BatchState.ACCEPTED
        elif batch.round + REVEAL_AFTER[1] < ROUNDS:
            assert outcome.state is BatchState.STANDING
    for node in net.nodes:
        assert [report["skipped"] for report in node.rounds() if report["round"] > 0] == [""] * ROUNDS


def test_right_work_and_verdicts_are_paid_and_claimed(net: FormulaNetwork) -> None:
    audits, chain = AuditsReader(net.reader), net.deployment.spec.chain
    addresses = [node.address for node in net.nodes]
    ones = 0
    for round_ in range(1, ROUNDS - FINAL_AFTER + 1):
        claims = {batch.node: batch.claim.bit_count() for batch in net.reader.batches_of(round_)}
        for address, pay in zip(addresses, audits.payouts_in(round_, addresses), strict=True):
            assert (pay.is_final, pay.score, pay.verdicts) == (True, claims[address], NODES - 1)
            assert pay.producer == claims[address] * int(chain.max_per_unit, 16), "the cap binds in so small a network"
            share = audits.reward_pool(round_) * chain.auditors_share // 10_000
            assert abs(pay.auditor - share // NODES) <= NODES
            assert pay.claimed == (pay.amount > 0)
            ones += pay.score
    assert ones > 0
    for address in addresses:
        info = net.reader.node_of(address)
        assert info.active
        assert info.bond == int(chain.bond, 16), "nobody was fined or slashed"
        assert 0 < FUNDS - info.bond - net.reader.balance(address) < 10**18, "gas, and nothing else"


def test_an_indexer_sees_all_kinds_of_events(net: FormulaNetwork) -> None:
    seen = {event.name for page in pages(net.reader, None) for event in page.events}
    assert seen >= EVENTS


def test_blocks_are_served_and_pass_every_check_but_policy(net: FormulaNetwork) -> None:
    """Without a model the policy is not known; who knows the formula accepts it, and who alters it does not pass."""
    shared, spec = net.shared, net.deployment.spec
    with GatewayReader(allow_private=True) as store:
        for batch in net.reader.batches_of(ROUNDS):
            beacon = net.reader.beacon(batch.round)
            assert beacon is not None
            facts = BatchFacts.of(net.deployment, batch, beacon)
            blocks = fetch_batch(store, spec, facts, [net.nodes[0].gateway], weights=True)
            plain = check_batch(Audit(facts, spec, blocks, shared.worker, shared.bases.tokenizer))
            assert {r.check for r in plain if r.status != "pass"} == {"policy"}
            assert plain[-1].status == "unknown"
            known = check_batch(Audit(facts, spec, blocks, shared.worker, shared.bases.tokenizer, FormulaModel()))
            assert [r.status for r in known] == ["pass"] * len(plain)


def test_a_node_that_stops_can_be_started_again(net: FormulaNetwork) -> None:
    """Last in this file: it plays on."""
    node = net.nodes[0]
    node.stop()
    assert not node.alive
    assert node.done(ROUNDS + 1), "nobody waits for it"
    node.start()
    net.play_to(ROUNDS + 2)
    assert node.starts == 2
    assert {batch.node for batch in net.reader.batches_of(ROUNDS + 2)} == {n.address for n in net.nodes}


def test_the_formula_needs_a_base_that_writes_characters() -> None:
    assert formula_base(formula_spec()).eos == [EOS]
    words = small_spec(bases=[base.model_dump(mode="json") for base in small_spec().bases[1:]], answer="brackets")
    with pytest.raises(UsageError, match="one character per token"):
        formula_base(words)


def test_no_model_is_loaded() -> None:
    said = "import sys, sapo_devnet.testkit.formula_network; print({'torch', 'transformers'} & sys.modules.keys())"
    scripts = str(Path(__file__).parents[2] / "scripts")
    done = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path.append({scripts!r}); {said}"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout == "set()\n"
