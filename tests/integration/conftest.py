"""Fixtures of the tests in which some accounts have batches of one round and vote about them (tests/voters.py).

A file that uses them says which: ACCOUNTS, and R, the round that is judged; and what `network` is for one test.
What needs torch is imported only where it is used.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from sapo_devnet.testkit.networks import Network
    from voters import Voter


@pytest.fixture(scope="module")
def begun(request: pytest.FixtureRequest) -> "Iterator[Network]":
    """For all tests of the file, each of which has to set it back."""
    from voters import network_with_batches

    with network_with_batches(request.module.ACCOUNTS, request.module.R) as made:
        yield made


@pytest.fixture
def voters(request: pytest.FixtureRequest, network: "Network", tmp_path: Path) -> "Iterator[dict[int, Voter]]":
    """By account. A test may take one out."""
    from voters import Voter

    made = {account: Voter(network, account, tmp_path) for account in request.module.ACCOUNTS}
    yield dict(made)
    for voter in made.values():
        voter.close()
