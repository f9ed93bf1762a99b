"""Voting against the real contracts: verdicts, disputes, debts, claims. Only the findings are made up."""

import random
from collections.abc import Iterator
from typing import Any

import pytest

from sapo_devnet.testkit.networks import BOND, Network
from sapo_verifier import protocol
from sapo_verifier.audit import CheckResult
from sapo_verifier.chain.audits import BallotState, BatchState, Votes
from sapo_verifier.chain.contracts import Call
from sapo_verifier.chain.errors import ChainError
from sapo_verifier.chain.events import pages
from sapo_verifier.cid import block_digest
from sapo_verifier.objects import VerdictReport
from sapo_verifier.spots import decode_answers
from voters import FAIL, UNKNOWN, VOID, Voter, begin, commit, play_round, send, set_back, settle_outboxes

ACCOUNTS = (1, 2, 3, 4)
R = 2  # the round that is judged
FEE = BOND // 50  # of each miss
PENALTY = BOND // 20


@pytest.fixture
def network(begun: Network) -> Iterator[Network]:
    with set_back(begun):
        yield begun


def index_of(voter: Voter) -> int:
    index = voter.reader.batch_of(voter.node, R)
    assert index is not None
    return index


def find(voters: dict[int, Voter], about: int, findings: dict[int, list[CheckResult]]) -> None:
    """What some accounts find about one account's batch."""
    for account, outcomes in findings.items():
        voters[account].pool.findings[index_of(voters[about])] = outcomes


def play(network: Network, voters: dict[int, Voter], rounds: range) -> None:
    for round_ in rounds:
        play_round(network, voters.values(), round_)


def tokens(voter: Voter) -> int:
    return int(voter.reader.call(Call("token", "balanceOf", (voter.node,))))


def count(network: Network, voter: Voter) -> int:
    return network.chain.w3.eth.get_transaction_count(network.chain.w3.to_checksum_address(voter.node))


def revealed(network: Network, voter: Voter, stage: int = 1) -> dict[str, Any]:
    """What the chain announced of a voter's verdicts on R."""
    events = [event for page in pages(network.reader(), None) for event in page.events]
    reveals = [event.args for event in events if event.name == "VerdictsRevealed"]
    return next(args for args in reveals if (args["voter"], args["round"], args["stage"]) == (voter.node, R, stage))


