"""Fixtures of the tests that audit an honest batch and changed ones (testkit/formula.py), or run a model."""

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
