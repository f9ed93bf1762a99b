"""The network file: there and back, and every mistake named."""

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest

from sapo_devnet.testkit.networks import small_spec
from sapo_verifier.chain.deployment import Contracts, Deployment, DeploymentError
from sapo_verifier.errors import UnableError
from sapo_verifier.network_file import NetworkFile, NetworkFileError
from sapo_verifier.objects import hex_digest
from sapo_verifier.toml import toml_of

GATEWAY = "/dns4/node.example.org/tcp/443/https"


def deployment() -> Deployment:
    spec = small_spec()
    names = ("nodes", "beacon", "rounds", "audits", "disputes", "proofs", "rewards", "token")
    contracts = Contracts(**{name: f"0x{number:040x}" for number, name in enumerate(names, 1)})
    return Deployment(
        chain_id=5,
        block=7,
        block_hash=bytes(32),
        first_block=9,
        contracts=contracts,
        spec_digest=spec.digest(),
        spec=spec,
    )


def network(**changes: Any) -> NetworkFile:
    given = {"name": "testnet", "chain_id": 5, "rpc": ["https://rpc.example.org/v1"], "gateways": [GATEWAY]}
    given |= {"bases": {"pocket": "owner/pocket@abc"}, "deployment": deployment()}
    return NetworkFile.checked(given | changes, "the test")


def test_what_is_written_is_read_and_the_deployment_stands_in_it(tmp_path: Path) -> None:
    network().save(tmp_path / "n.toml")
    assert NetworkFile.load(tmp_path / "n.toml") == network()
    lines = (tmp_path / "n.toml").read_text().splitlines()
    assert lines[:3] == ["v = 2", 'name = "testnet"', "chain_id = 5"]


def test_a_deployment_elsewhere_is_held_against_its_digest(tmp_path: Path) -> None:
    made = deployment()
    (tmp_path / "net").mkdir()
    (tmp_path / "net" / "deployment.json").write_text(json.dumps(made.to_json()))  # laid out otherwise
    document = tomllib.loads(network().text())
    document["deployment"] = {"file": "net/deployment.json", "digest": hex_digest(made.digest())}
    (tmp_path / "n.toml").write_text(toml_of(document))
    assert NetworkFile.load(tmp_path / "n.toml") == network()
    document["deployment"]["digest"] = "0x" + "11" * 32
    (tmp_path / "n.toml").write_text(toml_of(document))
    with pytest.raises(DeploymentError, match=r"the network file says 0x1111.*was changed"):
        NetworkFile.load(tmp_path / "n.toml")
    document["deployment"]["file"] = "http://127.0.0.1:9/KEY/deployment.json"
    (tmp_path / "n.toml").write_text(toml_of(document))
    with pytest.raises(UnableError, match=r"could not be fetched from http://127.0.0.1:9/…"):
        NetworkFile.load(tmp_path / "n.toml")


def test_folders_of_bases_are_beside_the_file(tmp_path: Path) -> None:
    (tmp_path / "base").mkdir()
    network(bases={"pocket": "base"}).save(tmp_path / "n.toml")
    assert NetworkFile.load(tmp_path / "n.toml").bases == {"pocket": str(tmp_path / "base")}


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("gateways", "gatways", "gatways: there is no such key; the nearest is gateways"),
        (
            "first_block =",
            "fist_block =",
            "deployment.fist_block: there is no such key; the nearest is deployment.first",
        ),
        ("chain_id = 5\nrpc", "chain_id = 6\nrpc", "chain_id is 6, and the deployment is on chain 5"),
        ('pocket = "owner', 'socket = "owner', "bases names socket, and the spec has only: pocket"),
        ("https://rpc", "https://me:secret@rpc", "https://rpc.example.org/… is no public RPC"),
        ("https://rpc", "ws://rpc", "is no public RPC"),
        ("/tcp/443", "/tcp/0", "'0' is no port"),
        ('name = "testnet"', 'name = "test net"', "name: String should match"),
        ("v = 2\nname", 'v = "2"\nname', "v: Input should be a valid integer"),
        ("v = 2\nname", "v = \nname", "is not TOML"),
    ],
)
def test_a_mistake_is_named(tmp_path: Path, old: str, new: str, words: str) -> None:
    text = network().text()
    assert old in text
    (tmp_path / "n.toml").write_text(text.replace(old, new))
    with pytest.raises(NetworkFileError) as caught:
        NetworkFile.load(tmp_path / "n.toml")
    assert words in str(caught.value)
    assert str(tmp_path / "n.toml") in str(caught.value)
    assert "secret" not in str(caught.value)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(NetworkFileError, match="cannot be read: No such file"):
        NetworkFile.load(tmp_path / "n.toml")
