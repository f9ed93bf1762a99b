"""Reorganizations between a commitment and its reveal: what is committed fits the chain that is, or that is said."""

from collections.abc import Iterator

import pytest

from sapo_devnet.testkit.networks import Network
from sapo_verifier.chain.audits import BallotState, BatchState
from sapo_verifier.chain.contracts import Call
from voters import Voter, begin, network_with_batches, play_round, send, settle_outboxes

ACCOUNTS = (1, 2, 3)
R = 2  # the round that is judged


@pytest.fixture
def network() -> Iterator[Network]:
    """Not one that is set back: Anvil cannot reorganize a chain after that."""
    with network_with_batches(ACCOUNTS, R) as made:
        yield made


def reorg_from(network: Network, first: int) -> None:
    """Replaces all blocks from number `first` on by empty ones."""
    network.chain.reorg(network.chain.w3.eth.block_number - first + 1)


def first_block(network: Network, round_: int) -> int:
    return network.deployment.first_block + round_ * network.spec.chain.round_blocks


def settle_until(network: Network, voters: dict[int, Voter], blocks: int = 8) -> None:
    """As settle_outboxes, where something may stay in the outbox."""
    for _ in range(blocks):
        network.chain.mine()
        for voter in voters.values():
            voter.step()


def test_another_beacon_is_committed_to_anew_and_that_is_revealed(network: Network, voters: dict[int, Voter]) -> None:
    dealt = begin(network, R + 1)
    for voter in voters.values():
        voter.play(R + 1)
    settle_outboxes(network, voters.values())
    first = voters[1].audits.commitment_of(voters[1].node, R, 1)
    assert first is not None

    reorg_from(network, first_block(network, R + 1))
    assert voters[1].audits.commitment_of(voters[1].node, R, 1) is None
    for voter in voters.values():
        voter.outbox.pump()  # before anybody has captured the new beacon: the old commitment must not go out again
    network.chain.mine()
    for voter in voters.values():
        assert voter.audits.commitment_of(voter.node, R, 1) is None
    send(network, [(0, Call("rounds", "poke"), 0)])
    assert network.reader().beacon(R + 1) not in (None, dealt)
    for voter in voters.values():
        voter.play(R + 1)
    settle_until(network, voters)
    for voter in voters.values():
        again = voter.audits.commitment_of(voter.node, R, 1)
        assert again not in (None, first)
        assert voter.status(f"verdicts/{R}/1") == "expired"
        assert voter.status(f"verdicts/{R}/1/2") == "mined"

    play_round(network, voters.values(), R + 2)
    for voter in voters.values():
        assert voter.audits.verdicts_of(voter.node, R, 1)[0] is BallotState.REVEALED
        assert voter.said == []
    begin(network, R + 3)
    index = voters[1].reader.batch_of(voters[1].node, R)
    assert index is not None
    assert voters[1].audits.outcome_of(index).state is BatchState.STANDING


def test_the_same_beacon_needs_no_other_commitment(network: Network, voters: dict[int, Voter]) -> None:
    """Only the commitment is lost: its beacon's block is still there, so what is sent again is right."""
    begin(network, R + 1)
    after = network.chain.w3.eth.block_number + 1
    for voter in voters.values():
        voter.play(R + 1)
    settle_outboxes(network, voters.values())
    reorg_from(network, after)
    for voter in voters.values():
        assert voter.audits.commitment_of(voter.node, R, 1) is None
        voter.outbox.pump()
        voter.play(R + 1)
    settle_outboxes(network, voters.values())
    for voter in voters.values():
        assert voter.status(f"verdicts/{R}/1") == "mined"
        assert voter.outbox.call_of(f"verdicts/{R}/1/2") is None
    play_round(network, voters.values(), R + 2)
    assert voters[1].audits.verdicts_of(voters[1].node, R, 1)[0] is BallotState.REVEALED


def test_what_was_committed_to_another_history_is_refused_and_not_fined(
    network: Network, voters: dict[int, Voter]
) -> None:
    """The network mines the old commitment again before the node can take it back: it names its beacon."""
    begin(network, R + 1)
    voter = voters[1]
    voter.play(R + 1)
    settle_outboxes(network, [voter])
    entry = voter.outbox._store.get(f"verdicts/{R}/1")
    assert entry is not None
    raw = voter.outbox._store.attempts([entry])[entry.id][-1].raw
    reorg_from(network, first_block(network, R + 1))
    send(network, [(0, Call("rounds", "poke"), 0)])  # else its gas is not enough
    sent = network.chain.w3.eth.send_raw_transaction(raw)
    network.chain.mine()
    assert network.chain.w3.eth.get_transaction_receipt(sent)["status"] == 0
    assert voter.audits.commitment_of(voter.node, R, 1) is None
    voter.play(R + 1)
    settle_until(network, {1: voter})
    play_round(network, [voter], R + 2)
    assert voter.audits.verdicts_of(voter.node, R, 1)[0] is BallotState.REVEALED
    assert voter.said == []
