"""schedule.py says what the contracts do: due rounds by what they answer too early, fixed numbers by their source."""

import re
from collections.abc import Iterator
from typing import Any

import pytest

from sapo_devnet.checkout import ROOT
from sapo_devnet.testkit.networks import Network
from sapo_verifier import schedule
from sapo_verifier.chain.contracts import Call
from sapo_verifier.chain.errors import ChainError
from voters import address, network_with_batches

ACCOUNTS, R = (1, 2, 3), 2
HASH = b"\1" * 32


@pytest.fixture(scope="module")
def network() -> Iterator[Network]:
    with network_with_batches(ACCOUNTS, R) as made:
        yield made


def due(network: Network, function: str, *arguments: Any) -> int:
    """The round that the contract names."""
    contract = {"claimMany": "rewards", "dispute": "disputes"}.get(function, "audits")
    with pytest.raises(ChainError, match=r"round \d+") as refused:
        network.reader().call(Call(contract, function, arguments), sender=address(network, 1))
    found = re.search(r"in round (\d+) only|wait for round (\d+)", str(refused.value))
    assert found is not None, refused.value
    return int(found[1] or found[2])


@pytest.mark.parametrize("stage", [1, 2])
def test_when_verdicts_are_committed_and_revealed(network: Network, stage: int) -> None:
    node = address(network, 1)
    assert due(network, "commitVerdicts", node, R, stage, HASH, HASH, HASH) == R + schedule.COMMIT_AFTER[stage]
    assert due(network, "revealVerdicts", node, R, stage, 1, HASH, b"", HASH) == R + schedule.REVEAL_AFTER[stage]


def test_when_a_batch_can_be_disputed_and_when_it_is_final(network: Network) -> None:
    index = network.reader().batch_of(address(network, 1), R)
    assert max(schedule.REVEAL_AFTER.values()) == schedule.SERVE_AFTER < schedule.FINAL_AFTER < schedule.KEEP_AFTER
    assert due(network, "dispute", index, index) == R + schedule.DISPUTE_AFTER
    assert due(network, "claimMany", address(network, 1), [R]) == R + schedule.FINAL_AFTER


def test_how_many_rounds_a_claim_names(network: Network) -> None:
    rounds = list(range(schedule.MOST_CLAIMS + 1))
    with pytest.raises(ChainError, match=f"{len(rounds)} rounds .* at most {schedule.MOST_CLAIMS}"):
        network.reader().call(Call("rewards", "claimMany", (address(network, 1), rounds)), sender=address(network, 1))


@pytest.mark.parametrize(
    ("file", "pattern", "value"),
    [
        ("libraries/Timetable", r"FINAL = (\w+);", schedule.FINAL_AFTER),
        ("libraries/Timetable", r"DISPUTE = (\w+);", schedule.DISPUTE_AFTER),
        ("libraries/Timetable", r"STAGE_2 = (\w+);", schedule.COMMIT_AFTER[2]),
        ("Proofs", r"PROVERS_SHARE = (\w+);", 10_000 // schedule.PROVERS_PART),
        ("Disputes", r"CALLERS_SHARE = (\w+);", 10_000 // schedule.CALLERS_PART),
        ("Rewards", r"MOST_ROUNDS = (\w+);", schedule.MOST_CLAIMS),
        ("RoundsBase", r"stage == 1 \? DRAWS : (\w+) \* uint256\(DRAWS\)", schedule.STAGE_2_FACTOR),
    ],
)
def test_fixed_numbers(file: str, pattern: str, value: int) -> None:
    found = re.findall(pattern, (ROOT / "contracts" / "src" / f"{file}.sol").read_text())
    assert [int(number) for number in found] == [value]
    assert 10_000 % schedule.PROVERS_PART == 10_000 % schedule.CALLERS_PART == 0


def test_what_is_about_no_batch() -> None:
    source = (ROOT / "contracts" / "src" / "Disputes.sol").read_text()
    assert "NO_BATCH = type(uint256).max;" in source
    assert schedule.NO_BATCH == 2**256 - 1
