"""A network whose beacon waits for drand: formula nodes, and a relay with a key of the devnet's own."""

import time

import pytest
from eth_utils.crypto import keccak

from sapo_client.duties.health.outbox import read
from sapo_client.duties.relays import Relays
from sapo_client.node.loop import NO_BEACON
from sapo_client.state.home import OUTBOX
from sapo_devnet import Devnet, drand
from sapo_verifier import protocol
from sapo_verifier.bls12381 import g1_of
from sapo_verifier.chain.audits import AuditsReader
from sapo_verifier.chain.contracts import Call
from sapo_verifier.chain.deployment import Deployment
from sapo_verifier.chain.errors import ChainMismatch
from sapo_verifier.chain.reader import ChainReader

ROUNDS = 3


@pytest.fixture(scope="module")
def net(tmp_path_factory: pytest.TempPathFactory):
    with Devnet(formula=3, pace="hand", beacon="drand", folder=tmp_path_factory.mktemp("drand")) as made:
        for round_ in range(ROUNDS + 1):
            made.until_round(round_)
            made.until(lambda now=round_: all(node.done(now) for node in made.nodes), what="all are done")
        yield made


def test_rounds_are_played_with_the_signatures_of_the_rounds_that_were_asked_for(net: Devnet) -> None:
    rules = net.deployment.drand
    assert rules == drand.RULES
    for round_ in range(1, ROUNDS + 1):
        target = net.reader.drand_round(round_)
        assert target is not None
        entropy = keccak(g1_of(drand.sign(target)))
        chain, rounds = net.deployment.chain_id, net.deployment.contracts.rounds
        assert net.reader.beacon(round_) == protocol.beacon(chain, rounds, round_, entropy)
        assert {batch.node for batch in net.reader.batches_of(round_)} == {node.address for node in net.nodes}
    for node in net.nodes:
        assert [report["skipped"] for report in node.rounds() if report["round"] > 0] == [""] * ROUNDS


def test_nodes_poke_and_answer_in_turn(net: Devnet) -> None:
    """Not all of them: only who comes to its turn while what another sent is not mined yet sends it once more."""
    sent = [row for node in net.nodes for row in read(node.home / OUTBOX, "SELECT key, status FROM entry")]
    for what in ("poke", "answer"):
        keys = {f"{what}/{round_}" for round_ in range(1, ROUNDS + 1)}
        mined = [key for key, status in sent if status == "mined" and key in keys]
        assert set(mined) == keys
        assert len(mined) < len(net.nodes) * ROUNDS


def test_another_file_than_the_contracts_is_refused(net: Devnet) -> None:
    document = net.deployment.to_json()
    document["drand"]["margin"] = 5
    with pytest.raises(ChainMismatch, match=r"DrandBeacon\.MARGIN is 36, not 5"):
        ChainReader(net.rpc, Deployment.model_validate(document)).check()
    net.reader.check()


def test_a_bad_relay_is_passed_over_and_told(net: Devnet) -> None:
    """The contract judges: what is well formed and not the signature is refused by it."""
    good, bad = drand.Relay(time.time), drand.Relay(time.time)
    said: list[str] = []
    try:
        bad.instead = 200, b'{"round": 7, "signature": "' + drand.sign(8).hex().encode() + b'"}'
        relays = Relays([bad.url, good.url + "/"], drand.RULES, said.append)
        right = g1_of(drand.sign(7))
        assert relays.signature(7, lambda given: "" if given == right else "that is another round's") == right
        assert said == [f"the drand relay {bad.url} gave what the contract refuses: that is another round's"]
    finally:
        good.close()
        bad.close()


def test_the_contract_is_asked_before_anything_is_sent(net: Devnet) -> None:
    """An answer to what is captured already changes nothing, whatever it is."""
    captured = net.reader.call(Call("beacon", "entropy", (net.round,)))
    assert net.reader.call(Call("drand", "answer", (bytes(128),))) == captured


def test_a_round_without_a_signature_is_void_and_what_is_owed_in_it_is_done(net: Devnet) -> None:
    """The relay is away for a round: no batches, no fee, verdicts are revealed and policies committed all the same."""
    relay, chain = net._net.relay, net._net.chain
    assert relay is not None
    relay.instead = 503, b""
    void = net.next_round()
    net.until(lambda: net.reader.drand_round(void) is not None, what="somebody pokes")
    with net._held.held():
        chain.mine_to(net.reader.first_block_of(void) + net.deployment.spec.chain.round_blocks // 2)
    net.until(lambda: all(node.done(void) for node in net.nodes), what="all are done with it")
    relay.instead = None
    assert net.reader.beacon(void) is None
    assert {node.rounds()[-1]["skipped"] for node in net.nodes} == {NO_BEACON}
    audits = AuditsReader(net.reader)
    for node in net.nodes:
        assert audits.commitment_of(node.address, void - 2, 1) is None, "revealed"
        assert net.reader.policy_of(node.address, void + 1) is not None
    after = net.next_round()
    wanted = {node.address for node in net.nodes}
    net.until(lambda: {batch.node for batch in net.reader.batches_of(after)} == wanted, what="all publish again")
    assert {net.reader.node_of(node.address).bond for node in net.nodes} == {int(net.deployment.spec.chain.bond, 16)}
