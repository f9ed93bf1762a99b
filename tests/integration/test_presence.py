"""Blocks are owed until a round is final: who stops serving is disputed and voided, who restarts is not."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from sapo_client.batches.auditing import Auditor
from sapo_client.batches.presence import LOOKS, STANDSTILL, Presence, Watch, Wish
from sapo_client.duties.disputes import FORBEAR
from sapo_devnet.testkit.ipfs_daemon import ipfs_daemon
from sapo_devnet.testkit.networks import BOND, Network
from sapo_devnet.testkit.publishers import Publishers, publishers
from sapo_verifier.chain.audits import BatchState, Votes
from sapo_verifier.chain.events import pages
from sapo_verifier.facts import BatchInfo
from sapo_verifier.ipfs import BlockStore, GatewayReader
from sapo_verifier.objects import VerdictReport
from voters import FAIL, PASS, UNKNOWN, VOID, FakePresence, Voter, begin, play_round, set_back, settle_outboxes

ACCOUNTS = (1, 2, 3, 4)
R = 2
DISPUTE_BOND = BOND // 20


@pytest.fixture
def network(begun: Network) -> Iterator[Network]:
    with set_back(begun):
        yield begun


def index_of(voter: Voter) -> int:
    index = voter.reader.batch_of(voter.node, R)
    assert index is not None
    return index


def play(network: Network, voters: dict[int, Voter], *rounds: int) -> None:
    for round_ in rounds:
        play_round(network, voters.values(), round_)


def take_away(voters: dict[int, Voter], index: int, *, back: bool = False) -> None:
    for voter in voters.values():
        voter.presence.away = set() if back else {index}


def disputers(voters: dict[int, Voter], index: int) -> list[Voter]:
    return [voter for voter in voters.values() if voter.status(f"absent/{R}/{index}") == "mined"]


# -- votes --


def test_who_stops_serving_after_stage_1_earns_nothing(network: Network, voters: dict[int, Voter]) -> None:
    index = index_of(voters[1])
    play(network, voters, R + 1, R + 2)
    before = {account: voter.reader.balance(voter.node) for account, voter in voters.items()}
    take_away(voters, index)
    play(network, voters, R + 3)
    outcome = voters[2].audits.outcome_of(index)
    assert outcome.state is BatchState.DISPUTED
    (disputer,) = disputers(voters, index)
    assert outcome.disputer == disputer.node, "one of all that saw it, and one bond"
    play(network, voters, R + 4, R + 5, R + 6)
    outcome = voters[2].audits.outcome_of(index)
    assert (outcome.state, outcome.stage_2) == (BatchState.VOID, Votes(0, 0, 3, 3))
    assert voters[1].audits.payouts_of(voters[1].node, [R])[0].amount == 0
    assert disputer.reader.balance(disputer.node) > before[disputer.account] - DISPUTE_BOND // 5, "the bond came back"
    for account in (2, 3, 4):
        assert voters[account].audits.payouts_of(voters[account].node, [R])[0].score == account
    report = VerdictReport.parse(voters[2].blocks.kept[-1])
    (said,) = [batch for batch in report.batches if batch.index == index]
    assert (report.stage, said.verdict, said.findings[0].check) == (2, 3, "available")
    assert "serves it no longer" in said.findings[0].reason


def test_an_outage_that_ends_within_the_round_costs_nobody_anything(network: Network, voters: dict[int, Voter]) -> None:
    """The node restarts: the first look misses it, a later one does not."""
    index = index_of(voters[1])
    play(network, voters, R + 1, R + 2)
    take_away(voters, index)
    begin(network, R + 3)
    for voter in voters.values():
        voter.play(R + 3)
    assert voters[2].waits, "the round is not over for who has to look again"
    take_away(voters, index, back=True)
    settle_outboxes(network, voters.values())
    assert voters[2].presence.looks[index] == 2
    play(network, voters, R + 4, R + 5, R + 6)
    assert voters[1].audits.outcome_of(index).state is BatchState.ACCEPTED
    assert disputers(voters, index) == []
    assert voters[1].audits.payouts_of(voters[1].node, [R])[0].score == 1


def test_an_outage_of_a_whole_round_costs_the_disputer_one_bond_and_only_one(
    network: Network, voters: dict[int, Voter]
) -> None:
    """Whoever plays dead for a round wins a bond from nobody but one disputer, who then forbears."""
    index = index_of(voters[1])
    play(network, voters, R + 1, R + 2)
    take_away(voters, index)
    play(network, voters, R + 3)
    (disputer,) = disputers(voters, index)
    assert not disputer.duties.disputes._may_risk(R + 3), "one bond at a time"
    take_away(voters, index, back=True)
    play(network, voters, R + 4, R + 5, R + 6)
    outcome = voters[1].audits.outcome_of(index)
    assert (outcome.state, outcome.stage_2) == (BatchState.ACCEPTED, Votes(3, 0, 0, 3))
    assert not disputer.duties.disputes._may_risk(R + 7)
    assert not disputer.duties.disputes._may_risk(R + FORBEAR - 1)
    assert disputer.duties.disputes._may_risk(R + FORBEAR)
    others = [voter for voter in voters.values() if voter is not disputer]
    assert all(voter.duties.disputes._may_risk(R + 7) for voter in others)


def test_who_finds_nobody_looks_at_its_own_connection(network: Network, voters: dict[int, Voter]) -> None:
    play(network, voters, R + 1, R + 2)
    voters[2].presence.away = {index_of(voter) for voter in voters.values()}
    play(network, voters, R + 3)
    assert any("own connection" in words for words in voters[2].said)
    assert voters[2].outbox.keys("absent/") == []


def test_what_an_accepter_still_serves_is_not_gone(network: Network, voters: dict[int, Voter]) -> None:
    """Its producer takes the batch away to hurt those who accepted it: who has to judge it has their copies."""
    index = index_of(voters[1])
    play(network, voters, R + 1, R + 2)
    take_away(voters, index)
    for voter in voters.values():
        voter.presence.copies = {voters[3].node}
    play(network, voters, R + 3)
    assert disputers(voters, index) == [voters[3]], "whose own copy proves nothing to itself, and nobody else has one"
    for voter in voters.values():
        voter.presence.copies = {voters[2].node, voters[3].node}
    play(network, voters, R + 4, R + 5, R + 6)
    outcome = voters[1].audits.outcome_of(index)
    assert (outcome.state, outcome.stage_2) == (BatchState.ACCEPTED, Votes(3, 0, 0, 3))


def test_two_copies_keep_everybody_from_a_dispute(network: Network, voters: dict[int, Voter]) -> None:
    index = index_of(voters[1])
    play(network, voters, R + 1, R + 2)
    take_away(voters, index)
    for voter in voters.values():
        voter.presence.copies = {voters[2].node, voters[3].node}
    play(network, voters, R + 3)
    assert disputers(voters, index) == []
    assert voters[1].audits.outcome_of(index).state is BatchState.STANDING


def test_who_withholds_after_a_reject_hurts_nobody_who_accepted(network: Network, voters: dict[int, Voter]) -> None:
    """A friend rejects an honest batch, so that stage 2 judges it, and its producer takes it away meanwhile."""
    index, liar = index_of(voters[1]), voters[4]
    liar.pool.findings[index] = FAIL
    play(network, voters, R + 1, R + 2, R + 3)
    take_away(voters, index)
    for voter in voters.values():
        voter.presence.copies = {voters[2].node, voters[3].node}
    play(network, voters, R + 4, R + 5, R + 6, R + 7)
    outcome = voters[1].audits.outcome_of(index)
    assert (outcome.state, outcome.stage_2) == (BatchState.ACCEPTED, Votes(2, 1, 0, 3))
    settled = [event.args for page in pages(network.reader(), None) for event in page.events if event.name == "Settled"]
    assert {args["node"] for args in settled} == {liar.node}, "who rejected it pays, and nobody else"


# -- who could not get it --


@pytest.mark.parametrize("copies", ["false", "right", "hiding", "none"])
def test_who_could_not_get_a_batch_looks_at_what_its_accepters_have(
    network: Network, voters: dict[int, Voter], copies: str
) -> None:
    """An author refuses the one voter whose spots would have shown it."""
    index, starved = index_of(voters[1]), voters[2]
    starved.pool.findings[index] = VOID
    play(network, voters, R + 1, R + 2)
    if copies == "hiding":
        starved.pool.copies[index], starved.pool.hiding = UNKNOWN, {index}
    elif copies != "none":
        starved.pool.copies[index] = FAIL if copies == "false" else PASS
    play(network, voters, R + 3)
    false = starved.status(f"dispute/{R}/{index}") == "mined"
    assert false == (copies in ("false", "hiding"))
    outcome = starved.audits.outcome_of(index)
    assert (outcome.state is BatchState.STANDING) == (not false), "one void sends nothing to stage 2"
    assert outcome.disputer == (starved.node if false else None)
    assert disputers(voters, index) == [], "its producer, or an accepter, serves what is missing"


@pytest.mark.parametrize("serve", [True, False])
def test_it_disputes_what_is_gone_only_if_no_accepter_serves_it_either(
    network: Network, voters: dict[int, Voter], serve: bool
) -> None:
    index, starved = index_of(voters[1]), voters[2]
    starved.pool.findings[index] = VOID
    play(network, voters, R + 1, R + 2)
    starved.presence.away = {index}
    starved.presence.copies = {voters[4].node} if serve else set()
    play(network, voters, R + 3)
    assert disputers(voters, index) == ([] if serve else [starved])


# -- when to look --


def batch(index: int) -> BatchInfo:
    return BatchInfo(index, "0x" + "11" * 20, R, 1, bytes(32), bytes(32), bytes(32), 0)


def wish(index: int) -> Wish:
    return Wish(batch(index), [(bytes(32), 1)])


def watched(away: set[int], *indices: int, end: int = 90) -> tuple[Watch, FakePresence]:
    presence: Any = FakePresence(away)
    return Watch(presence, [wish(index) for index in indices], [], end), presence


def test_looks_are_spread_over_the_round() -> None:
    watch, _ = watched({7}, 7)
    looked = []
    for block in range(120):
        before = watch.looks
        watch.step(block)
        looked += [block] * (watch.looks - before)
    assert looked == [0, 45, 90]
    assert watch.finished
    assert watch.unserved == [wish(7)]


def test_where_the_chain_stands_still_looks_are_some_polls_apart() -> None:
    watch, presence = watched({7}, 7)
    for polls in range(1, 3 * STANDSTILL + 2):
        watch.step(5)
        assert presence.looks[7] == min(LOOKS, 1 + (polls - 1) // STANDSTILL)
    assert watch.finished


def test_who_is_found_once_is_not_looked_for_again() -> None:
    watch, presence = watched({7}, 7, 8)
    watch.step(0)
    assert not watch.finished
    presence.away = set()
    watch.step(45)
    assert watch.finished
    assert watch.unserved == []
    assert presence.looks == {7: 2, 8: 1}
    nothing, _ = watched(set())
    assert nothing.finished


def test_a_look_that_finds_nobody_asks_for_others() -> None:
    watch, presence = watched({7, 9}, 7)
    watch.controls = [wish(9)]
    for block in (0, 45, 90):
        watch.step(block)
    assert not watch.is_online()
    presence.away = {7}
    assert watch.is_online()


# -- real gateways --


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Publishers]:
    with publishers(tmp_path_factory.mktemp("publishers"), [3]) as started:
        yield started


def test_a_producer_is_asked_itself_whatever_is_kept_here(made: Publishers, tmp_path: Path) -> None:
    """Its blocks are on our own disk; what counts is whether its gateway gives one, now and for any block."""
    unused: Any = None
    reader, round_ = made.network.reader(), made.rounds[3]
    batches = reader.batches_of(round_)
    with contextlib.ExitStack() as stack:
        store = stack.enter_context(BlockStore(made.daemon.api, allow_private=True))
        peers = stack.enter_context(GatewayReader(allow_private=True, timeout=2.0))
        empty = stack.enter_context(ipfs_daemon(tmp_path))
        spec = made.network.spec
        auditor = Auditor(reader, store, spec, made.worker, made.tokenizer, None, unused, made.nodes[0], unused)
        whole = Presence(auditor, peers)
        assert whole.unserved(whole.drawn(batches, every_kind=True)) == []

        endpoints = dict.fromkeys(made.nodes[:3], made.daemon.gateway)
        endpoints[batches[1].node] = empty.gateway
        there: Any = SimpleNamespace(**vars(auditor), endpoints=lambda _: endpoints)
        presence = Presence(there, peers)
        wishes = presence.drawn(batches, every_kind=False)
        assert presence.unserved(wishes) == [wishes[1]]
        assert [len(wish.blocks) for wish in wishes] == [1, 1, 1]
        drawn = {each.blocks[0][0] for _ in range(100) for each in presence.drawn([batches[1]], every_kind=False)}
        assert len(drawn) == 2 + 2 * batches[1].slots, "manifests, groups and records"

        # It serves its manifests only: what it was asked for and did not give, it is asked for again.
        with BlockStore(empty.api, allow_private=True) as theirs:
            for digest in (batches[1].manifest, batches[1].policy):
                theirs.put(store.get(digest))
        (missing,) = presence.unserved(presence.drawn([batches[1]], every_kind=True))
        assert len(missing.blocks) == 2
        assert presence.unserved([missing]) == [missing]

        for endpoint in ("/ip4/127.0.0.1/tcp/1/http", "no endpoint", "/ip4/10.0.0.1/tcp/80"):
            endpoints[batches[1].node] = endpoint
            assert presence.unserved(wishes) == [wishes[1]]

        # Another node that fetched it serves it; who is none has no endpoint.
        holders = {batches[1].index: ["0x" + "99" * 20, made.nodes[2]]}
        kept = presence.drawn(batches, every_kind=True, holders=holders)
        assert presence.unserved(kept) == []
        alone = presence.drawn(batches, every_kind=True, holders={batches[1].index: ["0x" + "99" * 20]})
        assert [wish.batch for wish in presence.unserved(alone)] == [batches[1]]
