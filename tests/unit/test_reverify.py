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
from sapo_verifier.tasks import TaskWorker
from vectors import VECTORS, raw

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


def test_hashes_are_those_of_the_vectors(own: ModuleType) -> None:
    for case in VECTORS["tags"]:
        assert own.tag_word(case["tag"]) == raw(case["out"])
    for case in VECTORS["beacon"]:
        values = (int(case["chain_id"], 16), case["rounds"], int(case["round"], 16), raw(case["entropy"]))
        assert own.H("beacon", *values) == raw(case["out"])
    for case in VECTORS["stream_key"]:
        values = (raw(case["beacon"]), raw(case["policy"]), case["node"], case["slot"], case["k"])
        assert own.H("stream", *values) == raw(case["out"])
    for case in VECTORS["stream_value"]:
        assert own.keccak(raw(case["key"]) + own.word(case["t"]))[:8] == raw(case["out"])
    for case in VECTORS["merkle"]:
        assert own.tree([raw(leaf) for leaf in case["leaves"]]) == raw(case["out"])
    for case in VECTORS["records_root"]:
        assert own.leaf(7, raw(case["records"])) == own.H("leaf", 7, case["n"], raw(case["out"]))
    for case in VECTORS["leaf"]:
        assert own.H("leaf", case["i"], case["n"], raw(case["records_root"])) == raw(case["out"])


def test_documents_are_those_of_the_vectors(own: ModuleType) -> None:
    readers: dict[str, Any] = {
        "GroupBlock": lambda data, json: own.read_group(data, json["slot"], len(json["completions"])),
        "BatchManifest": lambda data, json: own.read_manifest(data, len(json["groups"])),
        "PolicyManifest": lambda data, _: own.read_policy(data),
        "Spec": lambda data, _: own.read_spec(data),
    }
    read = 0
    for case in VECTORS["objects"]:
        if case["kind"] in readers:
            read += 1
            assert readers[case["kind"]](raw(case["bytes"]), case["json"]) == case["json"]
    assert read == 6
    for case in VECTORS["canonical"]:
        assert own.written(case["json"]).encode() == raw(case["bytes"])
    for case in VECTORS["canonical_refused"]:
        with pytest.raises(own.Refused):
            own.document(raw(case["bytes"]))
    for case in VECTORS["records_block"]:
        found = own.read_records(raw(case["out"]), case["group_size"], case["max_new_tokens"])
        assert [len(packed) // 20 for packed in found] == [len(records) for records in case["completions"]]
    for case in VECTORS["records_block_refused"]:
        with pytest.raises(own.Refused):
            own.read_records(raw(case["bytes"]), case["group_size"], case["max_new_tokens"])


@pytest.mark.parametrize(("make", "count"), [(mutated_batch, BATCHES), (mutated_bundle, BUNDLES)])
def test_both_say_the_same_of_every_mutation(
    fast: ModuleType, worker: TaskWorker, tmp_path: Path, make: Any, count: int
) -> None:
    where, ends = layout(), set()
    for case in range(count):
        said = compare(case, make(case, worker), tmp_path / "bundle.car", fast, where)
        ends.add("refused" if isinstance(said, str) else said[-1][:2])
    checks = {check.__name__ for check in SHARED}
    wanted = checks - {"size"} if make is mutated_batch else {"digest"}
    assert wanted <= {end[0] for end in ends if isinstance(end, tuple)}, ends
    assert make is mutated_batch or "refused" in ends


def test_a_difference_would_be_seen(fast: ModuleType, worker: TaskWorker, tmp_path: Path) -> None:
    other = reverifier()
    other.bad_end = lambda packed, eos, most: 0
    with pytest.raises(AssertionError, match=r"case 7: the verifier says .* scripts/reverify says"):
        compare(7, honest_bundle(worker), tmp_path / "bundle.car", other, layout())


def test_as_a_command_it_needs_nothing_installed(worker: TaskWorker, tmp_path: Path) -> None:
    draft = honest(worker)
    (tmp_path / "good.car").write_bytes(honest_bundle(worker))
    draft.root = bytes(31) + b"\1"
    (tmp_path / "bad.car").write_bytes(car_of(sections_of(draft.seal())))
    (tmp_path / "none.car").write_bytes(b"")

    def run(name: str, *words: str) -> "subprocess.CompletedProcess[str]":
        command = [sys.executable, "-I", "-S", str(SCRIPT), str(tmp_path / name), *words]
        return subprocess.run(command, capture_output=True, text=True, timeout=120)

    good = run("good.car")
    assert (good.returncode, good.stderr) == (0, "")
    assert [line.split()[1] for line in good.stdout.splitlines()[1:-1]] == ["pass"] * len(SHARED)
    trusted = good.stdout.split()[-1]
    assert run("good.car", "--block-hash", trusted).returncode == 0
    other = run("good.car", "--block-hash", "0x" + "ab" * 32)
    assert (other.returncode, "not yours" in other.stderr) == (1, True)
    bad = run("bad.car")
    assert (bad.returncode, "tree       fail" in bad.stdout) == (1, True)
    none = run("none.car")
    assert (none.returncode, "Traceback" in none.stderr) == (2, False)
