"""The outbox and its nonces: replacements, reorganizations, and other programs that use the same key."""

from itertools import pairwise

import pytest

from outboxes import ENDPOINT, REGISTER, Open, nonce, outside, register
from sapo_devnet.testkit.networks import BOND, Network
from sapo_verifier.chain.contracts import Call
from sapo_verifier.chain.signing import GWEI


def test_another_transaction_of_the_key_is_survived_in_words(network: Network, open_outbox: Open) -> None:
    outbox = open_outbox()
    register(network, outbox)
    outbox.put("endpoint", ENDPOINT)
    outbox.pump()
    network.chain.rpc("anvil_dropAllTransactions")
    taker = outside(network)
    network.chain.mine()

    original = outbox._wire.sender.eth.send_raw_transaction
    outbox._wire.sender.eth.send_raw_transaction = lambda raw: pytest.fail("too early")  # type: ignore
    outbox._start = lambda entry, head, used: False  # type: ignore[method-assign]
    outbox.pump()
    state = outbox.state("endpoint")
    assert state.status == "intent"
    assert f"nonce 1 was used by another transaction, 0x{taker.hex()}, seen in block " in state.reason
    assert "program" not in state.reason, "it may have been sent by hand"

    outbox._wire.sender.eth.send_raw_transaction = original  # type: ignore[method-assign]
    del outbox._start
    outbox.pump()
    network.chain.mine()
    outbox.pump()
    assert outbox.state("endpoint").status == "mined"
    assert nonce(network, outbox) == 3


