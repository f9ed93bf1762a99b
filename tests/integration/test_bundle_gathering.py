"""`sapo-verify export` where not all is well: blocks that are not to be had, RPCs that keep no state or lie."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from sapo_devnet.testkit.publishers import Publishers, publishers
from sapo_verifier import cli
from sapo_verifier.bundles import gathering
from sapo_verifier.bundles.gathering import gather, header_bytes
from sapo_verifier.chain import rpc
from sapo_verifier.chain.errors import ChainError, Refused

INDEX = 0


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Publishers]:
    """One batch, and blocks after it."""
    with publishers(tmp_path_factory.mktemp("publishers"), [1]) as world:
        yield world


@pytest.fixture
def words(made: Publishers, tmp_path: Path) -> list[str]:
    """`export` to a new file, without endpoints on private addresses."""
    made.network.deployment.save(tmp_path / "deployment.json")
    where = ["--deployment", tmp_path / "deployment.json", "--rpc", made.network.chain.url, "-o", tmp_path / "x.car"]
    return ["export", str(INDEX), *map(str, where)]


def test_blocks_that_are_not_to_be_had_are_missing_in_the_bundle_too(
    words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(words) == 1
    shown = capsys.readouterr().out
    assert shown.count("not to be had: block 0x") == 2, "what the manifest names is not known then"
    assert cli.main(["check", str(tmp_path / "x.car")]) == 1
    assert "available  void" in capsys.readouterr().out


def test_a_file_that_is_there_is_kept(words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "x.car").write_bytes(b"mine")
    assert cli.main([*words, "--allow-private"]) == 2
    assert "is there already" in capsys.readouterr().err
    assert (tmp_path / "x.car").read_bytes() == b"mine"


def test_another_block_proves_it_as_well(made: Publishers) -> None:
    reader = made.network.reader()
    batch = reader.batch_at(INDEX)
    head = reader.block_number()
    _, latest = gather(reader, batch)
    _, earlier = gather(reader, batch, head - 1)
    assert (latest.block, earlier.block) == (head, head - 1)
    assert latest.facts == earlier.facts
    assert latest.block_hash != earlier.block_hash


@pytest.mark.parametrize(("block", "says"), [(5, "proves nothing"), (10**6, "block 1000000")])
def test_a_block_without_the_batch_proves_nothing(
    words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str], block: int, says: str
) -> None:
    assert cli.main([*words, "--allow-private", "--block", str(block)]) != 0
    assert says in capsys.readouterr().err
    assert not (tmp_path / "x.car").exists()


Bend = Callable[[list[Any]], object]


def other_hash(found: list[Any]) -> None:
    found[0] = found[0] | {"hash": "0x" + "ab" * 32}


def other_time(found: list[Any]) -> None:
    found[0] = found[0] | {"timestamp": "0x1"}


def other_root(found: list[Any]) -> None:
    found[0] = found[0] | {"stateRoot": "0x" + "ab" * 32}


def other_code(found: list[Any]) -> None:
    found[2] = found[2][:-2] + "00"


def other_entropy(found: list[Any]) -> None:
    found[3] = "0x" + "ab" * 32


def no_entropy(found: list[Any]) -> None:
    found[3] = "0x"


def no_proof(found: list[Any]) -> None:
    found[1] = found[1] | {"storageProof": []}


def no_root(found: list[Any]) -> None:
    found[0] = {name: value for name, value in found[0].items() if name != "stateRoot"}


def no_block(found: list[Any]) -> None:
    found[0] = None


LIES = {
    other_hash: "calls block",
    other_time: "calls block",
    other_root: "is missing",
    other_code: "is not that of the account",
    other_entropy: "has not the beacon",
    no_entropy: "proves nothing",
    no_proof: "is missing",
    no_root: "header has no stateRoot",
    no_block: "has no block",
}


@pytest.mark.parametrize(("lie", "says"), LIES.items(), ids=lambda each: getattr(each, "__name__", ""))
def test_an_rpc_that_lies_makes_no_bundle(
    made: Publishers, monkeypatch: pytest.MonkeyPatch, lie: Bend, says: str
) -> None:
    """Of a real chain's answers one is another."""
    reader = made.network.reader()
    batch, true = reader.batch_at(INDEX), rpc.batch

    def lying(w3: Any, requests: Any) -> list[Any]:
        found = true(w3, requests)
        lie(found)
        return found

    monkeypatch.setattr(gathering.rpc, "batch", lying)
    with pytest.raises(ChainError, match=says):
        gather(reader, batch)


def test_an_rpc_without_proofs_is_told(made: Publishers, monkeypatch: pytest.MonkeyPatch) -> None:
    reader = made.network.reader()
    batch = reader.batch_at(INDEX)

    def refusing(w3: Any, requests: Any) -> list[Any]:
        raise Refused("eth_getProof", {"code": -32601, "message": "the method does not exist"})

    monkeypatch.setattr(gathering.rpc, "batch", refusing)
    with pytest.raises(ChainError, match=r"does not prove what block .*: the method does not exist .*; use one"):
        gather(reader, batch)


def test_headers_of_earlier_forks_are_shorter(made: Publishers) -> None:
    block = made.network.chain.rpc("eth_getBlockByNumber", "latest", False)
    older = {name: value for name, value in block.items() if name not in ("requestsHash", "parentBeaconBlockRoot")}
    assert 0 < len(header_bytes(block)) - len(header_bytes(older)) < 70
