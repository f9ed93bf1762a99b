"""Fixtures of tests that audit an honest batch and changed ones (testkit/formula.py), run a model, or type commands."""

from pathlib import Path

import pytest


@pytest.fixture(scope="module")
def worker():
    """One worker for a file's tests; a test that breaks it starts its own."""
    from sapo_verifier.tasks import TaskWorker

    with TaskWorker() as running:
        yield running


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    """Finds the tokenizer of the batch's base."""
    from sapo_devnet.formula.policy import write_tokenizer
    from sapo_verifier.bases import Tokenizer

    folder = tmp_path_factory.mktemp("base")
    write_tokenizer(folder)
    made = Tokenizer(folder)
    return lambda _: made


@pytest.fixture
def draft(worker):
    """An honest batch, to be changed by the test."""
    from sapo_devnet.testkit.formula import honest

    return honest(worker)


@pytest.fixture(scope="module")
def deployment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A deployment file of a network that is nowhere."""
    from sapo_devnet.testkit.networks import small_spec
    from sapo_verifier.chain.deployment import Contracts, Deployment

    spec = small_spec(max_slots=8)
    names = ("nodes", "beacon", "rounds", "audits", "disputes", "proofs", "rewards", "token")
    contracts = Contracts(**{name: "0x" + f"{i + 1:02x}" * 20 for i, name in enumerate(names)})
    path = tmp_path_factory.mktemp("network") / "deployment.json"
    Deployment(
        chain_id=31337,
        block=5,
        block_hash=bytes(32),
        first_block=64,
        contracts=contracts,
        spec_digest=spec.digest(),
        spec=spec,
    ).save(path)
    return path


@pytest.fixture
def password(tmp_path: Path) -> Path:
    """A file with one."""
    from sapo_verifier import keystore

    keystore.write_random_password(tmp_path / "password")
    return tmp_path / "password"
