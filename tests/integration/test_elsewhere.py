"""Whether another program acts with a running node's key: what proves it, and what only looks like it."""

from collections.abc import Iterator
from typing import Any

import pytest

from outboxes import ENDPOINT, Open, outside, register
from sapo_client.duties.elsewhere import KeyWatch, SecondProgram
from sapo_client.transactions.outbox import Outbox
from sapo_devnet.testkit.faulty_rpc import FaultyRpc, faulty_rpc
from sapo_devnet.testkit.networks import BOND, Network
from sapo_verifier.chain.contracts import Call
from sapo_verifier.chain.reader import ChainReader

OURS, THEIRS = "/ip4/10.0.0.1/tcp/80/http", "/ip4/10.0.0.1/tcp/99/http"
CONFIRMATIONS = 4
NO_STATE = {"code": -32000, "message": "missing trie node"}


@pytest.fixture
def outbox(network: Network, open_outbox: Open) -> Outbox:
    """Of account 1, whose node is registered in round 0."""
    made = open_outbox(confirmations=CONFIRMATIONS)
    register(network, made)
    network.mine_to_round(0)
    return made


@pytest.fixture
def rpc(network: Network) -> Iterator[FaultyRpc]:
    with faulty_rpc(network.chain.url, lambda method, params: None) as made:
        yield made


class Watched:
    """A watch of account 1's node, or of account 2's with that key as operator; and the rounds in which it looks."""

    def __init__(
        self, network: Network, outbox: Outbox, *, owner: str | None = None, reader: ChainReader | None = None
    ):
        self.network, self.outbox = network, outbox
        self.reader = reader or outbox.reader
        self.said: list[str] = []
        self.node = owner or outbox.address
        self.watch = KeyWatch(self.reader, outbox, self.node, OURS, self.said.append)

    def look(self) -> str:
        return self.watch.look(self.reader.current_round(), self.reader.node_of(self.node))

    def settle_in(self, rounds: int = 3) -> None:
        """A look in each of so many rounds, in which nothing happens."""
        for _ in range(rounds):
            assert self.look() == ""
            self.next_round()

    def next_round(self) -> None:
        self.network.mine_to_round(self.network.reader().current_round() + 1)
        self.outbox.pump()

    def deliver(self) -> None:
        self.outbox.pump()
        self.network.chain.mine()
        self.outbox.pump()


@pytest.fixture
def watched(network: Network, outbox: Outbox) -> Watched:
    made = Watched(network, outbox)
    made.settle_in()
    return made


def send(network: Network, call: Call, *, account: int = 1, value: int = 0) -> None:
    """By another program, mined at once."""
    w3, reader = network.chain.w3, network.reader()
    target = w3.to_checksum_address(reader.address_of(call.contract))
    sender, data = network.chain.account(account).address, "0x" + call.encode().hex()
    outgoing: Any = {"from": sender, "to": target, "data": data, "value": value, "gas": 10**6}
    hash_ = w3.eth.send_transaction(outgoing)
    network.chain.mine()
    assert w3.eth.get_transaction_receipt(hash_)["status"] == 1


def commit(node: str, round_: int, digest: bytes = b"p" * 32) -> Call:
    return Call("rounds", "commitPolicy", (node, round_, digest, 1))


def test_what_the_outbox_sent_is_never_strange(network: Network, watched: Watched) -> None:
    outbox, node = watched.outbox, watched.node
    for _ in range(4):
        now = watched.reader.current_round()
        outbox.put(f"commit/{now + 1}", commit(node, now + 1), deadline_round=now)
        outbox.pump()
        assert watched.look() == "", "it is on its way"
        network.chain.mine()
        assert watched.look() == "", "mined, and the outbox does not know that yet"
        network.chain.reorg(1)
        assert watched.look() == ""
        watched.deliver()
        assert outbox.state(f"commit/{now + 1}").status == "mined"
        assert watched.look() == ""
        watched.next_round()
    assert watched.said == []


def test_a_foreign_policy_is_proof_once_it_is_deep(network: Network, watched: Watched) -> None:
    now = watched.reader.current_round()
    send(network, commit(watched.node, now + 1))
    words = watched.look()
    assert f"the policy committed for round {now + 1} did not come from this node's outbox" in words
    assert watched.said == [words]
    assert "second program" not in words
    network.chain.mine(CONFIRMATIONS - 2)
    assert watched.look() == words
    network.chain.mine()
    with pytest.raises(SecondProgram, match="a second program uses this node's key") as proven:
        watched.look()
    assert f"the policy committed for round {now + 1}" in str(proven.value)
    assert "reorganization" not in str(proven.value)


def test_what_a_shallow_reorganization_takes_back_proves_nothing(network: Network, watched: Watched) -> None:
    now = watched.reader.current_round()
    send(network, commit(watched.node, now + 1))
    assert watched.look()
    network.chain.reorg(2)
    network.chain.rpc("anvil_dropAllTransactions")
    for _ in range(3):
        assert watched.look() == ""
        watched.next_round()


def test_the_same_act_by_another_is_not_ours(network: Network, watched: Watched) -> None:
    """Two nodes with one key commit the same base: whose transaction it was counts."""
    now = watched.reader.current_round()
    watched.outbox.put(f"commit/{now + 1}", commit(watched.node, now + 1), deadline_round=now)
    send(network, commit(watched.node, now + 1))
    watched.outbox.pump()
    network.chain.mine(CONFIRMATIONS)
    watched.outbox.pump()
    with pytest.raises(SecondProgram, match=f"the policy committed for round {now + 1}"):
        watched.look()


