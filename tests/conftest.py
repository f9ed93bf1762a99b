"""Fixtures that several tests share: a chain, and a network on it. web3 is imported only where one is used.

Where torch is not installed, tests that need it are skipped: whole files that load it, and else what asks for it.
"""

import os
from collections.abc import Generator, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from imports import Sources

if TYPE_CHECKING:
    from outboxes import Open
    from sapo_client.transactions.outbox import Outbox
    from sapo_devnet.testkit.anvil import Anvil
    from sapo_devnet.testkit.networks import Network

# Before torch is loaded: threads that wait for each other over tiny products sleep meanwhile. Spinning, they take the
# cores that the other test processes want, and twice the time.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

HERE = Path(__file__).resolve().parent
MODEL = ("torch", "transformers", "safetensors", "peft")  # pyproject.toml's extras `model` and `node`
WITHOUT_MODEL = any(find_spec(name) is None for name in MODEL)


def _need_model() -> list[str]:
    """Files below this folder that load one of MODEL, directly or through what they import."""
    sources = Sources(HERE.parent, ("client", "verifier", "scripts", "tests"))
    return [
        str(file)
        for name, file in sources.files.items()
        if file.is_relative_to(HERE) and any(each.library in MODEL for each in sources.loaded_by(name))
    ]


collect_ignore = _need_model() if WITHOUT_MODEL else []


def pytest_report_header() -> str | None:
    if not WITHOUT_MODEL:
        return None
    tests = sum(Path(file).name.startswith("test_") for file in collect_ignore)
    return f"torch is not installed: {tests} files skipped (pip install -e '.[node,dev]' to run them)"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    call: "pytest.CallInfo[None]",
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A test that imports one of MODEL when it runs is skipped, too, where that is not installed."""
    report = yield
    error = call.excinfo.value if call.excinfo else None
    if WITHOUT_MODEL and isinstance(error, ModuleNotFoundError) and (error.name or "").partition(".")[0] in MODEL:
        report.outcome = "skipped"
        report.longrepr = (*report.location[:1], report.location[1] or 0, f"Skipped: {error.name} is not installed")
    return report


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


@pytest.fixture(scope="module")
def one_thread() -> "Iterator[None]":
    """Of torch, for a file's tests: their models are so small that two only wait for each other."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
