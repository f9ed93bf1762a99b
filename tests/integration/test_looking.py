"""Who answers without looking is disputed, rejected and slashed; who looked is left alone: on a real chain."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from sapo_client.duties.looking import Looking
from sapo_devnet.testkit.networks import BOND, Network
from sapo_verifier.audit import CheckResult
from sapo_verifier.chain.audits import BatchState, Votes
from sapo_verifier.chain.contracts import Call
from sapo_verifier.chain.events import pages
from sapo_verifier.chain.reader import NodeState
from sapo_verifier.chain.votes import Revealed
from sapo_verifier.objects import VerdictReport
from sapo_verifier.spots import Spots
from sheets import Answering, Sheet, answering_network, disputed, write
from voters import FakeStore, begin, play_round, send, set_back, settle_outboxes

ACCOUNTS = (1, 2, 3, 4)
HONEST = (2, 3, 4)
R = 2
DISPUTE_BOND = BOND // 20
Voters = dict[int, Answering]


@pytest.fixture(scope="module")
def world() -> Iterator[tuple[Network, FakeStore]]:
    with answering_network(ACCOUNTS, R) as made:
        yield made


@pytest.fixture
def network(world: tuple[Network, FakeStore]) -> Iterator[Network]:
    with set_back(world[0]) as made:
        yield made


@pytest.fixture
def voters(network: Network, world: tuple[Network, FakeStore], tmp_path: Path) -> Iterator[Voters]:
    """Each has a daemon with all manifests."""
    made = {account: Answering(network, account, tmp_path, FakeStore(dict(world[1].blocks))) for account in ACCOUNTS}
    yield made
    for voter in made.values():
        voter.close()


def index_of(voters: Voters, account: int) -> int:
    index = voters[account].reader.batch_of(voters[account].node, R)
    assert index is not None
    return index


def play(network: Network, voters: Voters, *rounds: int) -> None:
    for round_ in rounds:
        play_round(network, voters.values(), round_)


def unseen(spots: Mapping[int, Spots]) -> Sheet:
    """Somebody who guesses."""
    return {index: [7] * len(each.leaves) for index, each in spots.items()}


def draws(monkeypatch: pytest.MonkeyPatch, voter: Answering) -> None:
    """Everybody but the voter looks at one of its answers."""

    def draw(_: Looking, pairs: Sequence[tuple[Revealed, int]]) -> tuple[Revealed, int]:
        return next((pair for pair in pairs if pair[0].voter == voter.node), pairs[0])

    monkeypatch.setattr(Looking, "draw", draw)


def names_of_events(network: Network) -> list[str]:
    return [event.name for page in pages(network.reader(), None) for event in page.events]


def said_in_stage_2(voter: Answering, index: int) -> list[str]:
    report = VerdictReport.parse(voter.blocks.kept[-1])
    assert report.stage == 2
    return [found.check for batch in report.batches if batch.index == index for found in batch.findings]


def test_who_looked_at_everything_is_disputed_by_nobody(network: Network, voters: Voters) -> None:
    play(network, voters, *range(R + 1, R + 7))
    assert all(len(voter.pool.asked) == 1 for voter in voters.values()), "each looks at one"
    assert "BatchDisputed" not in names_of_events(network)
    for account, voter in voters.items():
        outcome = voter.audits.outcome_of(index_of(voters, account))
        assert (outcome.state, outcome.stage_1) == (BatchState.ACCEPTED, Votes(3, 0, 0, 3))
        assert voter.problems() == {}
        assert voter.reader.node_of(voter.node).bond == BOND


def test_who_guesses_loses_its_bond(network: Network, voters: Voters, monkeypatch: pytest.MonkeyPatch) -> None:
    lazy, index = voters[1], index_of(voters, 1)
    lazy.verdicts.sheet = unseen
    draws(monkeypatch, lazy)
    play(network, voters, R + 1, R + 2, R + 3)
    about = disputed(voters.values(), index)
    assert about <= {index_of(voters, account) for account in HONEST}
    mined = [key for voter in voters.values() for key in voter.outbox.keys("answers/") if voter.status(key) == "mined"]
    assert len(mined) == len(about) > 0, "one of all that saw it, for each batch"
    assert lazy.audits.outcome_of(index).state is BatchState.DISPUTED
    play(network, voters, R + 4, R + 5, R + 6, R + 7, R + 8)
    outcome = lazy.audits.outcome_of(index)
    assert (outcome.state, outcome.stage_1, outcome.stage_2) == (
        BatchState.REJECTED, Votes(3, 0, 0, 3), Votes(0, 3, 0, 3),
    )  # fmt: skip
    assert lazy.reader.node_of(lazy.node).state is NodeState.SLASHED
    report = next(b for b in map(VerdictReport.parse, voters[2].blocks.kept) if b.stage == 2)
    (said,) = [batch for batch in report.batches if batch.index == index]
    found = said.findings[-1]
    assert (said.verdict, found.check, found.status) == (2, "answers", "fail")
    assert found.slot is not None
    assert found.k is not None
    for account in HONEST:
        assert voters[account].audits.outcome_of(index_of(voters, account)).state is BatchState.ACCEPTED
        assert voters[account].reader.node_of(voters[account].node).bond == BOND
    closed = [e.args for page in pages(network.reader(), None) for e in page.events if e.name == "DisputeClosed"]
    assert {(args["index"], args["about"], args["paidBack"]) for args in closed} == {(index, a, True) for a in about}
    assert sum(args["amount"] for args in closed) > len(about) * DISPUTE_BOND, "and the bounty is who disputed's"


def test_a_friends_dispute_shields_nobody(network: Network, voters: Voters, monkeypatch: pytest.MonkeyPatch) -> None:
    """Disputed for itself first, the batch would be judged and stand."""
    lazy, index = voters[1], index_of(voters, 1)
    lazy.verdicts.sheet = unseen
    draws(monkeypatch, lazy)
    play(network, voters, R + 1, R + 2)
    begin(network, R + 3)
    send(network, [(9, Call("disputes", "dispute", (index, index)), DISPUTE_BOND)])
    for voter in voters.values():
        voter.play(R + 3)
    settle_outboxes(network, voters.values())
    assert disputed(voters.values(), index)
    play(network, voters, R + 4, R + 5, R + 6, R + 7)
    assert lazy.audits.outcome_of(index).state is BatchState.REJECTED
    assert lazy.reader.node_of(lazy.node).state is NodeState.SLASHED


@pytest.mark.parametrize("fault", ["another salt", "one answer more", "no answers"])
def test_who_was_dealt_its_batch_sees_a_ballot_that_is_all_false(
    network: Network, voters: Voters, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    """Whatever is drawn to be looked at: salt and number are held against what the policy vouches for."""
    false, index = voters[1], index_of(voters, 1)
    if fault == "another salt":
        false.verdicts.salts = lambda salt: bytes(31) + b"\1"
    elif fault == "one answer more":
        false.verdicts.sheet = lambda spots: {**write(spots), -1: [0]}
    else:
        false.verdicts.sheet = lambda spots: {}
    draws(monkeypatch, voters[2])
    play(network, voters, R + 1, R + 2, R + 3)
    assert len(disputed(voters.values(), index)) == 1, "all see the same, and dispute the same"
    play(network, voters, R + 4, R + 5)
    outcome = false.audits.outcome_of(index)
    assert outcome.stage_2 == Votes(0, 3, 0, 3)
    assert said_in_stage_2(voters[2], index) == ["answers"]


def test_what_a_stranger_doubts_without_reason_stays_accepted(network: Network, voters: Voters) -> None:
    index, about = index_of(voters, 1), index_of(voters, 2)
    play(network, voters, R + 1, R + 2)
    begin(network, R + 3)
    send(network, [(9, Call("disputes", "dispute", (index, about)), DISPUTE_BOND)])
    for voter in voters.values():
        voter.play(R + 3)
    settle_outboxes(network, voters.values())
    looked = {account: voters[account].pool.looked.count(index) for account in HONEST}
    play(network, voters, R + 4, R + 5, R + 6)
    outcome = voters[1].audits.outcome_of(index)
    assert (outcome.state, outcome.stage_2) == (BatchState.ACCEPTED, Votes(3, 0, 0, 3))
    again = {account: voters[account].pool.looked.count(index) for account in HONEST}
    assert again == looked, "not the batch is judged, but what its node said"
    assert all(any(each.batch.index == about for each in voters[account].pool.asked) for account in HONEST)
    assert all(voter.reader.node_of(voter.node).bond == BOND for voter in voters.values())
    closed = [e.args for page in pages(network.reader(), None) for e in page.events if e.name == "DisputeClosed"]
    assert closed == [], "the stranger's bond is nobody's affair, and does not come back"


@pytest.mark.parametrize("lost", ["the batch", "the manifest of its policy"])
def test_what_cannot_be_fetched_hurts_nobody(network: Network, voters: Voters, lost: str) -> None:
    """An author takes its batch away after stage 1, so that those who accepted it cannot be judged; or a voter is asked
    for its policy, and is away."""
    index, about = index_of(voters, 1), index_of(voters, 2)
    play(network, voters, R + 1, R + 2)
    for account in HONEST:
        if lost == "the batch":
            voters[account].pool.judged[about] = CheckResult("answers", "void", "available void: nobody has it")
        else:
            voters[account].store.blocks.clear()
    begin(network, R + 3)
    send(network, [(9, Call("disputes", "dispute", (index, about)), DISPUTE_BOND)])
    for voter in voters.values():
        voter.play(R + 3)
    settle_outboxes(network, voters.values())
    assert not any(voter.outbox.keys("answers/") for voter in voters.values()), "nobody disputes what it cannot tell"
    play(network, voters, R + 4, R + 5, R + 6)
    outcome = voters[1].audits.outcome_of(index)
    assert (outcome.state, outcome.stage_2) == (BatchState.ACCEPTED, Votes(0, 0, 3, 3))
    assert said_in_stage_2(voters[2], index) == ["answers"]
    assert all(voter.reader.node_of(voter.node).bond == BOND for voter in voters.values())


def test_who_runs_no_policy_looks_at_nobody(network: Network, voters: Voters) -> None:
    for voter in voters.values():
        voter.auditor = replace(voter.auditor, model=None)
        voter.restart()
    voters[1].verdicts.sheet = unseen
    play(network, voters, R + 1, R + 2, R + 3)
    assert not any(voter.pool.asked for voter in voters.values())
    assert "BatchDisputed" not in names_of_events(network)
