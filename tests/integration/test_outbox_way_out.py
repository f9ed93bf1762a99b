"""The outbox always has a way out: after a trouble all in it is mined, or given up with the true reason."""

import random
from collections import Counter

import pytest

from outboxes import ENDPOINT, REGISTER, Open, outside, register
from sapo_client.transactions.outbox import Outbox
from sapo_devnet.testkit.networks import BOND, Network
from sapo_verifier.chain.contracts import Call
from sapo_verifier.chain.signing import GWEI

CAP = 100 * GWEI
BLOCKS = 40  # after the trouble, until all is settled: a few for each transaction in flight


def spike(network: Network, gwei: float) -> None:
    """The next block asks so much; the ones after it fall by an eighth each, as full blocks would not let them."""
    network.chain.rpc("anvil_setNextBlockBaseFeePerGas", hex(int(gwei * GWEI)))
    network.chain.mine()


def calm(network: Network, outbox: Outbox, blocks: int = BLOCKS) -> None:
    for _ in range(blocks):
        outbox.pump()
        if not outbox.pending():
            return
        network.chain.rpc("anvil_setNextBlockBaseFeePerGas", hex(GWEI))
        network.chain.mine()


def test_a_spike_while_a_round_ends_does_not_lock_the_outbox(network: Network, open_outbox: Open) -> None:
    """Signed at the cap, dropped by the pools, too late: neither a higher fee nor an empty replacement is possible."""
    outbox = open_outbox(fee_cap=CAP, stuck_blocks=1)
    register(network, outbox)
    spike(network, 60)
    outbox.put("endpoint", ENDPOINT, deadline_round=0)
    outbox.pump()
    entry = outbox._store.in_flight()[0]
    assert [attempt.max_fee for attempt in outbox._store.attempts([entry])[entry.id]] == [CAP]
    network.chain.rpc("anvil_dropAllTransactions")
    for _ in range(3):
        spike(network, 150)
        outbox.pump()
    network.mine_to_round(1)
    spike(network, 150)
    outbox.pump()
    assert "a higher fee would exceed the cap of 100 gwei ([chain] fee_cap_gwei)" in outbox.state("endpoint").reason
    outbox.close()
    outbox = open_outbox(fee_cap=CAP, stuck_blocks=1)
    outbox.put("later", Call("nodes", "setEndpoint", ("/ip4/10.0.0.1/tcp/82/http",)))
    calm(network, outbox, 8)
    assert outbox.pending() == []
    assert outbox.state("endpoint").status in ("mined", "expired")
    assert outbox.state("later").status == "mined"


def test_fees_that_rose_for_good_are_followed(network: Network, open_outbox: Open) -> None:
    """Also after all replacements: they were made while the chain was cheap."""
    outbox = open_outbox(fee_cap=CAP, stuck_blocks=0, max_replacements=2)
    outbox.put("register", REGISTER, value=BOND)
    for _ in range(5):
        outbox.pump()
    assert "after 2 replacements" in outbox.state("register").reason
    for _ in range(4):
        spike(network, 40)
        outbox.pump()
    network.chain.rpc("anvil_setNextBlockBaseFeePerGas", hex(40 * GWEI))
    network.chain.mine()
    outbox.pump()
    assert outbox.state("register").status == "mined"


def test_why_something_was_never_sent_is_said_when_it_is_given_up(network: Network, open_outbox: Open) -> None:
    outbox = open_outbox(fee_cap=CAP)
    register(network, outbox)
    outbox.put("endpoint", ENDPOINT, deadline_round=0)
    spike(network, 150)
    outbox.pump()
    network.mine_to_round(1)
    outbox.pump()
    state = outbox.state("endpoint")
    assert state.status == "expired"
    assert "round 0 ended before it was mined (a block asks " in state.reason
    assert "above the cap of 100 gwei ([chain] fee_cap_gwei)" in state.reason


