"""What was forgotten is not done a second time: every kind of key, put by what puts it, on a real chain."""

from collections.abc import Iterable, Iterator
from types import SimpleNamespace
from typing import Any, cast

import pytest

from outboxes import nonce
from sapo_client.batches.submitting import Submissions
from sapo_client.duties.claiming import claim_all
from sapo_client.duties.registration import ensure_registered
from sapo_client.node.loop import Node
from sapo_client.policy.published import Published
from sapo_devnet.testkit.networks import BOND, Network
from sapo_verifier.chain.contracts import Call
from sapo_verifier.objects import NO_AUDIT, PolicyManifest
from sapo_verifier.proofs import Proof
from voters import FAIL, Voter, begin, commit, light_parts, play_round, set_back, settle_outboxes

ACCOUNTS = (1, 2, 3, 4)
R = 2
ROUNDS = 60  # fewer than settings allow


@pytest.fixture
def network(begun: Network) -> Iterator[Network]:
    with set_back(begun):
        yield begun


def kinds(voters: Iterable[Voter]) -> set[str]:
    return {key.split("/")[0] for voter in voters for key in voter.outbox.keys("")}


def later(network: Network, voters: Iterable[Voter]) -> int:
    """So many rounds later that everything is forgotten; the round."""
    voters = list(voters)
    for _ in range(3):
        network.chain.mine()
        for voter in voters:
            voter.outbox.pump()
    round_ = pass_by(network, voters[0])
    for voter in voters:
        voter.outbox.pump()
        assert voter.outbox.pending() == []
        assert voter.outbox.keys("") != []
        # What was refused, and so has no block, is dated by the first pass.
        assert not voter.outbox.compact(ROUNDS, round_)
        voter.outbox.compact(ROUNDS, round_ + ROUNDS + 1)
        assert voter.outbox.keys("") == []
    return round_


def pass_by(network: Network, voter: Voter) -> int:
    """ROUNDS and one more go by; the round."""
    first = voter.reader.current_round()
    for round_ in range(first + 5, first + ROUNDS + 6, 5):  # in parts, or the RPC's time is over
        network.mine_to_round(round_)
    return voter.reader.current_round()


def nothing_is_done_again(network: Network, voters: dict[int, Voter], rounds: Iterable[int]) -> None:
    before = {account: nonce(network, voter.outbox) for account, voter in voters.items()}
    for round_ in rounds:
        play_round(network, voters.values(), round_)
    assert {account: nonce(network, voter.outbox) for account, voter in voters.items()} == before
    assert all(voter.outbox.keys("") == [] for voter in voters.values())


def test_verdicts_slashes_settlements_and_claims(network: Network, voters: dict[int, Voter]) -> None:
    """One is slashed, one owes for a batch and tops up, two accepted what was false: all that follows from votes."""
    false = voters[1].reader.batch_of(voters[1].node, R)
    assert false is not None
    voters[2].pool.findings[false] = FAIL
    commit(network, [3], R + 1)
    for round_ in range(R + 1, R + 4):
        play_round(network, voters.values(), round_)
    for account in (2, 3, 4):
        voters[account].pool.findings[false] = FAIL
    for round_ in range(R + 4, R + 9):
        play_round(network, voters.values(), round_)
    assert kinds(voters.values()) >= {"verdicts", "reveal", "claim", "settle", "top-up", "slash"}
    final = later(network, voters.values())
    nothing_is_done_again(network, voters, range(final + 1, final + 4))


def test_disputes_their_bonds_and_proofs(network: Network, voters: dict[int, Voter]) -> None:
    """A batch is gone after stage 1, another one is found false too late to vote on it."""
    gone, false = (voters[account].reader.batch_of(voters[account].node, R) for account in (1, 2))
    assert gone is not None
    assert false is not None
    for round_ in (R + 1, R + 2):
        play_round(network, voters.values(), round_)
    for voter in voters.values():
        voter.presence.away = {gone}
    finder = voters[4]
    stored = finder.ballot(R, 1)
    assert stored is not None
    window = [batch.index for batch in finder.auditor.window(R, 1)]
    word = stored.word ^ (3 << 2 * window.index(false))  # accept, and reject instead
    with finder.ballots._db as db:
        db.execute("UPDATE ballot SET word = ?", (hex(word),))
    for round_ in range(R + 3, R + 9):
        play_round(network, voters.values(), round_)
    assert kinds(voters.values()) >= {"absent", "dispute", "close"}
    final = later(network, voters.values())
    for voter in voters.values():
        assert voter.duties.disputes._may_risk(final)
    nothing_is_done_again(network, voters, range(final + 1, final + 4))


def test_a_proof_is_sent_while_its_batch_is_open_and_not_after(network: Network, voters: dict[int, Voter]) -> None:
    voter = voters[4]
    index = voter.reader.batch_of(voters[1].node, R)
    assert index is not None
    # Of what it costs, and whether it holds, the chain is asked before: a call that it takes stands in for a proof.
    proof = Proof(0, 0, 0, "false", Call("nodes", "setEndpoint", ("/ip4/10.0.0.1/tcp/81/http",)))
    voter.pool.found.append((voter.reader.batch_at(index), proof))
    play_round(network, [voter], R + 1)
    assert voter.status(f"prove/{index}") == "mined"
    for round_ in range(R + 2, R + 8):
        play_round(network, [voter], round_)
    final = later(network, [voter])
    nothing_is_done_again(network, {4: voter}, range(final + 1, final + 3))


