"""The durable outbox against a real Anvil: exactly once, whatever happens in between."""

import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from anvil import ROOT
from networks import BOND, Network
from sapo_client.fees import GWEI
from sapo_client.outbox import Outbox
from sapo_client.outbox_store import OutboxError
from sapo_verifier.chain.contracts import Call
from sapo_verifier.chain.errors import ChainReset, ChainUnavailable

REGISTER = Call("nodes", "register", ("0x" + "22" * 20, "/ip4/10.0.0.1/tcp/80/http"))
ENDPOINT = Call("nodes", "setEndpoint", ("/ip4/10.0.0.1/tcp/81/http",))
POLICY = bytes.fromhex("ab" * 32)
DRIVER = Path(__file__).with_name("outbox_driver.py")

Open = Callable[..., Outbox]


@pytest.fixture
def open_outbox(network: Network, tmp_path: Path) -> Iterator[Open]:
    """Opens the outbox of account 1, and closes it at the end. Blocks are made by `mine` only."""
    network.chain.rpc("evm_setAutomine", False)
    opened: list[Outbox] = []

    def open_(name: str = "outbox.sqlite", **options: Any) -> Outbox:
        account = network.chain.account(options.pop("account", 1))
        opened.append(Outbox(tmp_path / name, network.reader(), account, **options))
        return opened[-1]

    yield open_
    for outbox in opened:
        outbox.close()


def nonce(network: Network, outbox: Outbox) -> int:
    return network.chain.w3.eth.get_transaction_count(network.chain.w3.to_checksum_address(outbox.address))


def register(network: Network, outbox: Outbox) -> None:
    """The node is registered, with the account's first transaction."""
    outbox.put("register", REGISTER, value=BOND)
    outbox.pump()
    network.chain.mine()
    outbox.pump()
    assert outbox.state("register").status == "mined"


def outside(network: Network, i: int = 1, **fields: Any) -> bytes:
    """A transaction of the same key that the outbox does not know."""
    w3 = network.chain.w3
    address = network.chain.account(i).address
    return bytes(w3.eth.send_transaction({"from": address, "to": address, "value": 0} | fields))


def test_a_call_goes_from_intent_to_mined(network: Network, open_outbox: Open) -> None:
    outbox = open_outbox(confirmations=3)
    assert outbox.state("register").status == "none"
    outbox.put("register", REGISTER, value=BOND)
    outbox.put("register", REGISTER, value=BOND)
    assert outbox.state("register").status == "intent"
    assert outbox.pending() == ["register"]
    outbox.pump()
    outbox.pump()
    assert outbox.state("register").status == "sent"
    network.chain.mine()
    outbox.pump()
    state = outbox.state("register")
    assert (state.status, state.confirmed, outbox.pending()) == ("mined", False, [])
    assert state.block == network.chain.w3.eth.block_number
    network.chain.mine(2)
    outbox.pump()
    assert outbox.state("register").confirmed
    assert nonce(network, outbox) == 1
    assert network.reader().node_of(outbox.address).active


def test_a_later_call_may_need_an_earlier_one(network: Network, open_outbox: Open) -> None:
    outbox = open_outbox()
    outbox.put("register", REGISTER, value=BOND)
    outbox.put("endpoint", ENDPOINT)
    outbox.pump()
    assert outbox.state("endpoint").status == "sent"
    network.chain.mine()
    outbox.pump()
    assert outbox.state("endpoint").status == "mined"


def test_a_key_means_one_call_for_ever(open_outbox: Open) -> None:
    outbox = open_outbox()
    outbox.put("endpoint", ENDPOINT)
    with pytest.raises(OutboxError, match=r"another call as 'endpoint' already \(intent\)"):
        outbox.put("endpoint", REGISTER, value=BOND)
    assert outbox.call_of("endpoint") == ENDPOINT


def test_a_call_that_does_not_fit_the_contract_is_refused_at_once(open_outbox: Open) -> None:
    outbox = open_outbox()
    with pytest.raises(ValueError, match=r"setEndpoint takes \(endpoint\), not 0 arguments"):
        outbox.put("endpoint", Call("nodes", "setEndpoint"))
    with pytest.raises(ValueError, match="has no function 'mint'"):
        outbox.put("mint", Call("nodes", "mint"))
    assert outbox.pending() == []


def test_a_second_outbox_on_the_same_file_is_refused(open_outbox: Open) -> None:
    outbox = open_outbox()
    with pytest.raises(OutboxError, match="in use by another process"):
        open_outbox()
    outbox.put("endpoint", ENDPOINT)
    assert outbox.pending() == ["endpoint"]


