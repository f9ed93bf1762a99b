"""The deployment file: read back as written, and refused in words where it was tampered with."""

import json
from pathlib import Path
from typing import Any

import pytest

from sapo_devnet.testkit.networks import small_spec
from sapo_verifier.chain.deployment import Contracts, Deployment, DeploymentError

NAMES = ("nodes", "beacon", "rounds", "audits", "disputes", "proofs", "rewards", "token")


@pytest.fixture
def deployment() -> Deployment:
    spec = small_spec()
    addresses = {name: "0x" + f"{i:040x}" for i, name in enumerate(NAMES, 1)}
    return Deployment(
        chain_id=31337,
        block=1,
        block_hash=bytes([7]) * 32,
        first_block=9,
        contracts=Contracts(**addresses),
        spec_digest=spec.digest(),
        spec=spec,
    )


def test_it_is_read_back_as_it_was_written(deployment: Deployment, tmp_path: Path) -> None:
    path = tmp_path / "deployment.json"
    deployment.save(path)
    deployment.save(path)
    assert Deployment.load(path) == deployment
    assert [file.name for file in tmp_path.iterdir()] == ["deployment.json"]
    document = json.loads(path.read_text())
    assert document["spec_digest"] == "0x" + deployment.spec.digest().hex()
    assert document["contracts"]["audits"] == "0x" + "0" * 39 + "4"


def without(document: dict[str, Any], key: str) -> dict[str, Any]:
    return {name: value for name, value in document.items() if name != key}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda d: d | {"spec": d["spec"] | {"pool_rounds": 3}}, "one of them was edited. New rules need a new"),
        (lambda d: d | {"spec_digest": "0x" + "00" * 32}, "one of them was edited"),
        (lambda d: d | {"v": "2"}, "it says no version"),
        (lambda d: without(d, "v"), "it says no version"),
        (lambda d: without(d, "chain_id"), "chain_id: Field required"),
        (lambda d: d | {"chain_id": "31337"}, "chain_id: "),
        (lambda d: d | {"extra": 1}, "extra: Extra inputs are not permitted"),
        (lambda d: d | {"contracts": d["contracts"] | {"nodes": "0x" + "AB" * 20}}, "contracts.nodes: "),
        (lambda d: d | {"block_hash": "0x12"}, "block_hash: "),
        (lambda d: [d], "a JSON object was expected"),
    ],
)
def test_what_is_wrong_is_said(deployment: Deployment, tmp_path: Path, change: Any, words: str) -> None:
    path = tmp_path / "deployment.json"
    deployment.save(path)
    path.write_text(json.dumps(change(json.loads(path.read_text()))))
    with pytest.raises(DeploymentError) as refusal:
        Deployment.load(path)
    assert words in str(refusal.value)
    assert str(path) in str(refusal.value)


@pytest.mark.parametrize("content", ["", "{", "[" * 100_000, "\x00"])
def test_what_is_no_json_is_refused(tmp_path: Path, content: str) -> None:
    path = tmp_path / "deployment.json"
    path.write_text(content)
    with pytest.raises(DeploymentError, match="is not JSON"):
        Deployment.load(path)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(DeploymentError, match=r"nothing\.json cannot be read .*point --deployment at"):
        Deployment.load(tmp_path / "nothing.json")
