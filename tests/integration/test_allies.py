"""What an attacker's friends do to keep honest nodes away, and what honest nodes do all the same: on a real chain."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from sapo_devnet.testkit.anvil import anvil
from sapo_devnet.testkit.networks import BOND, Network, deploy_on
from sapo_verifier import protocol
from sapo_verifier.chain.audits import BatchState, Votes
from sapo_verifier.chain.contracts import Call
from sapo_verifier.chain.events import pages
from sapo_verifier.chain.reader import NodeState
from sapo_verifier.proofs import Proof
from voters import FAIL, Voter, address, begin, commit, play_round, register, send, set_back, settle_outboxes, submit

ACCOUNTS = (1, 2, 3, 4)
R = 2
PENALTY = BOND // 20
WRONG_VERDICT = 2  # the debt's number


@pytest.fixture
def network(begun: Network) -> Iterator[Network]:
    with set_back(begun):
        yield begun


def index_of(network: Network, account: int, round_: int = R) -> int:
    index = network.reader().batch_of(address(network, account), round_)
    assert index is not None
    return index


def test_a_friends_dispute_about_something_else_keeps_nobody_away(network: Network, voters: dict[int, Voter]) -> None:
    """Disputed only for what its node said of another batch, the batch would stand, though its blocks are gone."""
    gone, about = index_of(network, 1), index_of(network, 2)
    for round_ in (R + 1, R + 2):
        play_round(network, voters.values(), round_)
    for voter in voters.values():
        voter.presence.away = {gone}
    begin(network, R + 3)
    send(network, [(9, Call("disputes", "dispute", (gone, about)), BOND // 20)])
    outcome = voters[2].audits.outcome_of(gone)
    assert (outcome.state, outcome.disputer) == (BatchState.DISPUTED, None), "by the friend, about something else"
    for voter in voters.values():
        voter.play(R + 3)
    settle_outboxes(network, voters.values())
    assert voters[2].audits.outcome_of(gone).disputer in {voter.node for voter in voters.values()}
    for round_ in range(R + 4, R + 7):
        play_round(network, voters.values(), round_)
    outcome = voters[2].audits.outcome_of(gone)
    assert (outcome.state, outcome.stage_2) == (BatchState.VOID, Votes(0, 0, 3, 3))


def test_a_batch_that_was_disputed_itself_is_not_disputed_again(network: Network, voters: dict[int, Voter]) -> None:
    gone = index_of(network, 1)
    for round_ in (R + 1, R + 2):
        play_round(network, voters.values(), round_)
    for voter in voters.values():
        voter.presence.away = {gone}
    begin(network, R + 3)
    send(network, [(9, Call("disputes", "dispute", (gone, gone)), BOND // 20)])
    for voter in voters.values():
        voter.play(R + 3)
    settle_outboxes(network, voters.values())
    assert voters[2].audits.outcome_of(gone).disputer == address(network, 9)
    assert not any(voter.outbox.keys("absent/") for voter in voters.values())


EMPTY = [protocol.leaf(i, 0, protocol.records_root(b"")) for i in range(8)]
"""Completions without a record: none may be so short, and the root alone shows it."""


def is_too_short(index: int) -> Call:
    leaf = (0, 0, protocol.records_root(b""), tuple(protocol.merkle_path(EMPTY, 0)))
    return Call("proofs", "proveLength", (index, leaf))


def submit_empty(network: Network, account: int, round_: int) -> None:
    beacon = network.reader().beacon(round_)
    assert beacon is not None
    root = protocol.merkle_root(EMPTY)
    send(network, [(account, Call("rounds", "submit", (address(network, account), round_, beacon, root, root, 1)), 0)])


@pytest.fixture
def slashing(tmp_path: Path) -> Iterator[tuple[Network, dict[int, Voter]]]:
    """Account 1 has a false batch in R, and 2, 3, 4 have others. All are voters but for 1."""
    with anvil() as chain:
        network = deploy_on(chain)
        register(network, ACCOUNTS)
        commit(network, ACCOUNTS, R)
        submit(network, {2: 2, 3: 3, 4: 4}, R)
        submit_empty(network, 1, R)
        commit(network, [1], R + 1)
        made = {account: Voter(network, account, tmp_path) for account in (2, 3, 4)}
        yield network, made
        for voter in made.values():
            voter.close()
        network.close()


def test_who_slashes_itself_first_frees_nobody_who_accepted(slashing: tuple[Network, dict[int, Voter]]) -> None:
    network, voters = slashing
    false, node = index_of(network, 1), address(network, 1)
    for honest in (2, 4):
        call = is_too_short(false)
        voters[honest].pool.findings[false] = FAIL
        voters[honest].pool.found = [(voters[honest].reader.batch_at(false), Proof(0, 0, None, "no records", call))]
    begin(network, R + 1)
    submit_empty(network, 1, R + 1)
    send(network, [(1, is_too_short(index_of(network, 1, R + 1)), 0)])
    reader, audits = voters[2].reader, voters[2].audits
    assert reader.node_of(node).state is NodeState.SLASHED
    assert audits.outcome_of(false).state is BatchState.VOID, "for another batch: nothing says that this one is false"
    for voter in voters.values():
        voter.play(R + 1)
    settle_outboxes(network, voters.values())
    play_round(network, voters.values(), R + 2)
    assert audits.outcome_of(false).stage_1.accepts == 1, "the friend's"
    play_round(network, voters.values(), R + 3)
    assert audits.outcome_of(false).state is BatchState.PROVEN_FALSE
    for round_ in range(R + 4, R + 8):
        play_round(network, voters.values(), round_)
    settled = [event.args for page in pages(network.reader(), None) for event in page.events if event.name == "Settled"]
    assert [(args["node"], args["index"], args["debt"], args["fee"]) for args in settled] == [
        (voters[3].node, false, WRONG_VERDICT, PENALTY)
    ]


def test_nobody_proves_for_nothing(slashing: tuple[Network, dict[int, Voter]]) -> None:
    """Where nobody accepted what was voided, its proof would cost gas and bring nothing."""
    network, voters = slashing
    false = index_of(network, 1)
    for voter in voters.values():
        voter.pool.findings[false] = FAIL
        voter.pool.found = [(voter.reader.batch_at(false), Proof(0, 0, None, "no records", is_too_short(false)))]
    begin(network, R + 1)
    submit_empty(network, 1, R + 1)
    send(network, [(1, is_too_short(index_of(network, 1, R + 1)), 0)])
    for voter in voters.values():
        voter.play(R + 1)
    settle_outboxes(network, voters.values())
    for round_ in range(R + 2, R + 5):
        play_round(network, voters.values(), round_)
    assert voters[2].audits.outcome_of(false).state is BatchState.VOID
    assert not any(voter.outbox.keys("prove/") for voter in voters.values())
