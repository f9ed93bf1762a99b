"""What anybody may do is done by one: nodes wait for their turn, ask the chain again, and pay for no refusal."""

import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from sapo_client.duties.registration import why_silent
from sapo_client.node.loop import Node
from sapo_client.transactions.turns import LONGEST, STANDSTILL, Turns, place_of, put_anew
from sapo_devnet.testkit.networks import BOND, Network
from sapo_verifier.chain.audits import BatchState
from sapo_verifier.chain.contracts import Call
from sapo_verifier.chain.events import pages
from sapo_verifier.chain.reader import NodeState
from voters import (
    FAIL,
    Voter,
    commit,
    light_parts,
    network_with_batches,
    play_round,
    send,
    set_back,
    settle_outboxes,
    submit,
)

ACCOUNTS = (1, 2, 3, 4)
R = 2
FEE = BOND // 50
POKE = Call("rounds", "poke")


@pytest.fixture
def network(begun: Network) -> Iterator[Network]:
    with set_back(begun):
        yield begun


def index_of(voter: Voter) -> int:
    index = voter.reader.batch_of(voter.node, R)
    assert index is not None
    return index


def settled(network: Network) -> list[dict[str, Any]]:
    events = [event for page in pages(network.reader(), None) for event in page.events]
    return [dict(event.args) for event in events if event.name == "Settled"]


def refused(network: Network) -> int:
    """Transactions on chain that the contract refused: gas for nothing."""
    w3, count = network.chain.w3, 0
    for block in range(network.deployment.block, w3.eth.block_number + 1):
        for hash_ in w3.eth.get_block(block)["transactions"]:  # type: ignore[index]
            count += w3.eth.get_transaction_receipt(hash_)["status"] == 0
    return count


# -- the line --


def test_every_thing_has_another_order_and_the_line_is_short() -> None:
    nodes = [f"0x{i:040x}" for i in range(200)]
    places = {thing: [place_of(node, thing, len(nodes)) for node in nodes] for thing in ("a", "b")}
    assert places["a"] != places["b"]
    assert max(places["a"]) == LONGEST
    firsts = sum(place_of(node, f"thing {i}", len(nodes)) == 0 for i in range(50) for node in nodes)
    assert 20 < firsts < 90, "one is first on average, however many there are"
    assert {place_of(node, "a", 1) for node in nodes} == {place_of(nodes[0], "a", 0)} == {0}


class Noted:
    """What an outbox is asked to put."""

    def __init__(self) -> None:
        self.calls: dict[str, Call] = {}
        self.states: dict[str, Any] = {}

    def call_of(self, key: str) -> Call | None:
        return self.calls.get(key)

    def state(self, key: str) -> Any:
        return self.states.get(key, SimpleNamespace(status="sent", confirmed=False))

    def put(self, key: str, call: Call, **_: Any) -> None:
        self.calls[key] = call


def waiting(place: int) -> tuple[Turns, Noted, list[int]]:
    """A thing at that place of the line; the list has 0 to be asked once more whether it is needed, 1 for yes."""
    outbox: Any = Noted()
    turns, asked = Turns("0x" + "11" * 20, outbox), [1]
    turns.offer("thing", POKE, crowd=1, needed=lambda: bool(asked[-1]), first=place)
    return turns, outbox, asked


def test_a_place_passes_with_each_block_or_some_polls_without_one() -> None:
    turns, outbox, _ = waiting(2)
    turns.step(10)
    for _ in range(STANDSTILL - 1):
        turns.step(10)
    assert len(turns) == 1
    turns.step(10)  # one place
    assert outbox.calls == {}
    turns.step(11)
    assert list(outbox.calls) == ["thing"]
    assert not turns
    turns.offer("thing", POKE, crowd=1, needed=lambda: True)
    assert not turns, "it is on its way"


def test_what_somebody_else_did_meanwhile_is_not_done() -> None:
    turns, outbox, asked = waiting(3)
    turns.step(10)
    asked.append(0)
    turns.step(11)
    assert not turns
    assert outbox.calls == {}