def test_a_used_nonce_without_a_receipt_is_not_signed_again(
    network: Network, open_outbox: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A provider whose receipts lag ("indexing in progress") must not lead to a second transaction."""
    outbox = open_outbox()
    outbox.put("register", REGISTER, value=BOND)
    outbox.pump()
    network.chain.mine()
    real = outbox._wire.by_hash
    monkeypatch.setattr(outbox._wire, "by_hash", lambda *_: {})
    outbox.pump()
    state = outbox.state("register")
    assert (state.status, "no receipt yet" in state.reason) == ("sent", True)
    monkeypatch.setattr(outbox._wire, "by_hash", real)
    outbox.pump()
    assert outbox.state("register").status == "mined"
    assert nonce(network, outbox) == 1


def test_without_evidence_nothing_is_signed_again(
    network: Network, open_outbox: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An RPC that keeps no old state cannot say who used the nonce."""
    outbox = open_outbox()
    register(network, outbox)
    outbox.put("endpoint", ENDPOINT)
    outbox.pump()
    network.chain.rpc("anvil_dropAllTransactions")
    outside(network)
    network.chain.mine()
    monkeypatch.setattr("sapo_client.transactions.delivery.taker_of_nonce", lambda *_: None)
    outbox.pump()
    assert outbox.state("endpoint").status == "sent"
    assert len(outbox._store.attempts(outbox._store.in_flight()).popitem()[1]) == 1


def test_a_stuck_transaction_is_replaced_with_a_higher_fee(network: Network, open_outbox: Open) -> None:
    outbox = open_outbox(stuck_blocks=0, max_replacements=2)
    outbox.put("register", REGISTER, value=BOND)
    for _ in range(5):
        outbox.pump()
    assert "after 2 replacements" in outbox.state("register").reason
    entry = outbox._store.in_flight()[0]
    attempts = outbox._store.attempts([entry])[entry.id]
    assert [attempt.nonce for attempt in attempts] == [0, 0, 0]
    for lower, higher in pairwise(attempts):
        assert higher.max_fee * 10 >= lower.max_fee * 11
        assert higher.tip * 10 >= lower.tip * 11
    network.chain.mine()
    outbox.pump()
    state = outbox.state("register")
    assert (state.status, state.reason, state.hash) == ("mined", "", attempts[-1].hash)
    assert nonce(network, outbox) == 1


def test_only_the_first_in_flight_is_replaced(network: Network, open_outbox: Open) -> None:
    outbox = open_outbox(stuck_blocks=0, max_replacements=2)
    outbox.put("register", REGISTER, value=BOND)
    outbox.put("endpoint", ENDPOINT)
    for _ in range(4):
        outbox.pump()
    first, second = outbox._store.in_flight()
    attempts = outbox._store.attempts([first, second])
    assert (len(attempts[first.id]), len(attempts[second.id])) == (3, 1)
    network.chain.mine()
    outbox.pump()
    assert outbox.state("endpoint").status == "mined"


def test_a_fee_that_became_too_low_is_raised(network: Network, open_outbox: Open) -> None:
    outbox = open_outbox(stuck_blocks=2)
    chain = network.chain
    outbox.put("register", REGISTER, value=BOND)
    outbox.pump()
    first = outbox._store.attempts(outbox._store.in_flight())
    offered = next(iter(first.values()))[0].max_fee
    for _ in range(2):
        chain.rpc("anvil_setNextBlockBaseFeePerGas", hex(offered * 2))
        chain.mine()
    outbox.pump()
    chain.mine()
    outbox.pump()
    assert outbox.state("register").status == "mined"
    assert nonce(network, outbox) == 1


def test_fees_stay_below_the_cap(network: Network, open_outbox: Open) -> None:
    outbox = open_outbox(fee_cap=5 * GWEI, stuck_blocks=1)
    chain = network.chain
    chain.rpc("anvil_setNextBlockBaseFeePerGas", hex(6 * GWEI))
    chain.mine()
    outbox.put("register", REGISTER, value=BOND)
    outbox.pump()
    state = outbox.state("register")
    assert (state.status, "above the cap of 5" in state.reason) == ("intent", True)

    chain.rpc("anvil_setNextBlockBaseFeePerGas", hex(4 * GWEI))
    chain.mine()
    outbox.pump()
    entry = outbox._store.in_flight()[0]
    chain.rpc("anvil_setNextBlockBaseFeePerGas", hex(6 * GWEI))
    chain.mine(1)
    outbox.pump()
    assert "would exceed the cap of 5 gwei" in outbox.state("register").reason
    assert [a.max_fee for a in outbox._store.attempts([entry])[entry.id]] == [5 * GWEI]


def test_a_reorganization_that_removes_a_transaction_is_noticed(network: Network, open_outbox: Open) -> None:
    outbox = open_outbox()
    register(network, outbox)
    outbox.put("endpoint", ENDPOINT)
    outbox.pump()
    network.chain.mine()
    outbox.pump()
    network.chain.reorg(2)
    assert nonce(network, outbox) == 0
    outbox.pump()
    assert [outbox.state(key).status for key in ("register", "endpoint")] == ["sent", "sent"]
    network.chain.mine()
    outbox.pump()
    assert [outbox.state(key).status for key in ("register", "endpoint")] == ["mined", "mined"]
    assert nonce(network, outbox) == 2


def test_a_hole_in_the_nonces_is_filled(network: Network, open_outbox: Open) -> None:
    """A reorganization removes another program's transaction, on whose nonce ours was built."""
    outbox = open_outbox()
    outside(network)
    network.chain.mine()
    outbox.put("register", REGISTER, value=BOND)
    outbox.pump()
    network.chain.mine()
    outbox.pump()
    network.chain.reorg(2)
    for _ in range(2):
        outbox.pump()
        network.chain.mine()
    outbox.pump()
    assert outbox.state("register").status == "mined"
    assert nonce(network, outbox) == 2


def test_what_was_sent_and_is_too_late_gives_its_nonce_back(network: Network, open_outbox: Open) -> None:
    outbox = open_outbox()
    register(network, outbox)
    outbox.put("endpoint", ENDPOINT, deadline_round=0)
    outbox.pump()
    outbox.put("later", Call("nodes", "setEndpoint", ("/ip4/10.0.0.1/tcp/82/http",)))
    network.chain.rpc("anvil_dropAllTransactions")
    network.mine_to_round(1)
    outbox.pump()
    assert outbox.state("endpoint").status == "sent"
    network.chain.mine()
    outbox.pump()
    state = outbox.state("endpoint")
    assert (state.status, "empty transaction" in state.reason) == ("expired", True)
    assert outbox.state("later").status == "mined"
    assert nonce(network, outbox) == 3
    assert network.reader().node_of(outbox.address).endpoint.endswith("/82/http")
