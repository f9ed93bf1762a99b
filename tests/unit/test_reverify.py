"""`scripts/reverify`, a second reading of docs/protocol.md: it agrees with the vectors, and with the verifier."""

import random
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from eth_hash.auto import keccak

from sapo_devnet.checkout import ROOT
from sapo_devnet.testkit.formula import honest
from sapo_lab.sweeps.bundles import (
    SHARED,
    compare,
    honest_bundle,
    layout,
    mutated_batch,
    mutated_bundle,
    reverifier,
)
from sapo_lab.sweeps.made_up import car_of, sections_of
from sapo_lab.vectors.__main__ import vectors
from sapo_verifier.tasks import TaskWorker

SCRIPT = ROOT / "scripts" / "reverify"
BATCHES, BUNDLES = 300, 200  # `scripts/fuzz bundles` does the same with 10,000 of each


@pytest.fixture(scope="module")
def own() -> ModuleType:
    """With its own keccak."""
    return reverifier(fast=False)


@pytest.fixture(scope="module")
def fast() -> ModuleType:
    return reverifier()


def test_it_is_one_small_file_of_the_standard_library() -> None:
    lines = SCRIPT.read_text(encoding="utf-8").splitlines()
    assert len([line for line in lines if line.strip()]) < 400
    imported = {line.split()[1].partition(".")[0] for line in lines if line.startswith(("import ", "from "))}
    assert imported <= sys.stdlib_module_names


@pytest.mark.parametrize("size", [0, 1, 135, 136, 137, 271, 272, 600])
def test_its_keccak_is_keccak(own: ModuleType, size: int) -> None:
    data = random.Random(size).randbytes(size)
    assert own.keccak(data) == keccak(data)
