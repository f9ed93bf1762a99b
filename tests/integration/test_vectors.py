"""The committed vectors' trees, records and intervals in the contracts' own library, on a real chain.

test_differential.py runs the vectors of single hashes and draws, and random inputs.
"""

import json
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest
from web3.exceptions import ContractCustomError

from sapo_devnet.checkout import ROOT
from sapo_devnet.testkit.anvil import anvil
from sapo_verifier.protocol import record_chunks
from vectors import FILE, VECTORS, big, raw


@pytest.fixture(scope="module")
def harness() -> Iterator[Any]:
    """The library's functions. All of them are pure, so that one chain serves every test."""
    artifact = json.loads((ROOT / "out" / "ProtocolHarness.sol" / "ProtocolHarness.json").read_text(encoding="utf-8"))
    with anvil() as chain:
        factory = chain.w3.eth.contract(abi=artifact["abi"], bytecode=artifact["bytecode"]["object"])
        sent = factory.constructor().transact({"from": chain.account(0).address})
        address = chain.w3.eth.wait_for_transaction_receipt(sent)["contractAddress"]
        yield chain.w3.eth.contract(address, abi=artifact["abi"]).functions


@pytest.mark.parametrize("case", VECTORS["merkle"], ids=lambda case: f"{len(case['leaves'])} leaves")
def test_every_path_leads_to_the_root(harness, case):
    leaves = [raw(leaf) for leaf in case["leaves"]]
    leaves += [bytes(32)] * (len(case["paths"]) - len(leaves))
    for position, (leaf, path) in enumerate(zip(leaves, case["paths"], strict=True)):
        siblings = [raw(sibling) for sibling in path]
        assert harness.rootFrom(leaf, position, siblings).call() == raw(case["out"])
        with pytest.raises(ContractCustomError):
            harness.rootFrom(leaf, position + len(leaves), siblings).call()


@pytest.mark.parametrize("case", VECTORS["records_root"], ids=lambda case: f"{case['n']} records")
def test_chunks_and_inner_nodes_make_the_records_root(harness, case):
    level = [harness.chunk(c, chunk).call() for c, chunk in enumerate(record_chunks(raw(case["records"])))]
    assert len(level) == case["chunks"]
    while len(level) > 1:
        level += [bytes(32)] * (len(level) % 2)  # enough for three chunks: one zero word makes them four
        level = [harness.inner(*level[at : at + 2]).call() for at in range(0, len(level), 2)]
    assert level == [raw(case["out"])]


@pytest.mark.parametrize("case", VECTORS["records_block"], ids=lambda case: f"{case['group_size']} completions")
def test_the_contracts_read_records_as_python_writes_them(harness, case):
    data, at = raw(case["out"]), 0
    for completion in case["completions"]:
        assert int.from_bytes(data[at : at + 4], "big") == len(completion)
        packed = data[at + 4 : at + 4 + 20 * len(completion)]
        at += 4 + len(packed)
        found = [harness.recordAt(packed, position).call() for position in range(len(completion))]
        assert found == [[token, big(lo), big(last)] for token, lo, last in completion]
        with pytest.raises(ContractCustomError):
            harness.recordAt(packed, len(completion)).call()
    assert at == len(data)


@pytest.mark.parametrize("case", VECTORS["cdf"], ids=lambda case: case["name"])
def test_the_interval_that_holds_u_is_its_owners_alone(harness, case):
    for owner in case["owners"]:
        u = big(owner["u"])
        holding = [
            token for token, pair in enumerate(case["intervals"]) if pair and harness.holds(u, *map(big, pair)).call()
        ]
        assert holding == [owner["token"]]


@pytest.mark.parametrize("case", VECTORS["miss"])
def test_an_interval_holds_what_it_does_not_miss(harness, case):
    held = harness.holds(big(case["u"]), big(case["lo"]), big(case["last"])).call()
    assert held == (big(case["out"]) == 0)


def test_the_committed_file_is_what_the_script_writes():
    """Only to notice a forgotten run: every other test takes the committed file as the truth."""
    command = [str(ROOT / "scripts" / "vectors"), "--check"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert FILE == ROOT / "tests" / "vectors" / "protocol.json"
