"""Fixtures that several tests share: a chain, and a network on it. web3 is imported only where one is used."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from anvil import Anvil
    from networks import Network


@pytest.fixture
def anvil() -> "Iterator[Anvil]":
    """A fresh chain that makes a block for every transaction. Starting it takes about 0.1 seconds."""
    from anvil import anvil as run_anvil

    with run_anvil() as chain:
        yield chain


@pytest.fixture
def network(anvil: "Anvil") -> "Iterator[Network]":
    """A fresh chain with the contracts of `small_spec` on it, before round 0. Deploying takes about half a second."""
    from networks import deploy_on

    made = deploy_on(anvil)
    yield made
    made.close()
