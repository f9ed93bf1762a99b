"""Voting against the real contracts: verdicts, disputes, debts, claims. Only the findings are made up."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from anvil import anvil
from networks import BOND, Network, deploy_on
from sapo_client.voting import Voting
from sapo_verifier.chain.audits import AuditsReader, BallotState, BatchState, Votes
from sapo_verifier.chain.contracts import Call
from sapo_verifier.chain.events import pages
from sapo_verifier.cid import block_digest
from sapo_verifier.objects import VerdictReport
from voters import FAIL, UNKNOWN, VOID, Voter, begin, commit, play_round, register, send, settle_outboxes, submit

ACCOUNTS = (1, 2, 3, 4)
R = 2  # the round that is judged
FEE = BOND // 50  # of each miss
PENALTY = BOND // 20


@pytest.fixture(scope="module")
def begun() -> Iterator[Network]:
    """Four nodes with a batch each in round R; the account's number is the batch's score."""
    with anvil() as chain:
        made = deploy_on(chain)
        register(made, ACCOUNTS)
        commit(made, ACCOUNTS, R)
        submit(made, {account: account for account in ACCOUNTS}, R)
        yield made
        made.close()


@pytest.fixture
def network(begun: Network) -> Iterator[Network]:
    """The same chain for every test, set back to the same block."""
    point = begun.chain.rpc("evm_snapshot")
    yield begun
    begun.chain.rpc("anvil_dropAllTransactions")
    assert begun.chain.rpc("evm_revert", point)


@pytest.fixture
def audits(network: Network) -> AuditsReader:
    return AuditsReader(network.reader())


@pytest.fixture
def voters(network: Network, tmp_path: Path) -> Iterator[dict[int, Voter]]:
    """By account."""
    made = {account: Voter(network, account, tmp_path) for account in ACCOUNTS}
    yield made
    for voter in made.values():
        voter.close()


def index_of(voter: Voter) -> int:
    index = voter.reader.batch_of(voter.node, R)
    assert index is not None
    return index


def find(voters: dict[int, Voter], about: int, findings: dict[int, list]) -> None:
    """What some accounts find about one account's batch."""
    for account, outcomes in findings.items():
        voters[account].pool.findings[index_of(voters[about])] = outcomes


def play(network: Network, voters: dict[int, Voter], rounds: range) -> None:
    for round_ in rounds:
        play_round(network, voters.values(), round_)


def tokens(voter: Voter) -> int:
    return int(voter.reader.call(Call("token", "balanceOf", (voter.node,))))


