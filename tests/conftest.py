"""Fixtures that several tests share: a chain, and a network on it. web3 is imported only where one is used."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from outboxes import Open
    from sapo_client.transactions.outbox import Outbox
    from sapo_devnet.testkit.anvil import Anvil
    from sapo_devnet.testkit.networks import Network


@pytest.fixture
def anvil() -> "Iterator[Anvil]":
    """A fresh chain that makes a block for every transaction. Starting it takes about 0.1 seconds."""
    from sapo_devnet.testkit.anvil import anvil as run_anvil

    with run_anvil() as chain:
        yield chain


@pytest.fixture
def network(anvil: "Anvil") -> "Iterator[Network]":
    """A fresh chain with the contracts of `small_spec` on it, before round 0. Deploying takes about half a second."""
    from sapo_devnet.testkit.networks import deploy_on

    made = deploy_on(anvil)
    yield made
    made.close()


@pytest.fixture
def open_outbox(network: "Network", tmp_path: Path) -> "Iterator[Open]":
    """Opens outboxes of account 1, and closes them at the end. From here on only `mine` makes blocks."""
    from sapo_client.transactions.outbox import Outbox

    network.chain.rpc("evm_setAutomine", False)
    opened: list[Outbox] = []

    def open_(name: str = "outbox.sqlite", *, account: int = 1, **options: Any) -> "Outbox":
        opened.append(Outbox(tmp_path / name, network.reader(), network.chain.account(account), **options))
        return opened[-1]

    yield open_
    for outbox in opened:
        outbox.close()