def test_what_is_too_late_is_cancelled_and_not_made_dearer(
    network: Network, open_outbox: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While the chain's nodes take nothing, what is signed next is empty, and never the same call again."""
    outbox = open_outbox(fee_cap=CAP, stuck_blocks=0)
    register(network, outbox)
    outbox.put("endpoint", ENDPOINT, deadline_round=0)
    outbox.pump()
    network.chain.rpc("anvil_dropAllTransactions")
    network.mine_to_round(1)
    with monkeypatch.context() as patch:
        patch.setattr(outbox._wire, "send", lambda attempt: "no")
        outbox.pump()
    entry = outbox._store.in_flight()[0]
    assert [attempt.empty for attempt in outbox._store.attempts([entry])[entry.id]] == [False, True]
    calm(network, outbox, 4)
    assert outbox.state("endpoint").status == "expired"


# -- whatever happens --

KINDS = ("put", "put", "dear", "dear", "mine", "spike", "drop", "outside", "reorganization", "restart", "round")


class Troubles:
    """A random history of one outbox: what is put into it, and what happens to its chain and its process."""

    def __init__(self, network: Network, open_outbox: Open, seed: int) -> None:
        self.network, self.rng, self._open = network, random.Random(seed), open_outbox
        self.outbox = self.restarted()
        register(network, self.outbox)
        self.put: dict[str, int | None] = {}  # key → its deadline

    def restarted(self) -> Outbox:
        return self._open(fee_cap=CAP, stuck_blocks=2, max_replacements=3)

    def step(self) -> None:
        chain, rng = self.network.chain, self.rng
        what = rng.choice(
            ("put", "put", "pump", "mine", "spike", "drop", "outside", "reorganization", "restart", "round")
        )
        if what == "put":
            key = f"endpoint/{len(self.put)}"
            deadline = rng.choice((None, self.network.reader().current_round() + rng.randrange(2)))
            call = Call("nodes", "setEndpoint", (f"/ip4/10.0.0.1/tcp/{1000 + len(self.put)}/http",))
            self.outbox.put(key, call, deadline_round=deadline)
            self.put[key] = deadline
        elif what == "mine":
            chain.mine(rng.randrange(1, 4))
        elif what == "dear":  # what is signed now is signed at the cap
            spike(self.network, rng.choice((50, 70, 95)))
        elif what == "spike":
            for _ in range(rng.randrange(1, 5)):
                spike(self.network, rng.choice((5, 60, 90, 150, 400)))
                self.outbox.pump()
        elif what == "drop":
            chain.rpc("anvil_dropAllTransactions")
        elif what == "outside":
            outside(self.network, maxFeePerGas=500 * GWEI, maxPriorityFeePerGas=GWEI)
        elif what == "reorganization":
            chain.reorg(rng.randrange(1, 4))
        elif what == "restart":
            self.outbox.close()
            self.outbox = self.restarted()
        elif what == "round":
            self.network.mine_to_round(self.network.reader().current_round() + 1)
        self.outbox.pump()

    def check(self) -> None:
        """All is settled; given up is only what was too late; nothing was done twice."""
        assert self.outbox.pending() == [], [self.outbox.state(key) for key in self.outbox.pending()]
        round_ = self.network.reader().current_round()
        done = self.done()
        for key, deadline in self.put.items():
            state, call = self.outbox.state(key), self.outbox.call_of(key)
            assert call is not None
            assert done[call.encode()] == (state.status == "mined"), (key, state)
            if state.status == "failed":  # a reorganization, and then somebody else's nonce, put it before `register`
                assert "is not registered" in state.reason
            elif state.status != "mined":
                assert (state.status, deadline is not None and deadline < round_) == ("expired", True), (key, state)
                assert "ended before it was mined" in state.reason or "too late" in state.reason

    def done(self) -> Counter[bytes]:
        """How often each call was mined, and succeeded."""
        w3, found = self.network.chain.w3, Counter[bytes]()
        for block in range(self.network.deployment.block, w3.eth.block_number + 1):
            for transaction in w3.eth.get_block(block, full_transactions=True)["transactions"]:
                if w3.eth.get_transaction_receipt(transaction["hash"])["status"] == 1:  # type: ignore[index]
                    found[bytes(transaction["input"])] += 1  # type: ignore[index]
        return found


@pytest.fixture
def troubled(network: Network, open_outbox: Open, seed: int) -> Troubles:
    return Troubles(network, open_outbox, seed)


@pytest.mark.parametrize("seed", [*range(10), 20, 24])
def test_whatever_happens_it_ends(troubled: Troubles) -> None:
    for _ in range(30):
        troubled.step()
    calm(troubled.network, troubled.outbox)
    troubled.check()