def test_honest_voters_are_paid_to_the_wei(network: Network, voters: dict[int, Voter], audits: AuditsReader) -> None:
    play(network, voters, range(R + 1, R + 7))
    pool = 1000 * 10**18
    auditors = pool // 10  # 1,000 ten-thousandths
    per_unit = min((pool - auditors) // (1 + 2 + 3 + 4), 10**18)
    per_verdict = auditors // 12
    for account, voter in voters.items():
        assert audits.outcome_of(index_of(voter)).state is BatchState.ACCEPTED
        assert audits.outcome_of(index_of(voter)).stage_1 == Votes(3, 0, 0, 3)
        assert tokens(voter) == account * per_unit + 3 * per_verdict
        assert voter.problems() == {}
        assert voter.reader.node_of(voter.node).bond == BOND
        assert len(voter.kept) == 1, "the report of stage 1; there was no stage 2"
    totals = audits.totals(R)
    assert (totals.score, totals.paid_verdicts, totals.is_final) == (10, 12, True)


def test_nothing_is_said_twice(network: Network, voters: dict[int, Voter]) -> None:
    """A round that is played again, and one that nobody plays, send nothing new."""
    for round_ in range(R + 1, R + 7):
        play_round(network, voters.values(), round_)
        nonces = {account: count(network, voter) for account, voter in voters.items()}
        for voter in voters.values():
            voter.restart()
            voter.play(round_)
        settle_outboxes(network, voters.values())
        assert nonces == {account: count(network, voter) for account, voter in voters.items()}


def count(network: Network, voter: Voter) -> int:
    return network.chain.w3.eth.get_transaction_count(network.chain.w3.to_checksum_address(voter.node))


def test_the_report_says_why(network: Network, voters: dict[int, Voter]) -> None:
    find(voters, 1, {2: FAIL})
    find(voters, 3, {2: VOID})
    find(voters, 4, {2: UNKNOWN})
    play(network, voters, range(R + 1, R + 2))
    assert voters[2].kept == [], "nobody can copy what is not published before the commit window is over"
    play(network, voters, range(R + 2, R + 3))
    (block,) = voters[2].kept
    report = VerdictReport.parse(block)
    assert (report.round, report.stage, report.voter) == (R, 1, voters[2].node)
    said = {batch.index: (batch.verdict, [found.status for found in batch.findings]) for batch in report.batches}
    assert said == {
        index_of(voters[1]): (2, ["fail"]),
        index_of(voters[3]): (3, ["void"]),
        index_of(voters[4]): (0, ["unknown"]),
    }
    ballot = voters[2].ballots.get(R, 1)
    assert ballot is not None
    assert block_digest(ballot.report) == block_digest(block)
    state, word = voters[2].audits.verdicts_of(voters[2].node, R, 1)
    assert (state, word) == (BallotState.REVEALED, ballot.word)


def test_a_late_voter_still_sees_its_batch_accepted(network: Network, voters: dict[int, Voter]) -> None:
    """It missed the commit round: the others decide; it is paid for its batch, not for verdicts."""
    late = voters.pop(4)
    play(network, voters, range(R + 1, R + 2))
    play(network, voters | {4: late}, range(R + 2, R + 7))
    assert late.audits.outcome_of(index_of(late)).state is BatchState.ACCEPTED
    assert late.problems() == {}
    assert late.kept == []
    (pay,) = late.audits.payouts_of(late.node, [R])
    assert (pay.score, pay.verdicts, pay.claimed) == (4, 0, True)
    assert tokens(late) == pay.amount


def test_stage_2_rejects_what_one_voter_finds_false(network: Network, voters: dict[int, Voter]) -> None:
    """A reject in stage 1 disputes by itself; all look again, and find it, too."""
    find(voters, 1, {2: FAIL})
    play(network, voters, range(R + 1, R + 4))
    false = index_of(voters[1])
    assert voters[2].audits.outcome_of(false).state is BatchState.DISPUTED
    find(voters, 1, {2: FAIL, 3: FAIL, 4: FAIL})
    play(network, voters, range(R + 4, R + 8))
    outcome = voters[2].audits.outcome_of(false)
    assert (outcome.state, outcome.stage_2) == (BatchState.REJECTED, Votes(0, 3, 0, 3))
    assert voters[1].reader.node_of(voters[1].node).state == "slashed"
    assert tokens(voters[1]) == 0
    for account in (2, 3, 4):
        assert tokens(voters[account]) > 0
    # Accounts 3 and 4 accepted it in stage 1, which is punished once, as somebody settled it for a tenth.
    events = [event for page in pages(network.reader(), None) for event in page.events if event.name == "Settled"]
    wrong = {event.args["node"]: event.args for event in events if event.args["debt"] == 2}
    assert set(wrong) == {voters[3].node, voters[4].node}
    assert len(events) == 3
    assert {(args["index"], args["stage"], args["fee"]) for args in wrong.values()} == {(false, 1, PENALTY)}
    assert all(args["caller"] != node for node, args in wrong.items())
    play(network, voters, range(R + 8, R + 9))
    assert all(voters[account].reader.node_of(voters[account].node).bond == BOND for account in (2, 3, 4))


def test_a_dispute_of_what_the_others_let_pass(network: Network, voters: dict[int, Voter], tmp_path: Path) -> None:
    """The one that found it false was not in time to say so in stage 1."""
    finder = voters.pop(4)
    play(network, voters, range(R + 1, R + 3))
    false = index_of(voters[1])
    finder.pool.findings[false] = FAIL
    ballot = Voting._fill_in(finder.voting(R + 1), R, 1, finder.pool.window(R, 1))
    assert ballot is not None
    assert finder.audits.outcome_of(false).stage_1 == Votes(2, 0, 0, 2)
    find(voters, 1, {2: FAIL, 3: FAIL})
    play(network, voters | {4: finder}, range(R + 3, R + 4))
    outcome = finder.audits.outcome_of(false)
    assert (outcome.state, outcome.disputer) == (BatchState.DISPUTED, finder.node)
    before = finder.reader.balance(finder.node)
    play(network, voters | {4: finder}, range(R + 4, R + 7))
    outcome = finder.audits.outcome_of(false)
    assert (outcome.state, outcome.disputer) == (BatchState.REJECTED, None)
    assert finder.reader.balance(finder.node) > before + BOND // 20 - BOND // 100, "the bond came back"


def test_a_frivolous_dispute_is_burned(network: Network, voters: dict[int, Voter]) -> None:
    play(network, voters, range(R + 1, R + 3))
    begin(network, R + 3)
    index = index_of(voters[1])
    send(network, [(9, Call("audits", "dispute", (index,)), BOND // 20)])
    play(network, voters, range(R + 3, R + 7))
    outcome = voters[2].audits.outcome_of(index)
    assert (outcome.state, outcome.stage_2) == (BatchState.ACCEPTED, Votes(3, 0, 0, 3))
    send(network, [(2, Call("audits", "closeDispute", (index,)), 0)])
    assert network.chain.w3.eth.get_balance("0x" + "00" * 20) >= BOND // 20


def test_who_can_say_nothing_commits_nothing(network: Network, voters: dict[int, Voter]) -> None:
    """A word of abstentions only: the gas would buy nothing, and its batch needs it not."""
    for account in (1, 3, 4):
        voters[2].pool.findings[index_of(voters[account])] = UNKNOWN
    play(network, voters, range(R + 1, R + 7))
    assert voters[2].outbox.call_of(f"verdicts/{R}/1") is None
    assert voters[2].ballots.get(R, 1) is None
    (pay,) = voters[2].audits.payouts_of(voters[2].node, [R])
    assert (pay.score, pay.verdicts, pay.claimed) == (2, 0, True)


def test_an_abstention_is_counted(network: Network, voters: dict[int, Voter]) -> None:
    find(voters, 1, {2: UNKNOWN})
    play(network, voters, range(R + 1, R + 4))
    outcome = voters[2].audits.outcome_of(index_of(voters[1]))
    assert (outcome.state, outcome.stage_1) == (BatchState.STANDING, Votes(2, 0, 0, 3))


def test_a_crash_between_commit_and_reveal(network: Network, voters: dict[int, Voter]) -> None:
    play(network, voters, range(R + 1, R + 2))
    voters[3].restart()
    voters[3].pool.findings.clear()
    play(network, voters, range(R + 2, R + 3))
    assert voters[3].status(f"reveal/{R}/1") == "mined"
    assert len(voters[3].kept) == 1


def test_a_lost_outbox_does_not_lose_the_reveal(network: Network, voters: dict[int, Voter]) -> None:
    """The ballot is on disk and the commitment on chain; that is all it takes."""
    play(network, voters, range(R + 1, R + 2))
    voter = voters[3]
    voter.close()
    for file in voter.folder.glob("outbox*"):
        file.unlink()
    voter._open()
    play(network, voters, range(R + 2, R + 3))
    assert voter.status(f"reveal/{R}/1") == "mined"


def test_what_was_not_committed_is_not_revealed(network: Network, voters: dict[int, Voter]) -> None:
    """The ballot is on disk, but its commitment never got into a block."""
    begin(network, R + 1)
    voters[3].play(R + 1)
    assert voters[3].status(f"verdicts/{R}/1") == "sent"
    network.chain.rpc("anvil_dropAllTransactions")
    voters[3].ballots.get(R, 1)
    play(network, voters, range(R + 2, R + 3))
    assert voters[3].outbox.call_of(f"reveal/{R}/1") is None
    assert voters[3].kept == []
    assert voters[3].status(f"verdicts/{R}/1") == "expired"
    assert voters[3].audits.is_settled(voters[3].node)


def test_own_debts_are_settled_and_the_bond_topped_up(network: Network, voters: dict[int, Voter]) -> None:
    """It committed a policy and verdicts, and was away: when it is back, one round puts it right."""
    voter = voters[3]
    play(network, voters, range(R + 1, R + 2))
    commit(network, [3], R + 2)
    voters.pop(3)
    play(network, voters, range(R + 2, R + 4))
    assert not voter.audits.is_settled(voter.node)
    before = voter.reader.balance(voter.node)
    play_round(network, [voter], R + 4)
    assert voter.audits.is_settled(voter.node)
    info = voter.reader.node_of(voter.node)
    assert (info.bond, info.active) == (BOND, True)
    paid = before - voter.reader.balance(voter.node)
    owed = 2 * FEE
    assert owed - owed // 10 <= paid < owed, "a tenth comes back to the caller, and gas is cheap"
    assert voter.problems() == {}
    assert voter.status(f"top-up/{R + 4}") == "mined"


def test_debts_of_long_ago_are_found(network: Network, voters: dict[int, Voter]) -> None:
    """A node that was stopped for many rounds would otherwise never be able to promise anything again."""
    voter = voters[3]
    play_round(network, [voter], R + 1)
    commit(network, [3], R + 2)
    play_round(network, [], R + 2)  # with a beacon: only then a batch was missed
    play_round(network, [voter], R + 40)
    assert voter.audits.is_settled(voter.node)
    assert voter.reader.node_of(voter.node).active


def test_somebody_else_settles_first(network: Network, voters: dict[int, Voter]) -> None:
    """The contract says NothingToSettle then; nothing follows from it."""
    voter = voters[3]
    play(network, voters, range(R + 1, R + 2))
    begin(network, R + 3)
    voter.voting(R + 3).play(R + 3)
    send(network, [(9, Call("audits", "settle", (voter.node, R, 2**256 - 1)), 0)])
    settle_outboxes(network, [voter])
    assert voter.audits.is_settled(voter.node)
    assert voter.reader.node_of(voter.node).active, "the top-up did not need the settling to be its own"
    assert list(voter.problems()) == [f"settle/{R}/{R + 3}"]
    assert "owes nothing" in voter.problems()[f"settle/{R}/{R + 3}"]
    voter.play(R + 3)
    settle_outboxes(network, [voter])
    assert list(voter.problems()) == [f"settle/{R}/{R + 3}"]


def test_pay_of_rounds_in_which_the_node_was_away(network: Network, voters: dict[int, Voter]) -> None:
    play(network, voters, range(R + 1, R + 3))
    late = voters[4]
    play_round(network, [late], R + 20)
    (pay,) = late.audits.payouts_of(late.node, [R])
    assert pay.claimed
    assert tokens(late) == pay.amount > 0


def test_a_batch_that_nobody_voted_on_ends_void(network: Network, voters: dict[int, Voter]) -> None:
    for round_ in range(R + 1, R + 7):
        begin(network, round_)
    for voter in voters.values():
        assert voter.audits.outcome_of(index_of(voter)).state is BatchState.VOID
        assert voter.audits.payouts_of(voter.node, [R])[0].amount == 0