def test_what_came_to_nothing_is_tried_anew_but_not_for_ever() -> None:
    outbox: Any = Noted()
    for _ in range(9):
        put_anew(outbox, "thing", POKE)
        for key in outbox.calls:
            outbox.states[key] = SimpleNamespace(status="failed", confirmed=False)
    assert list(outbox.calls) == ["thing", "thing/2", "thing/3", "thing/4"]


# -- on a real chain --


def light_node(voter: Voter) -> Node:
    """A node without a policy, as far as capturing a beacon needs one; each poll makes a block."""

    class Polls(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            voter.network.chain.mine()
            return False

    return Node(light_parts(voter), Polls())


def test_a_poke_whose_rival_was_reorganized_away_is_sent_again(tmp_path: Path) -> None:
    """This node's was refused, since another one had captured the beacon; then that one is gone."""
    with network_with_batches(ACCOUNTS, R) as network:
        voter = Voter(network, 1, tmp_path)
        network.mine_to_round(R + 1)
        network.chain.mine()
        voter.outbox.put(f"poke/{R + 1}", POKE, deadline_round=R + 1)
        send(network, [(0, POKE, 0)])
        voter.outbox._store.update(voter.outbox._store.intents()[0], status="failed", reason="captured already")
        network.chain.reorg(1)
        assert voter.reader.beacon(R + 1) is None
        assert light_node(voter)._beacon(R + 1) == voter.reader.beacon(R + 1) is not None
        assert voter.status(f"poke/{R + 1}") == "failed"
        assert voter.status(f"poke/{R + 1}/2") in ("sent", "mined")
        voter.close()


def test_one_of_many_slashes_and_nobody_pays_for_a_refusal(network: Network, voters: dict[int, Voter]) -> None:
    false = index_of(voters[1])
    for account in (2, 3, 4):
        voters[account].pool.findings[false] = FAIL
    for round_ in range(R + 1, R + 7):
        play_round(network, voters.values(), round_)
    assert voters[1].reader.node_of(voters[1].node).state == "slashed"
    sent = [account for account, voter in voters.items() if voter.status(f"slash/{false}") != "none"]
    mined = [account for account in sent if voters[account].status(f"slash/{false}") == "mined"]
    assert len(mined) == 1
    assert len(sent) < 3, "two may stand at the same place; then the second one is refused before it is sent"
    assert refused(network) == 0
    assert {key for voter in voters.values() for key in voter.problems()} <= {f"slash/{false}"}


def test_what_was_rejected_while_its_judges_were_away_is_slashed_later(
    network: Network, voters: dict[int, Voter]
) -> None:
    """The bond outlives its last batch by three rounds."""
    false = index_of(voters[1])
    for account in (2, 3, 4):
        voters[account].pool.findings[false] = FAIL
    for round_ in range(R + 1, R + 6):
        play_round(network, voters.values(), round_)
    play_round(network, [voters[2]], R + 8)
    assert voters[2].audits.outcome_of(false).state is BatchState.REJECTED
    assert voters[1].reader.node_of(voters[1].node).state == "slashed"


def test_somebody_settles_what_others_missed_for_the_tenth(network: Network, voters: dict[int, Voter]) -> None:
    """Account 3 goes away: its policy without a batch, and its verdicts, cost it fees without its doing."""
    play_round(network, voters.values(), R + 1)
    away = voters.pop(3)
    commit(network, [3], R + 2)
    for round_ in range(R + 2, R + 5):
        play_round(network, voters.values(), round_)
    assert away.audits.is_settled(away.node)
    assert away.reader.node_of(away.node).bond == BOND - 2 * FEE
    found = settled(network)
    assert sorted((args["round"], args["debt"]) for args in found) == [(R, 1), (R + 2, 0)]
    assert {args["caller"] for args in found} <= {voter.node for voter in voters.values()}
    assert refused(network) == 0


def test_a_tenth_that_does_not_pay_the_gas_is_left(network: Network, voters: dict[int, Voter]) -> None:
    play_round(network, voters.values(), R + 1)
    voters.pop(3)
    network.chain.rpc("anvil_setNextBlockBaseFeePerGas", hex(10**12))
    begin_dear(network, R + 2)
    begin_dear(network, R + 3)
    for voter in voters.values():
        voter.duties.play(R + 3)
        assert not voter.turns


def begin_dear(network: Network, round_: int) -> None:
    network.mine_to_round(round_)
    network.chain.rpc("anvil_setNextBlockBaseFeePerGas", hex(10**12))
    network.chain.mine()


# -- nodes that can promise nothing --


def test_an_exiting_node_reveals_what_it_committed_and_commits_nothing(
    network: Network, voters: dict[int, Voter]
) -> None:
    play_round(network, voters.values(), R + 1)
    commit(network, [2, 3], R + 2)
    send(network, [(2, Call("nodes", "requestExit"), 0)])
    assert "asked to exit" in why_silent(voters[2].reader.node_of(voters[2].node), BOND)
    submit(network, {2: 1, 3: 1}, R + 2)
    for round_ in (R + 2, R + 3):
        play_round(network, voters.values(), round_)
    assert voters[2].status(f"reveal/{R}/1") == "mined"
    assert voters[2].outbox.keys(f"verdicts/{R + 2}/") == []
    assert voters[3].outbox.keys(f"verdicts/{R + 2}/") != []
    assert voters[2].problems() == {}


def test_the_loop_of_a_node_that_can_promise_nothing(
    network: Network, voters: dict[int, Voter], caplog: pytest.LogCaptureFixture
) -> None:
    """No policy is committed, a slashed one publishes nothing, and why is said once."""
    voter = voters[2]
    send(network, [(2, Call("nodes", "requestExit"), 0)])
    node = light_node(voter)
    for round_ in (R, R + 1):
        info = node._standing(round_)
        node._commit(round_, info)
    assert voter.outbox.keys("commit/") == []
    assert caplog.text.count("has asked to exit") == 1
    own = node._publish(R, bytes(32), replace(info, state=NodeState.SLASHED))
    assert (own.groups, own.completions) == ([], 0)
    assert "slashed: it cannot publish" in own.skipped


def test_a_slashed_node_only_claims(network: Network, voters: dict[int, Voter]) -> None:
    """Its next batch is rejected: nothing that it could still say counts."""
    false = index_of(voters[1])
    for account in (2, 3, 4):
        voters[account].pool.findings[false] = FAIL
    for round_ in range(R + 1, R + 7):
        play_round(network, voters.values(), round_)
    assert "was slashed" in why_silent(voters[1].reader.node_of(voters[1].node), BOND)
    before = voters[1].outbox.keys("")
    for round_ in (R + 7, R + 8):
        play_round(network, voters.values(), round_)
    assert voters[1].outbox.keys("") == before
    assert voters[1].problems() == {}


def test_a_short_bond_that_cannot_be_filled_up_is_said_and_what_is_owed_is_done(
    network: Network, voters: dict[int, Voter]
) -> None:
    """It missed a batch, has no coins for the fine, and still reveals: waiting for coins must not stop the rest."""
    voter = voters[3]
    commit(network, [3], R + 1)
    play_round(network, voters.values(), R + 1)
    network.chain.rpc("anvil_setBalance", voter.node, hex(FEE // 2))
    play_round(network, voters.values(), R + 2)
    assert voter.status(f"reveal/{R}/1") == "mined"
    assert voter.reader.node_of(voter.node).bond == BOND - FEE
    play_round(network, voters.values(), R + 3)
    assert any("short of 0.02 coins" in words and "send it" in words for words in voter.said)
    assert voter.outbox.keys("top-up/") == []
    network.chain.rpc("anvil_setBalance", voter.node, hex(BOND))
    play_round(network, voters.values(), R + 4)
    assert voter.reader.node_of(voter.node).active
    settle_outboxes(network, voters.values())
