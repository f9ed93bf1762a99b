"""The Solidity library against the Python module: every hash, draw, tree and record, on a real EVM.

`ProtocolHarness` shows `contracts/src/libraries/Protocol.sol` to the outside. Both sides get the committed vectors and
seeded random inputs; where the two disagree, one of them is not the protocol.
"""

import json
import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from web3.exceptions import Web3Exception

from sapo_devnet.checkout import ROOT
from sapo_devnet.testkit.anvil import anvil
from sapo_verifier import protocol as p
from sapo_verifier.objects import Record, encode_records
from vectors import VECTORS, big, raw

SEED = 20250908
CASES = 20
MAX_UINT = 2**256 - 1
NUMBERS = (0, 1, 2, 31, 32, 255, 256, 2**32, 2**64 - 1, 2**64, 2**255, MAX_UINT)

Solidity = Callable[..., Any]


@pytest.fixture(scope="module")
def solidity() -> Iterator[Solidity]:
    """Calls a function of the harness by name."""
    artifact = json.loads((ROOT / "out" / "ProtocolHarness.sol" / "ProtocolHarness.json").read_text(encoding="utf-8"))
    with anvil() as chain:
        w3 = chain.w3
        factory = w3.eth.contract(abi=artifact["abi"], bytecode=artifact["bytecode"]["object"])
        sent = factory.constructor().transact({"from": chain.account(0).address})
        address = w3.eth.wait_for_transaction_receipt(sent)["contractAddress"]
        harness = w3.eth.contract(address=address, abi=artifact["abi"])

        def call(name: str, *arguments: Any) -> Any:
            given = [w3.to_checksum_address(a) if _is_address(a) else a for a in arguments]
            return harness.get_function_by_name(name)(*given).call()

        yield call


@pytest.fixture
def rng() -> random.Random:
    return random.Random(SEED)


def _is_address(value: Any) -> bool:
    return isinstance(value, str) and len(value) == 42


def number(rng: random.Random) -> int:
    """An edge, or any number of any size."""
    return rng.choice(NUMBERS) if rng.random() < 0.4 else rng.getrandbits(rng.randrange(1, 257))


def word(rng: random.Random) -> bytes:
    return bytes(32) if rng.random() < 0.05 else rng.randbytes(32)


def address(rng: random.Random) -> str:
    return "0x" + rng.randbytes(20).hex()


# --- hashes ----------------------------------------------------------------------------------------------------------

# For each function: the harness's name, Python's, and what to draw for its arguments. They have the same order.
HASHES: dict[str, tuple[Callable[..., Any], list[Callable[[random.Random], Any]]]] = {
    "beacon": (p.beacon, [number, address, number, word]),
    "taskSeed": (p.task_seed, [word, address, number, number]),
    "streamKey": (p.stream_key, [word, word, address, number, number]),
    "streamValue": (p.stream_value, [word, number]),
    "drawStart": (p.draw_start, [word, address, lambda rng: rng.choice((1, 2)), lambda rng: number(rng) or 1]),
    "leaf": (p.leaf, [number, number, word]),
    "inner": (p.node_hash, [word, word]),
    "chunk": (p.chunk_hash, [number, lambda rng: rng.randbytes(20 * rng.randrange(33))]),
    "foldAcc": (p.fold_acc, [word, address, word, word, number]),
    "verdictsHash": (
        p.verdicts_hash,
        [word, word, address, lambda rng: rng.choice((1, 2)), number, word, lambda rng: rng.randbytes(40), word],
    ),
}


@pytest.mark.parametrize("name", HASHES)
def test_hashes_agree_on_random_inputs(name: str, solidity: Solidity, rng: random.Random) -> None:
    python, kinds = HASHES[name]
    for _ in range(CASES):
        arguments = [kind(rng) for kind in kinds]
        assert solidity(name, *arguments) == python(*arguments), arguments


def test_every_function_of_the_library_is_compared() -> None:
    artifact = json.loads((ROOT / "out" / "ProtocolHarness.sol" / "ProtocolHarness.json").read_text(encoding="utf-8"))
    functions = {entry["name"] for entry in artifact["abi"] if entry["type"] == "function"}
    assert functions == {*HASHES, "permuted", "streamValues", "rootFrom", "recordAt", "holds"}


def test_windows_start_where_the_contract_says(solidity: Solidity, rng: random.Random) -> None:
    for _ in range(CASES):
        count = rng.choice((1, 2, 3, 4, 5, 16, 17, rng.randrange(1, 10**6), rng.randrange(1, 2**40)))
        arguments = (word(rng), rng.choice((1, 2)), rng.randrange(count), count)
        assert solidity("permuted", *arguments) == p.permuted(*arguments), arguments