def test_pokes_policies_and_batches_of_the_loop(network: Network, voters: dict[int, Voter]) -> None:
    voter, round_, unused = voters[1], R + 2, cast("Any", None)
    published = Published.of(PolicyManifest(audit=NO_AUDIT, base="tiny", kind="base", size=0, blocks=[]).encode(), [])
    learner = SimpleNamespace(published=published, config=SimpleNamespace(own_groups=2))
    parts = light_parts(voter, learner=learner)
    polls: Any = SimpleNamespace(wait=lambda _: network.chain.mine(), is_set=lambda: False)
    node = Node(parts, polls)
    own = Submissions(voter.reader, voter.outbox, unused, unused, network.spec, voter.node)
    network.mine_to_round(round_ - 1)
    node._commit(round_ - 1, voter.reader.node_of(voter.node))
    network.chain.mine()
    network.mine_to_round(round_)
    beacon = node._beacon(round_)
    assert beacon is not None
    dealt = own.dealt(round_, beacon)
    assert dealt is not None
    made = dealt.made(b"\1" * 32, b"\2" * 32, 1)
    own.submit(made)
    settle_outboxes(network, [voter])
    assert kinds([voter]) == {"commit", "poke", "submit"}
    assert {voter.status(key) for key in voter.outbox.keys("")} == {"mined"}
    sent = nonce(network, voter.outbox)
    later(network, [voter])
    # The loop plays the chain's round only; asked about the old one all the same, the chain says what was done.
    assert node._beacon(round_) == beacon
    assert own.submitted(dealt) == made
    assert nonce(network, voter.outbox) == sent


def test_registration_stays_and_an_endpoint_is_not_set_again(network: Network, voters: dict[int, Voter]) -> None:
    voter = Voter(network, 6, voters[1].folder)
    stop: Any = SimpleNamespace(is_set=lambda: False, wait=lambda _: network.chain.mine())

    def ensure(endpoint: str) -> None:
        ensure_registered(voter.reader, voter.outbox, voter.node, voter.node, endpoint, register=True, stop=stop)

    first, second = (f"/ip4/10.0.0.{number}/tcp/80/http" for number in (1, 2))
    ensure(first)
    ensure(second)
    (endpoint,) = voter.outbox.keys("endpoint/")
    network.chain.mine(3)
    voter.outbox.pump()
    voter.outbox.compact(ROUNDS, pass_by(network, voter))
    assert voter.outbox.keys("") == ["register/0"]
    sent = nonce(network, voter.outbox)
    ensure(second)
    assert nonce(network, voter.outbox) == sent
    ensure(first)
    assert nonce(network, voter.outbox) == sent + 1, "one that is new is set"
    assert voter.reader.node_of(voter.node).bond == BOND
    assert voter.outbox.keys("endpoint/") != [endpoint]
    voter.close()


def test_sapo_claim_claims_nothing_twice(network: Network, voters: dict[int, Voter]) -> None:
    for round_ in range(R + 1, R + 3):
        play_round(network, voters.values(), round_)
    for round_ in range(R + 3, R + 7):
        begin(network, round_)
    voter = voters[2]
    network.chain.rpc("evm_setAutomine", True)
    claimed = claim_all(voter.reader, voter.outbox, voter.node, 0)
    assert [row["round"] for row in claimed["rounds"]] == [R]
    assert voter.outbox.keys("claim/") == [f"claim/{R}"]
    sent = nonce(network, voter.outbox)
    later(network, [voter])
    assert claim_all(voter.reader, voter.outbox, voter.node, 0)["rounds"] == []
    assert nonce(network, voter.outbox) == sent
    network.chain.rpc("evm_setAutomine", False)


def test_a_gap_s_empty_transaction_and_the_next_nonce(network: Network, voters: dict[int, Voter]) -> None:
    """Nonces of what is in flight are held however old it is; the next one follows from them and from the chain."""
    voter = voters[1]
    call = Call("nodes", "setEndpoint", ("/ip4/10.0.0.1/tcp/81/http",))
    for key in ("endpoint/1", "endpoint/2"):
        voter.outbox.put(key, call)
    voter.outbox.pump()
    held = [entry.nonce for entry in voter.outbox._store.in_flight()]
    network.chain.rpc("anvil_dropAllTransactions")
    for current in (500, 1000, 1500):
        voter.outbox.compact(ROUNDS, current)
    assert [entry.nonce for entry in voter.outbox._store.in_flight()] == held
    voter.outbox.put("endpoint/3", call)
    voter.outbox.pump()
    assert [entry.nonce for entry in voter.outbox._store.in_flight()] == [*held, held[-1] + 1]  # type: ignore[operator]
    settle_outboxes(network, [voter])
    assert {voter.status(f"endpoint/{number}") for number in (1, 2, 3)} == {"mined"}
    later(network, [voter])
    voter.outbox.put("endpoint/4", call)
    voter.outbox.pump()
    assert [entry.nonce for entry in voter.outbox._store.in_flight()] == [nonce(network, voter.outbox)]
