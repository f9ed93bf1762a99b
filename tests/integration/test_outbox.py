"""The durable outbox against a real Anvil: exactly once, whatever happens in between."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from outboxes import ENDPOINT, REGISTER, Open, nonce, register, settle
from sapo_client.state.sqlite import DatabaseBrokenError
from sapo_client.transactions.store import OutboxError
from sapo_devnet.checkout import ROOT
from sapo_devnet.testkit.networks import BOND, Network
from sapo_verifier import net
from sapo_verifier.chain.contracts import Call
from sapo_verifier.chain.errors import ChainReset, ChainUnavailable

POLICY = bytes.fromhex("ab" * 32)
DRIVER = Path(__file__).with_name("outbox_driver.py")


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
    with pytest.raises(DatabaseBrokenError, match=r"the outbox .* cannot be read .*found again by their effects"):
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
    send = outbox._wire.sender.eth.send_raw_transaction
    outbox._wire.sender.eth.send_raw_transaction = lambda raw: sent.append(raw) or send(raw)  # type: ignore
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
    eth = outbox._wire.sender.eth
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


def test_the_sender_never_repeats_a_send_by_itself(open_outbox: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    sender, tried = open_outbox()._wire.sender, []

    def broken(data: bytes) -> bytes:
        tried.append(data)
        raise net.NoConnection("it broke")

    monkeypatch.setattr(sender.provider, "_exchange", broken)
    with pytest.raises(net.NoConnection):
        sender.eth.send_raw_transaction(b"\x02")
    assert len(tried) == 1
    with pytest.raises(net.NoConnection):
        sender.eth.get_balance("0x" + "22" * 20)  # type: ignore[arg-type]
    assert len(tried) == 1 + 3, "as a read is"


def test_a_refusal_counts_only_when_nothing_earlier_is_in_flight(
    network: Network, open_outbox: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An RPC that does not know the pending block estimates without our earlier transactions."""
    monkeypatch.setattr(
        "sapo_client.transactions.delivery.estimate_gas",
        lambda w3, request: w3.eth.estimate_gas(request, "latest") * 5 // 4,
    )
    outbox = open_outbox()
    outbox.put("register", REGISTER, value=BOND)
    outbox.put("endpoint", ENDPOINT)
    outbox.pump()
    state = outbox.state("endpoint")
    assert (state.status, "waits for earlier transactions" in state.reason) == ("intent", True)
    for _ in range(2):
        network.chain.mine()
        outbox.pump()
    assert outbox.state("endpoint").status == "mined"


def test_what_was_not_sent_before_its_deadline_expires(network: Network, open_outbox: Open) -> None:
    outbox = open_outbox()
    outbox.put("endpoint", ENDPOINT, deadline_round=0)
    network.mine_to_round(1)
    outbox.pump()
    state = outbox.state("endpoint")
    assert (state.status, state.reason) == ("expired", "round 0 ended before it was mined")
    assert nonce(network, outbox) == 0


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
    settle(network, outbox)
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


@pytest.mark.parametrize("enough_at_last", [True, False])
def test_a_transaction_that_ran_out_of_gas_is_signed_again_a_few_times(
    network: Network, open_outbox: Open, monkeypatch: pytest.MonkeyPatch, enough_at_last: bool
) -> None:
    """A reorganization can put transactions into another order, and a call then takes more than was estimated."""
    outbox = open_outbox(max_replacements=2)
    register(network, outbox)
    estimates = [27_000, 27_000, 27_000]
    if enough_at_last:
        estimates[2:] = [200_000]
    monkeypatch.setattr("sapo_client.transactions.delivery.estimate_gas", lambda *_: estimates.pop(0))
    outbox.put("endpoint", ENDPOINT)
    for _ in range(6):
        outbox.pump()
        network.chain.mine()
    state = outbox.state("endpoint")
    assert estimates == [], state
    assert nonce(network, outbox) == 4
    if enough_at_last:
        assert (state.status, state.reason) == ("mined", "")
        assert network.reader().node_of(outbox.address).endpoint == ENDPOINT.args[0]
    else:
        assert (state.status, "ran out of gas" in state.reason) == ("failed", True)
    assert outbox.pending() == []


def test_a_failed_call_can_be_tried_again(network: Network, open_outbox: Open) -> None:
    outbox = open_outbox()
    outbox.put("endpoint", ENDPOINT)
    settle(network, outbox)
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
