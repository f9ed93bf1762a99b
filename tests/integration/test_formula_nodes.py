"""Formula nodes: a whole network without a model, fast, and honest in all but the policy."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from sapo_devnet import Devnet
from sapo_devnet.chain import FUNDS
from sapo_devnet.checkout import ROOT
from sapo_devnet.formula.judging import FormulaModel
from sapo_devnet.formula.policy import EOS, formula_base, formula_spec
from sapo_devnet.testkit.alive import users_of
from sapo_devnet.testkit.formula import small_spec
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
    """Rounds 0 … ROUNDS were played, and none ends by itself."""
    began, folder = time.process_time(), tmp_path_factory.mktemp("formula")
    with Devnet(formula=NODES, pace="hand", folder=folder) as made:
        made.until_round(ROUNDS)
        play_out(made)
        assert time.process_time() - began < CPU_SECONDS
        yield made
    assert not users_of(folder)


def play_out(net: Devnet) -> None:
    now = net.round
    net.until(lambda: all(node.done(now) for node in net.nodes), what="all are done with the round")


def test_every_round_is_played_and_what_can_be_final_is_accepted(net: Devnet) -> None:
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


def test_right_work_and_verdicts_are_paid_and_claimed(net: Devnet) -> None:
    audits, chain = AuditsReader(net.reader), net.deployment.spec.chain
    addresses = [node.address for node in net.nodes]
    ones = 0
    for round_ in range(1, ROUNDS - FINAL_AFTER + 1):
        claims = {batch.node: batch.claim.bit_count() for batch in net.reader.batches_of(round_)}
        for address, pay in zip(addresses, audits.payouts_in(round_, addresses), strict=True):
            assert (pay.is_final, pay.score, pay.verdicts) == (True, claims[address], NODES - 1)
            assert pay.producer == claims[address] * int(chain.max_per_unit, 16), "the cap binds in so small a network"
            most = int(chain.max_per_verdict, 16)
            assert audits.reward_pool(round_) * chain.auditors_share // 10_000 > NODES * (NODES - 1) * most
            assert pay.auditor == pay.verdicts * most, "so does this one"
            assert pay.claimed == (pay.amount > 0)
            ones += pay.score
    assert ones > 0
    for address in addresses:
        info = net.reader.node_of(address)
        assert info.active
        assert info.bond == int(chain.bond, 16), "nobody was fined or slashed"
        assert 0 < FUNDS - info.bond - net.reader.balance(address) < 10**18, "gas, and nothing else"


def test_an_indexer_sees_all_kinds_of_events(net: Devnet) -> None:
    seen = {event.name for page in pages(net.reader, None) for event in page.events}
    assert seen >= EVENTS


def test_blocks_are_served_and_pass_every_check_but_policy(net: Devnet) -> None:
    """Without a model the policy is not known; who knows the formula accepts it, and who alters it does not pass."""
    assert net._crew is not None
    shared, spec = net._crew._shared, net.deployment.spec
    assert shared is not None
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


def test_the_summary_the_gateways_and_the_logs_are_those_of_any_devnet(net: Devnet) -> None:
    summary = net.summary()
    assert list(summary["nodes"]) == [f"formula{i}" for i in range(NODES)]
    assert all(node["running"] and len(node["rounds"]) == ROUNDS + 1 for node in summary["nodes"].values())
    assert {batch["name"] for batch in summary["batches"]} == set(summary["nodes"])
    assert len(net.gateways) == NODES
    assert len(set(net.gateways)) == 1, "they share a daemon"
    assert net.policy is None
    for part in ("anvil.log", "the formula nodes' IPFS daemon", "formula3: it is a thread"):
        assert part in net.logs()


def test_what_a_thread_cannot_do_is_said(net: Devnet) -> None:
    for refused, words in (
        (lambda: net.pause_node(0), "formula0 is a formula node.*cannot stand still"),
        (lambda: net.kill_node("formula1", with_daemon=True), "formula1 .*the others need its daemon"),
        (lambda: net.inject("withholder"), "withholder needs a model.*give Devnet a policy"),
        (lambda: net.start_node(0), "formula0 runs already"),
    ):
        with pytest.raises(UsageError, match=words):
            refused()


def test_a_reorganization_is_survived_and_one_that_was_killed_plays_again(net: Devnet) -> None:
    """From here on they play on."""
    net.kill_node(0)
    assert not net.nodes[0].alive
    assert net.nodes[0].done(ROUNDS + 1), "nobody waits for it"
    net.start_node(0)
    assert net.nodes[0].starts == 2
    now = net.next_round()
    wanted = {node.address for node in net.nodes}
    net.until(lambda: {batch.node for batch in net.reader.batches_of(now)} == wanted, what="all publish")
    net.reorganize(2)
    net.next_round()
    assert {batch.node for batch in net.reader.batches_of(now)} == wanted


def test_who_joins_late_is_a_formula_node_too(net: Devnet) -> None:
    added = net.add_node()
    assert added.name == f"formula{NODES}"
    now = net.until_round(net.round + 2)
    net.until(lambda: net.reader.batch_of(added.address, now) is not None, what="it publishes")


def test_the_formula_needs_a_base_that_writes_characters() -> None:
    assert formula_base(formula_spec()).eos == [EOS]
    words = small_spec(bases=[base.model_dump(mode="json") for base in small_spec().bases[1:]], answer="brackets")
    with pytest.raises(UsageError, match="one character per token"):
        formula_base(words)


PLAYS = """
import sys
from sapo_devnet import Devnet
with Devnet(formula=1, pace="hand") as net:
    net.until_round(1)
print({"torch", "transformers"} & sys.modules.keys())
"""


def test_no_model_is_built_or_loaded(tmp_path: Path) -> None:
    path = os.pathsep.join(filter(None, [str(ROOT / "scripts"), os.environ.get("PYTHONPATH")]))
    environment = {**os.environ, "PYTHONPATH": path, "SAPO_CACHE": str(tmp_path), "TMPDIR": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", PLAYS], env=environment, capture_output=True, text=True, check=False, timeout=120
    )
    assert (done.returncode, done.stdout) == (0, "set()\n"), done.stderr
    # What is kept of the tasks' digest may stay (user_cache.py).
    assert [path.name for path in tmp_path.iterdir()] in ([], ["tasks"]), "neither a policy nor logs are left"
