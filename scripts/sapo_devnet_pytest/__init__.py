"""The pytest fixture `sapo_devnet`: a devnet for one test, with the options of the mark of the same name.

Who does not ask for it pays nothing for it: pytest loads this file at its start, and the devnet when a test
uses it, from where the tests' own path has it.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from sapo_devnet.devnet import Devnet

MARKER = "sapo_devnet(**options): the options of the fixture `sapo_devnet`, those of sapo_devnet.Devnet"


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", MARKER)


@pytest.fixture
def sapo_devnet(request: pytest.FixtureRequest, tmp_path: Path) -> "Iterator[Devnet]":
    """A running Devnet. Its logs and homes lie in the test's tmp_path, which pytest keeps for a while."""
    from sapo_devnet.devnet import Devnet

    marker = request.node.get_closest_marker("sapo_devnet")
    options = {"folder": tmp_path / "devnet", **(marker.kwargs if marker else {})}
    with Devnet(**options) as net:
        yield net