def test_an_outbox_of_another_account_is_refused(open_outbox: Open) -> None:
    open_outbox().close()
    with pytest.raises(OutboxError, match=r"belongs to account 0x[0-9a-f]{40} on chain 31337"):
        open_outbox(account=2)
    open_outbox()


def test_what_is_no_outbox_is_refused(open_outbox: Open, tmp_path: Path) -> None:
    (tmp_path / "broken.sqlite").write_bytes(b"not a database, but long enough to look like one" * 100)
    with pytest.raises(OutboxError, match="cannot be read"):
        open_outbox("broken.sqlite")


@pytest.mark.parametrize(
    "step", ["before signing", "while storing", "before sending", "after sending", "before the receipt"]
)
def test_killed_anywhere_the_call_is_made_exactly_once(
    network: Network, open_outbox: Open, tmp_path: Path, step: str
) -> None:
    network.deployment.save(tmp_path / "deployment.json")
    first = open_outbox()
    register(network, first)
    first.close()

    key = "0x" + network.chain.account(1).key.hex()
    arguments = [step, network.chain.url, str(tmp_path / "deployment.json"), str(tmp_path / "outbox.sqlite"), key]
    ended = subprocess.run([sys.executable, str(DRIVER), *arguments], cwd=ROOT, timeout=60, capture_output=True)
    assert ended.returncode == -signal.SIGKILL, ended.stderr.decode()

    again = open_outbox()
    again.put("endpoint", ENDPOINT)
    for _ in range(3):
        again.pump()
        network.chain.mine()
    again.pump()
    assert again.state("endpoint").status == "mined"
    assert nonce(network, again) == 2


def test_the_same_bytes_are_sent_again_only_if_the_chain_lost_them(network: Network, open_outbox: Open) -> None:
    outbox = open_outbox()
    sent: list[bytes] = []
    send = outbox._sender.eth.send_raw_transaction
    outbox._sender.eth.send_raw_transaction = lambda raw: sent.append(raw) or send(raw)  # type: ignore
    outbox.put("register", REGISTER, value=BOND)
    for _ in range(3):
        outbox.pump()
    assert len(sent) == 1
    network.chain.rpc("anvil_dropAllTransactions")
    outbox.pump()
    outbox.pump()
    assert len(sent) == 2
    assert sent[0] == sent[1]
    network.chain.mine()
    outbox.pump()
    outbox.pump()
    assert outbox.state("register").status == "mined"
    assert len(sent) == 2