def test_what_was_sent_before_this_run_is_of_no_interest(network: Network, outbox: Outbox) -> None:
    """An outbox that was lost does not know it; what is sent later than the first round is known."""
    watched = Watched(network, outbox)
    now = watched.reader.current_round()
    for round_ in (now + 1, now + 2):
        send(network, commit(watched.node, round_))
    for _ in range(3):
        assert watched.look() == ""
        watched.next_round()
    send(network, commit(watched.node, now + 4))
    network.chain.mine(CONFIRMATIONS)
    with pytest.raises(SecondProgram, match=f"the policy committed for round {now + 4}"):
        watched.look()


@pytest.mark.parametrize("behind", [1, 10, 30])
def test_a_view_that_lags_proves_nothing(network: Network, outbox: Outbox, rpc: FaultyRpc, behind: int) -> None:
    """Of a provider's machines one is behind, and answers every other question."""
    turn = [0]

    def lag(call: dict[str, Any]) -> None:
        if call["method"] not in ("eth_call", "eth_getTransactionCount", "eth_getBalance"):
            return
        turn[0] += 1
        oldest = network.chain.block_number() - behind
        if turn[0] % 2 and call["params"][-1] == "latest" and oldest > network.deployment.first_block:
            call["params"][-1] = hex(oldest)

    rpc.rewrite = lag
    watched = Watched(network, outbox, reader=network.reader(rpc.url))
    for _ in range(8):
        now = network.reader().current_round()
        outbox.put(f"commit/{now + 1}", commit(watched.node, now + 1), deadline_round=now)
        for _ in range(6):
            watched.deliver()
            assert watched.watch.look(now, watched.reader.node_of(watched.node)) == ""
        watched.next_round()
    assert watched.said == []
    assert outbox.keys("endpoint/") == [], "nor is an endpoint set right that was never wrong"


def test_a_nonce_that_was_taken_by_hand_is_said_once_it_is_deep(network: Network, watched: Watched) -> None:
    watched.outbox.put("endpoint", ENDPOINT)
    watched.outbox.pump()
    network.chain.rpc("anvil_dropAllTransactions")
    taker = outside(network)
    network.chain.mine()
    watched.outbox.pump()
    assert "program" not in watched.outbox.state("endpoint").reason
    assert watched.look() == ""
    assert watched.said == []
    network.chain.mine(CONFIRMATIONS)
    for _ in range(3):
        assert watched.look() == "", "a wallet is no second node"
        watched.deliver()
    assert len([words for words in watched.said if f"0x{taker.hex()}" in words]) == 1
    assert watched.outbox.state("endpoint").status == "mined", "with another nonce"


def test_what_is_sent_by_hand_in_between_is_only_said(network: Network, watched: Watched) -> None:
    taker = outside(network)
    network.chain.mine(CONFIRMATIONS)
    assert watched.look() == ""
    assert len(watched.said) == 1
    assert f"0x{taker.hex()}" in watched.said[0]
    watched.next_round()
    assert watched.look() == ""
    assert len(watched.said) == 1


def test_an_endpoint_is_set_right_once(network: Network, outbox: Outbox) -> None:
    watched = Watched(network, outbox)
    watched.settle_in()
    send(network, Call("nodes", "setEndpoint", (THEIRS,)))
    assert watched.look() == ""
    assert watched.said == [], "that can be a reorganization yet"
    network.chain.mine(CONFIRMATIONS)
    assert watched.look() == ""
    assert f"the endpoint on chain became {THEIRS}" in watched.said[0]
    for _ in range(3):
        watched.deliver()
        assert watched.look() == ""
        watched.next_round()
    assert watched.reader.node_of(watched.node).endpoint == OURS
    send(network, Call("nodes", "setEndpoint", (THEIRS,)))
    assert watched.look() == ""
    network.chain.mine(CONFIRMATIONS)
    with pytest.raises(SecondProgram, match=f"the endpoint on chain became {THEIRS}, after"):
        watched.look()
    assert len(outbox.keys("endpoint/")) == 1, "and it was sent once"


def test_an_operator_says_and_stops_for_what_its_owner_does(network: Network, open_outbox: Open) -> None:
    """Account 2 owns the node, account 1's key is its operator. The endpoint is the owner's business."""
    outbox, owner = open_outbox(confirmations=CONFIRMATIONS), network.chain.account(2).address.lower()
    send(network, Call("nodes", "register", (outbox.address, THEIRS)), account=2, value=BOND)
    network.mine_to_round(0)
    watched = Watched(network, outbox, owner=owner)
    for _ in range(3):
        assert watched.look() == ""
        watched.next_round()
    assert set(watched.said) == {
        f"peers look for this node at {THEIRS}; only the owner can change that to {OURS}",
    }
    assert outbox.pending() == []
    send(network, commit(owner, watched.reader.current_round() + 1), account=2)
    network.chain.mine(CONFIRMATIONS)
    with pytest.raises(SecondProgram) as proven:
        watched.look()
    assert f"the key of this node's owner ({owner}) or of its operator ({outbox.address})" in str(proven.value)


def test_the_registration_s_endpoint_is_known(network: Network, open_outbox: Open) -> None:
    """A node that was registered with another endpoint puts it right when it starts, and that is not deep yet."""
    outbox = open_outbox(confirmations=CONFIRMATIONS)
    register(network, outbox)
    network.mine_to_round(0)
    other = Watched(network, outbox)
    outbox.put("endpoint/7", ENDPOINT)
    outbox.pump()
    for _ in range(CONFIRMATIONS - 1):
        network.chain.mine()
        outbox.pump()
        assert other.look() == ""
    assert other.said == []