# The committed vectors: the harness's name, and how to read a vector's arguments and its result.
COMMITTED: dict[str, tuple[str, Callable[[dict[str, Any]], list[Any]], Callable[[Any], Any]]] = {
    "beacon": ("beacon", lambda v: [big(v["chain_id"]), v["rounds"], big(v["round"]), raw(v["entropy"])], raw),
    "task_seed": ("taskSeed", lambda v: [raw(v["beacon"]), v["node"], v["slot"], v["attempt"]], big),
    "stream_key": (
        "streamKey",
        lambda v: [raw(v["beacon"]), raw(v["policy"]), v["node"], v["slot"], v["k"]],
        raw,
    ),
    "stream_value": ("streamValue", lambda v: [raw(v["key"]), v["t"]], big),
    "draw_start": ("drawStart", lambda v: [raw(v["beacon"]), v["voter"], v["stage"], v["count"]], int),
    "permuted": ("permuted", lambda v: [raw(v["beacon"]), v["stage"], v["position"], v["count"]], int),
    "node": ("inner", lambda v: [raw(v["left"]), raw(v["right"])], raw),
    "chunk": ("chunk", lambda v: [v["c"], raw(v["records"])], raw),
    "leaf": ("leaf", lambda v: [v["i"], v["n"], raw(v["records_root"])], raw),
    "fold_acc": (
        "foldAcc",
        lambda v: [raw(v["acc"]), v["node"], raw(v["manifest"]), raw(v["root"]), big(v["claim"])],
        raw,
    ),
    "verdicts_hash": (
        "verdictsHash",
        lambda v: [
            *(raw(v["beacon"]), raw(v["acc"]), v["voter"], v["stage"]),
            *(big(v["verdicts"]), raw(v["report"]), raw(v["answers"]), raw(v["salt"])),
        ],
        raw,
    ),
}


@pytest.mark.parametrize("name", COMMITTED)
def test_committed_vectors_hold_in_solidity(name: str, solidity: Solidity) -> None:
    function, arguments, result = COMMITTED[name]
    assert VECTORS[name]
    for vector in VECTORS[name]:
        assert solidity(function, *arguments(vector)) == result(vector["out"]), vector


def test_streams_agree(solidity: Solidity, rng: random.Random) -> None:
    for count in (0, 1, 100):
        key = word(rng)
        assert solidity("streamValues", key, count) == p.stream_values(key, count)


# --- trees -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [1, 2, 3, 5, 8, 13, 33])
def test_every_leafs_path_leads_to_pythons_root(count: int, solidity: Solidity, rng: random.Random) -> None:
    leaves = [p.leaf(i, rng.randrange(1, 100), word(rng)) for i in range(count)]
    root = p.merkle_root(leaves)
    for i, leaf in enumerate(leaves):
        assert solidity("rootFrom", leaf, i, p.merkle_path(leaves, i)) == root
    if count > 1:
        assert solidity("rootFrom", leaves[0], 1, p.merkle_path(leaves, 0)) != root


def test_pad_leaves_are_zero_words(solidity: Solidity, rng: random.Random) -> None:
    leaves = [word(rng) for _ in range(5)]
    padded = [*leaves, *[bytes(32)] * 3]
    for i in range(5, 8):
        assert solidity("rootFrom", bytes(32), i, p.merkle_path(padded, i)) == p.merkle_root(leaves)


def test_a_path_that_cannot_lead_to_the_position_is_refused(solidity: Solidity, rng: random.Random) -> None:
    with pytest.raises(Web3Exception):
        solidity("rootFrom", word(rng), 4, [word(rng), word(rng)])


# --- records ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [1, 31, 32, 33, 64, 65])
def test_records_and_their_root(count: int, solidity: Solidity, rng: random.Random) -> None:
    edges = (0, 1, 2**63, 2**64 - 1)
    records = [
        Record(
            rng.choice((0, 2**32 - 1, rng.getrandbits(32))),
            *(rng.choice((*edges, rng.getrandbits(64))) for _ in range(2)),
        )
        for _ in range(count)
    ]
    data = encode_records([records])[4:]  # the count comes first
    chunks = p.record_chunks(data)
    leaves = [solidity("chunk", c, chunk) for c, chunk in enumerate(chunks)]
    for c, (chunk, leaf) in enumerate(zip(chunks, leaves, strict=True)):
        assert solidity("rootFrom", leaf, c, p.merkle_path(leaves, c)) == p.records_root(data)
        for position in {0, len(chunk) // p.RECORD_BYTES - 1}:
            read = solidity("recordAt", chunk, position)
            assert Record(*read) == records[c * p.RECORDS_PER_CHUNK + position]
        with pytest.raises(Web3Exception):
            solidity("recordAt", chunk, len(chunk) // p.RECORD_BYTES)


def test_intervals_are_inclusive(solidity: Solidity, rng: random.Random) -> None:
    for _ in range(CASES):
        u = rng.getrandbits(64)
        lo, last = (min(max(u + rng.randrange(-2, 3), 0), 2**64 - 1) for _ in range(2))
        assert solidity("holds", u, lo, last) == (lo <= u <= last)


def test_a_round_folds_its_batches_and_claims(solidity: Solidity, rng: random.Random) -> None:
    python = chain = bytes(32)
    for completions in (1, 8, 24, 255, 256):
        claim = p.claim_word([rng.random() < 0.5 for _ in range(completions)])
        assert claim >> completions == 0
        batch = (address(rng), word(rng), word(rng), claim)
        python, chain = p.fold_acc(python, *batch), solidity("foldAcc", chain, *batch)
        assert python == chain