def test_a_lost_answer_to_a_send_is_not_a_second_transaction(
    network: Network, open_outbox: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    outbox = open_outbox()
    eth = outbox._sender.eth
    send = eth.send_raw_transaction

    def lose(raw: bytes) -> None:
        send(raw)
        raise ChainUnavailable("the connection broke after the send")

    monkeypatch.setattr(eth, "send_raw_transaction", lose)
    outbox.put("register", REGISTER, value=BOND)
    with pytest.raises(ChainUnavailable):
        outbox.pump()
    network.chain.mine()
    outbox.pump()
    assert outbox.state("register").status == "mined"
    assert nonce(network, outbox) == 1


def test_the_sender_never_repeats_a_send_by_itself(open_outbox: Open) -> None:
    assert open_outbox()._sender.provider.exception_retry_configuration is None  # type: ignore[attr-defined]


def test_another_transaction_of_the_key_is_survived_in_words(network: Network, open_outbox: Open) -> None:
    outbox = open_outbox()
    register(network, outbox)
    outbox.put("endpoint", ENDPOINT)
    outbox.pump()
    network.chain.rpc("anvil_dropAllTransactions")
    taker = outside(network)
    network.chain.mine()

    original = outbox._sender.eth.send_raw_transaction
    outbox._sender.eth.send_raw_transaction = lambda raw: pytest.fail("too early")  # type: ignore
    outbox._start = lambda entry, head, used: False  # type: ignore[method-assign]
    outbox.pump()
    state = outbox.state("endpoint")
    assert state.status == "intent"
    assert f"took nonce 1 (0x{taker.hex()})" in state.reason

    outbox._sender.eth.send_raw_transaction = original  # type: ignore[method-assign]
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
    real = outbox._by_hash
    monkeypatch.setattr(outbox, "_by_hash", lambda *_: {})
    outbox.pump()
    state = outbox.state("register")
    assert (state.status, "no receipt yet" in state.reason) == ("sent", True)
    monkeypatch.setattr(outbox, "_by_hash", real)
    outbox.pump()
    assert outbox.state("register").status == "mined"
    assert nonce(network, outbox) == 1


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


def test_what_was_not_sent_before_its_deadline_expires(network: Network, open_outbox: Open) -> None:
    outbox = open_outbox()
    outbox.put("endpoint", ENDPOINT, deadline_round=0)
    network.mine_to_round(1)
    outbox.pump()
    state = outbox.state("endpoint")
    assert (state.status, state.reason) == ("expired", "round 0 ended before it could be sent")
    assert nonce(network, outbox) == 0


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


def test_what_was_mined_in_time_is_mined_even_if_noticed_late(network: Network, open_outbox: Open) -> None:
    outbox = open_outbox()
    outbox.put("register", REGISTER, value=BOND, deadline_round=0)
    outbox.pump()
    network.mine_to_round(3)
    outbox.pump()
    assert outbox.state("register").status == "mined"


def test_a_call_that_the_contract_refuses_fails_in_words(network: Network, open_outbox: Open) -> None:
    outbox = open_outbox()
    network.mine_to_round(1)
    outbox.put("commit/2", Call("rounds", "commitPolicy", (outbox.address, 2, POLICY, 1)))
    outbox.put("endpoint", ENDPOINT)
    outbox.put("register", REGISTER, value=BOND - 1)
    outbox.pump()
    assert outbox.state("commit/2").status == "failed"
    assert f"{outbox.address}" in outbox.state("commit/2").reason
    assert "(it is not registered); register it first" in outbox.state("endpoint").reason
    assert outbox.state("register").reason == (
        "the bond is exactly 1 coins, and 0.999999999999999999 were sent; send that amount"
    )
    assert outbox.pending() == []
    assert nonce(network, outbox) == 0


def test_a_transaction_that_fails_when_mined_fails_in_words(network: Network, open_outbox: Open) -> None:
    outbox = open_outbox()
    network.mine_to_round(0)
    register(network, outbox)
    outbox.put("commit/1", Call("rounds", "commitPolicy", (outbox.address, 1, POLICY, 1)))
    outbox.pump()
    network.chain.rpc("anvil_dropAllTransactions")
    network.mine_to_round(1)
    outbox.pump()
    network.chain.mine()
    outbox.pump()
    state = outbox.state("commit/1")
    assert (state.status, "round 1 has begun" in state.reason) == ("failed", True)
    with pytest.raises(OutboxError, match="not 12 blocks deep"):
        outbox.retry("commit/1")


def test_a_failed_call_can_be_tried_again(network: Network, open_outbox: Open) -> None:
    outbox = open_outbox()
    outbox.put("endpoint", ENDPOINT)
    outbox.pump()
    assert outbox.state("endpoint").status == "failed"
    register(network, outbox)
    outbox.retry("endpoint")
    outbox.pump()
    network.chain.mine()
    outbox.pump()
    assert outbox.state("endpoint").status == "mined"
    with pytest.raises(OutboxError, match="nothing to try again"):
        outbox.retry("endpoint")


def test_missing_funds_are_said_in_words(network: Network, open_outbox: Open) -> None:
    outbox = open_outbox()
    network.chain.rpc("anvil_setBalance", outbox.address, hex(BOND // 2))
    outbox.put("register", REGISTER, value=BOND)
    outbox.pump()
    state = outbox.state("register")
    assert state.status == "intent"
    assert state.reason == (
        f"the account {outbox.address} holds 0.5 coins, and register can cost 1, 1 of them paid to the contract; "
        "send the account 0.5 more"
    )
    network.chain.rpc("anvil_setBalance", outbox.address, hex(BOND))
    outbox.pump()
    assert "holds 1 coins, and register can cost 1.0" in outbox.state("register").reason
    network.chain.rpc("anvil_setBalance", outbox.address, hex(2 * BOND))
    outbox.pump()
    assert outbox.state("register").status == "sent"


def test_nothing_is_sent_to_a_chain_that_was_reset(network: Network, open_outbox: Open) -> None:
    outbox = open_outbox()
    outbox.put("register", REGISTER, value=BOND)
    network.chain.reorg(network.chain.w3.eth.block_number - network.deployment.block + 1)
    with pytest.raises(ChainReset):
        outbox.pump()
    assert outbox.state("register").status == "intent"


def test_no_key_and_no_signed_bytes_in_the_log(
    network: Network, open_outbox: Open, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    outbox = open_outbox()
    register(network, outbox)
    assert "register: mined" in caplog.text
    assert network.chain.account(1).key.hex() not in caplog.text
    assert "02f8" not in caplog.text  # how signed transactions of type 2 begin
