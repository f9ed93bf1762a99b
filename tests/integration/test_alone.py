"""Before a node acts: what its key sent without this home's outbox, and the wait until that is certainly over."""

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from outboxes import ENDPOINT, Open, outside, register
from sapo_client.duties.elsewhere import SecondProgram
from sapo_client.node.alone import PHASE, Watch, wait_until_alone
from sapo_client.node.patience import Patience
from sapo_client.state.heartbeat import beating
from sapo_client.state.report import StatusFile, read_status
from sapo_client.transactions.outbox import Outbox
from sapo_client.transactions.strangers import recent_strangers
from sapo_devnet.testkit.faulty_rpc import FaultyRpc, faulty_rpc
from sapo_devnet.testkit.networks import Network
from sapo_verifier.chain.errors import ChainUnavailable

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


def test_an_outbox_knows_all_that_it_ever_signed(network: Network, open_outbox: Open) -> None:
    """Also what was replaced, failed, or was begun anew."""
    outbox = open_outbox(confirmations=1)
    assert recent_strangers(outbox.reader, outbox, 60) == [], "a fresh key"
    register(network, outbox)
    outbox.put("endpoint", ENDPOINT, deadline_round=0)
    outbox.pump()
    network.chain.rpc("anvil_dropAllTransactions")
    network.mine_to_round(1)
    for _ in range(3):
        outbox.pump()
        network.chain.mine()
    assert outbox.state("endpoint").status == "expired", "an empty transaction took its nonce"
    outbox.retry("endpoint")
    outbox.close()
    outbox = open_outbox(confirmations=1)
    assert recent_strangers(outbox.reader, outbox, 60) == []


def test_what_others_sent_in_the_last_blocks_is_found(network: Network, outbox: Outbox) -> None:
    hash_ = outside(network)
    network.chain.mine()
    (found,) = recent_strangers(outbox.reader, outbox, 60)
    assert (found.nonce, found.signed_too, found.taker and found.taker.hash) == (1, False, hash_)
    assert f"0x{hash_.hex()} (nonce 1, block " in str(found)
    network.chain.mine(61)
    assert recent_strangers(outbox.reader, outbox, 60) == [], "that was long ago"


def test_a_nonce_that_another_transaction_took_is_found(network: Network, outbox: Outbox) -> None:
    outbox.put("endpoint", ENDPOINT)
    outbox.pump()
    network.chain.rpc("anvil_dropAllTransactions")
    hash_ = outside(network)
    network.chain.mine()
    (found,) = recent_strangers(outbox.reader, outbox, 60)
    assert (found.signed_too, found.taker and found.taker.hash) == (True, hash_)


def test_without_old_state_the_outbox_says_where_to_begin(
    network: Network, outbox: Outbox, open_outbox: Open, rpc: FaultyRpc
) -> None:
    first = network.chain.block_number()
    network.chain.mine(2)
    reader = network.reader(rpc.url)

    def no_old_state(method: str, params: Any) -> dict[str, Any] | None:
        number = params[-1] if method in ("eth_getTransactionCount", "eth_call") else "latest"
        return NO_STATE if number.startswith("0x") and int(number, 16) <= first else None

    rpc.fault = no_old_state
    assert recent_strangers(reader, outbox, 60) == []
    assert [each.nonce for each in recent_strangers(reader, open_outbox("lost.sqlite"), 60)] == [0]
    outside(network)
    network.chain.mine()
    (found,) = recent_strangers(reader, outbox, 60)
    assert found.nonce == 1


def test_the_wait_counts_nothing_that_was_on_its_way(network: Network, open_outbox: Open, rpc: FaultyRpc) -> None:
    """What a lost outbox had sent before is mined late, reorganized, and seen late; what is sent then counts."""
    outbox, chain = open_outbox(), network.chain
    reader = network.reader(rpc.url)
    outside(network)
    first, last = chain.block_number() + 3, chain.block_number() + 30
    watch = Watch(reader, outbox, first, last, expected=1)
    assert not watch.is_over()
    chain.mine(2)
    assert not watch.is_over()
    chain.mine(3)
    assert not watch.is_over()
    chain.reorg(4)
    for _ in range(2):  # with the transaction, which the reorganization gave back
        chain.mine()
        assert not watch.is_over()
    rpc.fault = lambda method, params: NO_STATE if method == "eth_getTransactionCount" else None
    assert not watch.is_over(), "a machine that lags says nothing"
    rpc.fault = lambda method, params: None
    hash_ = outside(network)
    chain.mine()
    with pytest.raises(SecondProgram, match=f"0x{hash_.hex()}") as refused:
        watch.is_over()
    assert refused.value.exit_status == 3
    assert "a second program uses this node's key" in str(refused.value)


def test_the_wait_ends_after_a_round(network: Network, open_outbox: Open) -> None:
    outbox, chain = open_outbox(), network.chain
    outside(network)
    chain.mine()
    head = chain.block_number()
    watch = Watch(outbox.reader, outbox, head + 3, head + 23, expected=1)
    chain.mine(22)
    assert not watch.is_over()
    chain.mine(1)
    assert watch.is_over()


def test_while_it_waits_its_status_says_so_and_the_chain_may_be_away(
    network: Network, outbox: Outbox, open_outbox: Open, rpc: FaultyRpc, tmp_path: Path
) -> None:
    """The heartbeat writes the same status: beside a second one of the process, it would say "starting" again."""
    lost, reader = open_outbox("lost.sqlite"), network.reader(rpc.url)
    status = StatusFile(tmp_path)
    status.update(phase="starting")
    seen = []

    class Polls(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            time.sleep(0.01)  # for a beat
            seen.append((read_status(tmp_path) or {}).get("phase"))
            rpc.fault = (lambda method, params: NO_STATE) if len(seen) > 20 else (lambda method, params: None)
            return False

    stop, patience = Polls(), Patience(1e-9, 0.0)
    with beating(status, 0.001), pytest.raises(ChainUnavailable, match="patience_minutes"):
        wait_until_alone(reader, lost, lost.address, status, poll_seconds=0.0, patience=patience, stop=stop)
    assert len(seen) > 20
    assert set(seen) == {PHASE}
