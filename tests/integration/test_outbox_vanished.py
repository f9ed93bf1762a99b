"""What was mined and vanishes is sent again while it can still be of use, however deep the reorganization."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from outboxes import settle
from sapo_client.transactions.outbox import Outbox
from sapo_devnet.testkit.networks import Network
from sapo_verifier.chain.contracts import Call
from voters import address, begin, commit, set_back

ACCOUNTS, R = (1, 2), 2
CONFIRMATIONS = 2
DIGEST = bytes.fromhex("cd" * 32)


@pytest.fixture
def network(begun: Network) -> Iterator[Network]:
    with set_back(begun) as made:
        yield made


@pytest.fixture
def outbox(network: Network, tmp_path: Path) -> Iterator[Outbox]:
    made = Outbox(tmp_path / "outbox.sqlite", network.reader(), network.chain.account(1), confirmations=CONFIRMATIONS)
    yield made
    made.close()


def submitted(network: Network, outbox: Outbox) -> int:
    """The block of a submission of this outbox in round R + 1."""
    commit(network, [1], R + 1)
    beacon = begin(network, R + 1)
    call = Call("rounds", "submit", (outbox.address, R + 1, beacon, DIGEST, DIGEST, 1))
    outbox.put("submit", call, deadline_round=R + 1, beacon=(R + 1, beacon))
    settle(network, outbox)
    block = outbox.state("submit").block
    assert block is not None
    return block


def on_chain(network: Network) -> bool:
    return network.reader().batch_of(address(network, 1), R + 1) is not None


@pytest.mark.parametrize("deeper", [0, CONFIRMATIONS, 4 * CONFIRMATIONS])
def test_a_submission_that_vanished_is_sent_again_while_its_round_lasts(
    network: Network, outbox: Outbox, deeper: int, caplog: pytest.LogCaptureFixture
) -> None:
    block = submitted(network, outbox)
    for _ in range(deeper):
        network.chain.mine()
        outbox.pump()
    assert not outbox.state("submit").confirmed or deeper == 0
    network.chain.reorg(network.reader().block_number() - block + 1)
    network.chain.rpc("anvil_dropAllTransactions")
    assert not on_chain(network)
    settle(network, outbox)
    assert on_chain(network)
    assert outbox.state("submit").status == "mined"
    assert f"does not show its transaction of block {block} any more" in caplog.text
    assert "ended" not in caplog.text, "no reason is invented"


def test_it_is_watched_no_longer_than_it_can_matter(network: Network, outbox: Outbox) -> None:
    submitted(network, outbox)
    begin(network, R + 2)
    outbox.pump()
    assert not outbox.state("submit").confirmed, "a chain that is set back a little can be in its round again"
    begin(network, R + 3)
    outbox.pump()
    assert outbox.state("submit").confirmed


def test_what_vanished_when_its_round_is_over_is_given_up_and_holds_nothing_up(
    network: Network, outbox: Outbox
) -> None:
    block = submitted(network, outbox)
    network.chain.reorg(network.reader().block_number() - block + 1)
    network.chain.rpc("anvil_dropAllTransactions")
    network.mine_to_round(R + 2)
    settle(network, outbox, blocks=20)
    state = outbox.state("submit")
    assert state.status == "expired"
    assert "too late" in state.reason
