"""Fixtures of the tests in which some accounts have batches of one round and vote about them (tests/voters.py).

A file that uses them says which: ACCOUNTS, and R, the round that is judged; and what `network` is for one test.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from sapo_devnet.testkit.networks import Network
from voters import Voter, network_with_batches


@pytest.fixture(scope="module")
def begun(request: pytest.FixtureRequest) -> Iterator[Network]:
    """For all tests of the file, each of which has to set it back."""
    with network_with_batches(request.module.ACCOUNTS, request.module.R) as made:
        yield made


@pytest.fixture
def voters(request: pytest.FixtureRequest, network: Network, tmp_path: Path) -> Iterator[dict[int, Voter]]:
    """By account. A test may take one out."""
    made = {account: Voter(network, account, tmp_path) for account in request.module.ACCOUNTS}
    yield dict(made)
    for voter in made.values():
        voter.close()
