"""A fine that comes in the middle of a round: the promise that it stands in the way of is made in the same round."""

from collections.abc import Iterator
from functools import partial

import pytest

from sapo_client.duties.promises import Promise
from sapo_client.transactions.turns import latest, put_anew
from sapo_devnet.testkit.networks import BOND, Network
from sapo_verifier.chain.audits import BallotState
from sapo_verifier.chain.contracts import Call
from voters import POLICY, Voter, begin, play_round, send, set_back, settle_outboxes

ACCOUNTS, R = (3, 4), 2
FINE = BOND // 20
LAST = R + 1  # in which a policy for R + 2 is committed
KEY = f"commit/{R + 2}"


@pytest.fixture
def network(begun: Network) -> Iterator[Network]:
    with set_back(begun) as made:
        yield made


@pytest.fixture
def voter(network: Network, voters: dict[int, Voter]) -> Voter:
    """In round R + 1, with nothing done in it."""
    begin(network, LAST)
    return voters[3]


def fine(network: Network, voter: Voter) -> None:
    """As the settlement of a wrong verdict by somebody else takes it."""
    audits, before = network.deployment.contracts.audits, voter.reader.node_of(voter.node).bond
    network.chain.rpc("anvil_impersonateAccount", audits)
    network.chain.rpc("anvil_setBalance", audits, hex(2 * BOND))
    call = Call("nodes", "fine", (voter.node, FINE, "0x" + "77" * 20, 10))
    to, data = network.deployment.contracts.nodes, "0x" + call.encode().hex()
    # Dearer, so that it comes before the node's own in its block.
    fees = {"gas": hex(10**6), "maxPriorityFeePerGas": hex(10**10), "maxFeePerGas": hex(10**11)}
    network.chain.rpc("eth_sendTransaction", {"from": audits, "to": to, "data": data, **fees})
    network.chain.mine()
    assert voter.reader.node_of(voter.node).bond == before - FINE


def promise(voter: Voter) -> Promise:
    """A policy, as a node promises it."""
    call = Call("rounds", "commitPolicy", (voter.node, R + 2, POLICY, 2))
    return Promise(KEY, LAST, partial(put_anew, voter.outbox, KEY, call, deadline_round=LAST))


def assert_made(voter: Voter) -> None:
    assert voter.reader.current_round() == LAST, "in the same round"
    assert voter.reader.policy_of(voter.node, R + 2) is not None
    assert voter.reader.node_of(voter.node).active


def test_a_fine_before_the_promise(network: Network, voter: Voter) -> None:
    fine(network, voter)
    voter.duties.promises.make(promise(voter))
    settle_outboxes(network, [voter])
    assert_made(voter)
    assert voter.problems() == {}


def test_a_fine_after_the_promise_was_put(network: Network, voter: Voter) -> None:
    voter.duties.promises.make(promise(voter))
    fine(network, voter)
    settle_outboxes(network, [voter])
    assert voter.status(KEY) == "failed"
    for _ in range(4):
        voter.step()
        network.chain.mine()
    settle_outboxes(network, [voter])
    assert_made(voter)
    assert "is not active" in voter.problems()[KEY]


def test_two_fines_in_one_round(network: Network, voter: Voter) -> None:
    fine(network, voter)
    voter.duties.promises.make(promise(voter))
    settle_outboxes(network, [voter])
    assert_made(voter)
    fine(network, voter)
    assert voter.duties.bond.restore()
    settle_outboxes(network, [voter])
    assert voter.reader.node_of(voter.node).active
    assert voter.status(f"top-up/{LAST}/2") == "mined"


def test_a_top_up_that_another_fine_made_wrong_is_put_anew(network: Network, voter: Voter) -> None:
    fine(network, voter)
    voter.duties.promises.make(promise(voter))
    fine(network, voter)
    for _ in range(8):
        voter.step()
        network.chain.mine()
    assert_made(voter)
    assert "misses exactly 0.1 coins, and 0.05 were sent" in voter.problems()[f"top-up/{LAST}"]


def test_an_empty_account_that_is_filled_in_time(network: Network, voter: Voter) -> None:
    fine(network, voter)
    held = voter.reader.balance(voter.node)
    network.chain.rpc("anvil_setBalance", voter.node, hex(FINE))
    voter.duties.promises.make(promise(voter))
    for _ in range(2):
        voter.step()
        network.chain.mine()
    assert latest(voter.outbox, KEY).status == "none"
    assert any("holds only 0.05: send it" in words for words in voter.said)
    network.chain.rpc("anvil_setBalance", voter.node, hex(held))
    voter.step()
    for _ in range(4):
        network.chain.mine()
        voter.step()
    settle_outboxes(network, [voter])
    assert_made(voter)


def test_who_does_not_pay_waits_until_somebody_did(network: Network, voter: Voter) -> None:
    voter.duties.promises.pays = False
    fine(network, voter)
    voter.duties.promises.make(promise(voter))
    voter.step()
    assert voter.outbox.keys("") == []
    send(network, [(9, Call("nodes", "topUp", (voter.node,)), FINE)])
    voter.step()
    settle_outboxes(network, [voter])
    assert_made(voter)
    assert voter.outbox.keys("") == [KEY]


def test_it_is_not_tried_for_ever(network: Network, voter: Voter) -> None:
    """A promise whose round is over is forgotten."""
    fine(network, voter)
    network.chain.rpc("anvil_setBalance", voter.node, hex(FINE))
    voter.duties.promises.make(promise(voter))
    network.mine_to_round(LAST + 1)
    voter.step()
    assert voter.duties.promises._kept == {}
    voter.step()
    assert latest(voter.outbox, KEY).status == "none"


def test_verdicts_too_are_committed_in_the_round_of_the_fine(network: Network, voter: Voter) -> None:
    voter.duties.begin()
    voter.duties.play(LAST)
    fine(network, voter)
    settle_outboxes(network, [voter])
    assert voter.status(f"verdicts/{R}/1") == "failed"
    for _ in range(4):
        voter.step()
        network.chain.mine()
    settle_outboxes(network, [voter])
    assert voter.audits.verdicts_of(voter.node, R, 1)[0] is BallotState.COMMITTED
    assert voter.reader.current_round() == LAST


def test_a_settlement_names_the_sum_that_was_taken(
    network: Network, voter: Voter, voters: dict[int, Voter], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    play_round(network, voters.values(), LAST)
    for later in (LAST + 1, LAST + 2):
        begin(network, later)  # it reveals nothing
    before = voter.reader.node_of(voter.node).bond
    assert voter.duties.bond.restore()
    settle_outboxes(network, [voter])
    voter.step()
    settled = voter.reader.node_of(voter.node)
    fee = voter.audits.terms().missed_reveal_fee
    assert (before, settled.active) == (BOND, True)
    words = [record.getMessage() for record in caplog.records]
    owed, whole = f"{fee / 10**18:g}", f"{fee / 10**18:g} coins were taken from the bond"
    assert any(f"round {R}: {owed} coins are owed" in line for line in words), words
    assert any(f"round {R} is settled: {whole}" in line for line in words), words
    assert not any("0 coins" in line.split(": ", 1)[-1].split()[:2] for line in words)
