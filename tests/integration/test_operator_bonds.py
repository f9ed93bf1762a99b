"""What an operator's key pays for its node comes back to it."""

from collections.abc import Iterator

import pytest

from sapo_devnet.testkit.networks import BOND, Network
from sapo_verifier.chain.audits import BatchState
from sapo_verifier.chain.contracts import Call
from voters import FAIL, Voter, play_round, send, set_back

ACCOUNTS = (1, 2, 3, 4)
R = 2


@pytest.fixture
def network(begun: Network) -> Iterator[Network]:
    with set_back(begun):
        yield begun


def test_the_bond_of_an_operator_s_dispute_comes_back(network: Network, voters: dict[int, Voter]) -> None:
    finder, operator = voters.pop(4), network.chain.account(8).address.lower()
    send(network, [(4, Call("nodes", "setOperator", (operator,)), 0)])
    finder.operator = 8
    finder.restart()
    for round_ in (R + 1, R + 2):
        play_round(network, voters.values(), round_)
    false = voters[1].reader.batch_of(voters[1].node, R)
    assert false is not None
    finder.pool.findings[false] = FAIL
    finder.fill_in(R)
    for voter in voters.values():
        voter.pool.findings[false] = FAIL
    before = finder.reader.balance(operator)
    for round_ in range(R + 3, R + 8):
        play_round(network, [*voters.values(), finder], round_)
    outcome = finder.audits.outcome_of(false)
    assert (outcome.state, outcome.disputer) == (BatchState.REJECTED, None)
    assert finder.reader.balance(operator) - before > BOND // 10 - BOND // 100, "with the bounty"