def test_honest_voters_are_paid_to_the_wei(network: Network, voters: dict[int, Voter]) -> None:
    play(network, voters, range(R + 1, R + 7))
    audits = voters[1].audits
    pool = 1000 * 10**18
    auditors = pool // 10  # 1,000 ten-thousandths
    per_unit = min((pool - auditors) // (1 + 2 + 3 + 4), 10**18)
    per_verdict = min(auditors // 12, 50 * 10**18)
    for account, voter in voters.items():
        outcome = audits.outcome_of(index_of(voter))
        assert (outcome.state, outcome.stage_1) == (BatchState.ACCEPTED, Votes(3, 0, 0, 3))
        assert tokens(voter) == account * per_unit + 3 * per_verdict
        assert voter.problems() == {}
        assert voter.reader.node_of(voter.node).bond == BOND
        assert len(voter.blocks.kept) == 1, "the report of stage 1; there was no stage 2"
    totals = audits.totals(R)
    assert (totals.claimed, totals.paid_verdicts, totals.is_final) == (10, 12, True)


def test_nothing_is_said_twice(network: Network, voters: dict[int, Voter]) -> None:
    """A round that is played again after a restart sends nothing new."""
    for round_ in range(R + 1, R + 7):
        play_round(network, voters.values(), round_)
        nonces = {account: count(network, voter) for account, voter in voters.items()}
        for voter in voters.values():
            voter.restart()
            voter.play(round_)
        settle_outboxes(network, voters.values())
        assert nonces == {account: count(network, voter) for account, voter in voters.items()}


def test_the_report_says_why(network: Network, voters: dict[int, Voter]) -> None:
    find(voters, 1, {2: FAIL})
    find(voters, 3, {2: VOID})
    find(voters, 4, {2: UNKNOWN})
    play(network, voters, range(R + 1, R + 2))
    assert voters[2].blocks.kept == [], "nobody can copy what is not published before the commit window is over"
    play(network, voters, range(R + 2, R + 3))
    (block,) = voters[2].blocks.kept
    report = VerdictReport.parse(block)
    assert (report.round, report.stage, report.voter) == (R, 1, voters[2].node)
    said = {batch.index: (batch.verdict, [found.status for found in batch.findings]) for batch in report.batches}
    assert said == {
        index_of(voters[1]): (2, ["fail"]),
        index_of(voters[3]): (3, ["void"]),
        index_of(voters[4]): (0, ["unknown"]),
    }
    state, word = voters[2].audits.verdicts_of(voters[2].node, R, 1)
    window = [batch.index for batch in voters[2].auditor.window(R, 1)]
    assert state is BallotState.REVEALED
    assert {index: word >> 2 * j & 3 for j, index in enumerate(window)} == {i: said[i][0] for i in said}
    events = [event for page in pages(network.reader(), None) for event in page.events]
    revealed = {e.args["voter"]: e.args["report"] for e in events if e.name == "VerdictsRevealed"}
    assert revealed[voters[2].node] == block_digest(block)


def test_a_late_voter_still_sees_its_batch_accepted(network: Network, voters: dict[int, Voter]) -> None:
    """It missed the commit round: the others decide; it is paid for its batch, not for verdicts."""
    late = voters.pop(4)
    play(network, voters, range(R + 1, R + 2))
    play(network, voters | {4: late}, range(R + 2, R + 7))
    assert late.audits.outcome_of(index_of(late)).state is BatchState.ACCEPTED
    assert late.problems() == {}
    assert late.blocks.kept == []
    (pay,) = late.audits.payouts_of(late.node, [R])
    assert (pay.score, pay.verdicts, pay.claimed) == (4, 0, True)
    assert tokens(late) == pay.amount


def test_who_can_say_nothing_commits_nothing(network: Network, voters: dict[int, Voter]) -> None:
    """A word of abstentions only: the gas would buy nothing, and its own batch does not need it."""
    for account in (1, 3, 4):
        find(voters, account, {2: UNKNOWN})
    play(network, voters, range(R + 1, R + 7))
    assert voters[2].outbox.call_of(f"verdicts/{R}/1") is None
    assert voters[2].ballot(R, 1) is None
    (pay,) = voters[2].audits.payouts_of(voters[2].node, [R])
    assert (pay.score, pay.verdicts, pay.claimed) == (2, 0, True)


def test_an_abstention_is_counted(network: Network, voters: dict[int, Voter]) -> None:
    find(voters, 1, {2: UNKNOWN})
    play(network, voters, range(R + 1, R + 4))
    outcome = voters[2].audits.outcome_of(index_of(voters[1]))
    assert (outcome.state, outcome.stage_1) == (BatchState.STANDING, Votes(2, 0, 0, 3))


def test_batches_that_nobody_votes_on_end_void(network: Network, voters: dict[int, Voter]) -> None:
    for round_ in range(R + 1, R + 7):
        begin(network, round_)
    for voter in voters.values():
        assert voter.audits.outcome_of(index_of(voter)).state is BatchState.VOID
        assert voter.audits.payouts_of(voter.node, [R])[0].amount == 0


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
    assert all(tokens(voters[account]) > 0 for account in (2, 3, 4))
    # Accounts 3 and 4 accepted it in stage 1, which costs nothing: who looks at a part may miss it.
    events = [event for page in pages(network.reader(), None) for event in page.events]
    assert [event.args["debt"] for event in events if event.name == "Settled"] == [3], "the slash"
    (bounty,) = [event for event in events if event.name == "BountyClaimed"]
    assert bounty.args == {"index": false, "round": R, "voter": voters[2].node, "part": BOND // 10}, "it found it first"
    play(network, voters, range(R + 8, R + 9))
    assert all(voters[account].reader.node_of(voters[account].node).bond == BOND for account in (2, 3, 4))


def test_a_dispute_of_what_the_others_let_pass(network: Network, voters: dict[int, Voter]) -> None:
    """The one that found it false was not in time to say so in stage 1."""
    finder = voters.pop(4)
    play(network, voters, range(R + 1, R + 3))
    false = index_of(voters[1])
    finder.pool.findings[false] = FAIL
    finder.fill_in(R)
    assert finder.audits.outcome_of(false).stage_1 == Votes(2, 0, 0, 2)
    find(voters, 1, {2: FAIL, 3: FAIL})
    everybody = voters | {4: finder}
    play(network, everybody, range(R + 3, R + 4))
    outcome = finder.audits.outcome_of(false)
    assert (outcome.state, outcome.disputer) == (BatchState.DISPUTED, finder.node)
    before = finder.reader.balance(finder.node)
    play(network, everybody, range(R + 4, R + 7))
    outcome = finder.audits.outcome_of(false)
    assert (outcome.state, outcome.disputer) == (BatchState.REJECTED, finder.node), "not before the slash"
    play(network, everybody, range(R + 7, R + 8))
    assert finder.audits.outcome_of(false).disputer is None
    gained = finder.reader.balance(finder.node) - before
    assert gained > BOND // 20 + BOND // 10 - BOND // 100, "the bond, and the bounty: nobody rejected it in stage 1"


def test_what_nobody_could_look_at_costs_a_fee(network: Network, voters: dict[int, Voter]) -> None:
    """More than a missed batch: hiding what is false is not the cheap way out. Once, and no one is slashed."""
    find(voters, 1, {2: VOID, 3: VOID, 4: VOID})
    play(network, voters, range(R + 1, R + 7))
    index = index_of(voters[1])
    assert voters[2].audits.outcome_of(index).state is BatchState.VOID
    play(network, voters, range(R + 7, R + 10))
    events = [event.args for page in pages(network.reader(), None) for event in page.events if event.name == "Settled"]
    assert [(args["node"], args["index"], args["debt"], args["fee"]) for args in events] == [
        (voters[1].node, index, 4, BOND // 10)
    ]
    assert events[0]["caller"] != voters[1].node
    assert voters[1].reader.node_of(voters[1].node).active, "and topped up"


def test_a_frivolous_dispute_is_burned(network: Network, voters: dict[int, Voter]) -> None:
    play(network, voters, range(R + 1, R + 3))
    begin(network, R + 3)
    index = index_of(voters[1])
    send(network, [(9, Call("disputes", "dispute", (index, index)), BOND // 20)])
    for voter in voters.values():
        voter.play(R + 3)
    settle_outboxes(network, voters.values())
    play(network, voters, range(R + 4, R + 7))
    outcome = voters[2].audits.outcome_of(index)
    assert (outcome.state, outcome.stage_2) == (BatchState.ACCEPTED, Votes(3, 0, 0, 3))
    burned = network.reader().balance("0x" + "00" * 20)
    send(network, [(9, Call("disputes", "closeDispute", (index, index)), 0)])
    assert network.reader().balance("0x" + "00" * 20) - burned >= BOND // 20


def test_a_crash_between_commit_and_reveal(network: Network, voters: dict[int, Voter]) -> None:
    play(network, voters, range(R + 1, R + 2))
    voters[3].restart()
    find(voters, 1, {3: FAIL})
    play(network, voters, range(R + 2, R + 3))
    assert voters[3].status(f"reveal/{R}/1") == "mined"
    assert len(voters[3].blocks.kept) == 1
    assert voters[3].audits.outcome_of(index_of(voters[1])).stage_1 == Votes(3, 0, 0, 3), "what was said first counts"


def test_a_crash_before_the_commitment_was_sent(network: Network, voters: dict[int, Voter]) -> None:
    """The ballot was stored: the same one is committed, whatever is found now."""
    begin(network, R + 1)
    voter = voters[3]
    voter.pool.answers = {batch.index: (batch.index, 7) for batch in voter.auditor.window(R)}
    ballot = voter.fill_in(R)
    voter.restart()
    find(voters, 1, {3: FAIL})
    voter.pool.answers = {}
    for each in voters.values():
        each.play(R + 1)
    settle_outboxes(network, voters.values())
    play(network, voters, range(R + 2, R + 3))
    assert voter.audits.verdicts_of(voter.node, R, 1) == (BallotState.REVEALED, ballot.word)
    told = [token for batch in voter.auditor.window(R) for token in (batch.index, 7)]
    assert decode_answers(revealed(network, voter)["answers"]) == told


def test_answers_are_about_what_was_accepted_in_the_window_s_order_and_none_in_stage_2(
    network: Network, voters: dict[int, Voter]
) -> None:
    find(voters, 1, {2: FAIL, 3: FAIL, 4: FAIL})
    begin(network, R + 1)
    for voter in voters.values():
        voter.pool.answers = {batch.index: (1000 + batch.index, 2**32 - 1) for batch in voter.auditor.window(R)}
    play(network, voters, range(R + 1, R + 6))
    false = index_of(voters[1])
    for account, voter in voters.items():
        accepted = [batch.index for batch in voter.auditor.window(R) if batch.index != false]
        told = [token for index in accepted for token in (1000 + index, 2**32 - 1)]
        args = revealed(network, voter)
        assert decode_answers(args["answers"]) == told
        assert len(told) == (6 if account == 1 else 4)
        assert args["salt"] == voter.seeds.seed(R)
    assert revealed(network, voters[2], stage=2)["answers"] == b""


def test_a_lost_outbox_does_not_lose_the_reveal(network: Network, voters: dict[int, Voter]) -> None:
    """The ballot is on disk and the commitment on chain; that is all it takes."""
    play(network, voters, range(R + 1, R + 2))
    voter = voters[3]
    voter.close()
    for file in voter.folder.glob("outbox*"):
        file.unlink()
    voter.open()
    play(network, voters, range(R + 2, R + 3))
    assert voter.status(f"reveal/{R}/1") == "mined"


def test_what_was_not_committed_is_not_revealed(network: Network, voters: dict[int, Voter]) -> None:
    """The ballot is on disk, but its commitment never got into a block."""
    begin(network, R + 1)
    voters[3].play(R + 1)
    assert voters[3].status(f"verdicts/{R}/1") == "sent"
    assert voters[3].ballot(R, 1) is not None
    network.chain.rpc("anvil_dropAllTransactions")
    play(network, voters, range(R + 2, R + 3))
    assert voters[3].outbox.call_of(f"reveal/{R}/1") is None
    assert voters[3].blocks.kept == []
    assert voters[3].status(f"verdicts/{R}/1") == "expired"
    assert voters[3].audits.is_settled(voters[3].node)


def test_own_debts_are_settled_and_the_bond_topped_up(
    network: Network, voters: dict[int, Voter], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It committed a policy and verdicts, and was away: when it is back, one round puts it right."""
    voter = voters[3]
    play(network, voters, range(R + 1, R + 2))
    commit(network, [3], R + 2)
    begin(network, R + 2)
    begin(network, R + 3)  # and nobody else settles it
    assert not voter.audits.is_settled(voter.node)
    monkeypatch.setattr(voter.pool, "producers", set)  # nor does it earn by settling for others
    before = voter.reader.balance(voter.node)
    play_round(network, [voter], R + 4)
    assert voter.audits.is_settled(voter.node)
    info = voter.reader.node_of(voter.node)
    assert (info.bond, info.active) == (BOND, True)
    paid, owed = before - voter.reader.balance(voter.node), 2 * FEE
    assert owed - owed // 10 <= paid < owed, "a tenth comes back to the caller, and gas is cheap"
    assert voter.problems() == {}
    assert voter.status(f"top-up/{R + 4}") == "mined"


def test_debts_of_long_ago_are_found(network: Network, voters: dict[int, Voter]) -> None:
    """A node that was stopped for many rounds would otherwise never be able to promise anything again."""
    voter = voters[3]
    play_round(network, [voter], R + 1)
    commit(network, [3], R + 2)
    begin(network, R + 2)  # with a beacon: only then a batch was missed
    play_round(network, [voter], R + 40)
    assert voter.audits.is_settled(voter.node)
    assert voter.reader.node_of(voter.node).active
    settled = [event for page in pages(network.reader(), None) for event in page.events if event.name == "Settled"]
    assert [(event.args["round"], event.args["debt"]) for event in settled] == [(R, 1), (R + 2, 0)]


def test_somebody_else_settles_first(network: Network, voters: dict[int, Voter]) -> None:
    """The contract says NothingToSettle then; nothing follows from it."""
    voter, key = voters[3], f"settle/{R}/{R + 3}"
    play(network, voters, range(R + 1, R + 2))
    begin(network, R + 3)
    voter.duties.play(R + 3)
    send(network, [(9, Call("disputes", "settle", (voter.node, R, 2**256 - 1)), 0)])
    settle_outboxes(network, [voter])
    assert voter.audits.is_settled(voter.node)
    assert voter.reader.node_of(voter.node).active, "the top-up did not need the settling to be its own"
    assert list(voter.problems()) == [key]
    assert "owes nothing" in voter.problems()[key]
    voter.play(R + 3)
    settle_outboxes(network, [voter])
    assert list(voter.problems()) == [key]


def test_pay_of_rounds_in_which_the_node_was_away(network: Network, voters: dict[int, Voter]) -> None:
    play(network, voters, range(R + 1, R + 3))
    play_round(network, [voters[4]], R + 20)
    (pay,) = voters[4].audits.payouts_of(voters[4].node, [R])
    assert pay.claimed
    assert tokens(voters[4]) == pay.amount > 0


@pytest.mark.parametrize("seed", range(3))
def test_any_word_is_counted_or_refused(network: Network, voters: dict[int, Voter], seed: int) -> None:
    """Stage 1: two bits for each batch of the window, and none beyond."""
    rng = random.Random(seed)
    words = {i: rng.choice([rng.getrandbits(6), rng.getrandbits(6), 1 << rng.randrange(256), 0]) for i in ACCOUNTS}
    reveals = commit_words(network, voters, words, 1, begin(network, R + 1))
    begin(network, R + 2)
    good = {i for i in ACCOUNTS if words[i] >> 6 == 0}
    send(network, [(i, reveals[i], 0) for i in good])
    for i in set(ACCOUNTS) - good:
        with pytest.raises(ChainError, match="beyond"):
            voters[i].reader.call(reveals[i], sender=voters[i].node)
    counts = {index_of(voter): [0, 0, 0, 0] for voter in voters.values()}
    for i in good:
        for j, batch in enumerate(voters[i].auditor.window(R, 1)):
            counts[batch.index][words[i] >> 2 * j & 3] += 1
    for index, (abstain, *given) in counts.items():
        assert voters[1].audits.outcome_of(index).stage_1 == Votes(*given, abstain + sum(given))


@pytest.mark.parametrize("seed", range(3))
def test_any_word_of_stage_2(network: Network, voters: dict[int, Voter], seed: int) -> None:
    """Only about what is disputed: here the batch of account 1."""
    find(voters, 1, {2: FAIL})
    play(network, voters, range(R + 1, R + 4))
    rng, false = random.Random(seed), index_of(voters[1])

    def place(i: int) -> int:
        return [batch.index for batch in voters[i].auditor.window(R, 2)].index(false)

    dealer = begin(network, R + 4)
    words = {2: rng.randrange(4) << 2 * place(2), 3: rng.getrandbits(6), 4: 1 << 2 * place(4)}
    reveals = commit_words(network, voters, words, 2, dealer)
    begin(network, R + 5)
    good = [i for i, word in words.items() if word & ~(3 << 2 * place(i)) == 0]
    send(network, [(i, reveals[i], 0) for i in good])
    for i in set(words) - set(good):
        with pytest.raises(ChainError, match="not disputed"):
            voters[i].reader.call(reveals[i], sender=voters[i].node)
    given = [words[i] >> 2 * place(i) & 3 for i in good]
    expected = Votes(given.count(1), given.count(2), given.count(3), len(good))
    assert voters[2].audits.outcome_of(false).stage_2 == expected


def commit_words(
    network: Network, voters: dict[int, Voter], words: dict[int, int], stage: int, dealer: bytes
) -> dict[int, Call]:
    """Commitments of any words, in the round in which they are due; the calls that reveal them."""
    acc, report, salt = voters[1].reader.round_at(R).acc, bytes(32), b"\7" * 32
    hashes = {
        i: protocol.verdicts_hash(dealer, acc, voters[i].node, stage, w, report, b"", salt) for i, w in words.items()
    }
    commits = {i: (voters[i].node, R, stage, dealer, acc, h) for i, h in hashes.items()}
    send(network, [(i, Call("audits", "commitVerdicts", given), 0) for i, given in commits.items()])
    return {
        i: Call("audits", "revealVerdicts", (voters[i].node, R, stage, w, report, b"", salt)) for i, w in words.items()
    }
