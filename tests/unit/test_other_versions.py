"""A home, deployment, network file or spec of another version of the protocol: refused in words, and kept."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from homes import init
from sapo_client import cli
from sapo_devnet.testkit.networks import small_spec
from sapo_verifier import canonical
from sapo_verifier import cli as verifier
from sapo_verifier.cid import block_digest
from sapo_verifier.toml import toml_of

OLDER = (
    "is of version 1 of the protocol, and this program speaks version 2",
    "the release of the package that made it",
)
NEWER = ("is of version 3 of the protocol, and this program speaks version 2", "update the package sapo-network")
VERSIONS = pytest.mark.parametrize(("version", "words"), [(1, OLDER), (3, NEWER)])


def of_version(document: Mapping[str, Any], version: int) -> dict[str, Any]:
    """A deployment as a program of that version wrote it: the spec in it is of that version, too."""
    spec = document["spec"] | {"v": version}
    return {**document, "v": version, "spec": spec, "spec_digest": f"0x{block_digest(canonical.encode(spec)).hex()}"}


def network_file(document: Mapping[str, Any], version: int, **changes: Any) -> str:
    head = {"v": version, "name": "old", "chain_id": document["chain_id"]}
    return toml_of(head | {"deployment": dict(document)} | changes)


def refused(status: int, capsys: pytest.CaptureFixture[str], *words: str) -> None:
    said = capsys.readouterr().err
    assert status == 2, said
    for each in words:
        assert each in said


def contents(folder: Path) -> dict[str, bytes]:
    """All but the lock, which says who looked last."""
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.name != "lock" and path.is_file()}


@VERSIONS
def test_a_home_is_kept_as_it_is(
    tmp_path: Path, deployment: Path, password: Path, capsys: pytest.CaptureFixture[str], version: int, words: Any
) -> None:
    home, network = tmp_path / "home", tmp_path / "deployment.json"
    network.write_bytes(deployment.read_bytes())
    assert init(home, network, password) == 0
    for name in ("outbox.sqlite", "ballots.sqlite", "rounds.jsonl"):
        (home / name).write_text("what a program of another version wrote")
    network.write_text(json.dumps(of_version(json.loads(deployment.read_text()), version)))
    before, capsys_said = contents(home), capsys.readouterr()
    assert capsys_said.out
    at, opened = ["--home", str(home)], ["--password-file", str(password)]
    for command in (["run", *opened], ["status"], ["doctor"], ["move", "export", str(tmp_path / "node.tar")]):
        refused(cli.main([*command, *at]), capsys, str(network), *words)
        assert contents(home) == before, command
    assert not (tmp_path / "node.tar").exists()


@VERSIONS
def test_a_deployment_file_is_refused(
    tmp_path: Path, deployment: Path, password: Path, capsys: pytest.CaptureFixture[str], version: int, words: Any
) -> None:
    path, document = tmp_path / "deployment.json", of_version(json.loads(deployment.read_text()), version)
    path.write_text(json.dumps(document))
    refused(init(tmp_path / "home", path, password), capsys, f"the deployment file {path}", *words)
    assert not (tmp_path / "home").exists()
    refused(verifier.main(["batch", "0", "--deployment", str(path)]), capsys, str(path), *words)
    path.write_text(json.dumps(document | {"v": 2}))
    asked = verifier.main(["batch", "0", "--deployment", str(path)])
    refused(asked, capsys, f"the spec in the deployment file {path}", *words)


@VERSIONS
def test_a_network_file_is_refused(
    tmp_path: Path, deployment: Path, capsys: pytest.CaptureFixture[str], version: int, words: Any
) -> None:
    document = of_version(json.loads(deployment.read_text()), version)
    path = tmp_path / "net.toml"
    path.write_text(network_file(document, version))
    refused(cli.main(["network", "show", str(path)]), capsys, f"the network file {path}", *words)
    path.write_text(network_file(document, 2))
    asked = verifier.main(["batch", "0", "--network", str(path)])
    refused(asked, capsys, f"the deployment in the network file {path}", *words)
    (tmp_path / "deployment.json").write_text(json.dumps(document))
    place = {"file": "deployment.json", "digest": f"0x{block_digest(canonical.encode(document)).hex()}"}
    path.write_text(network_file(document, 2, deployment=place))
    asked = cli.main(["network", "show", str(path)])
    refused(asked, capsys, f"the deployment file {tmp_path / 'deployment.json'}", *words)


def deploying(spec: Path, folder: Path) -> list[str]:
    words = ["network", "deploy", "--spec", str(spec), "--out", str(folder / "out.json"), "--unlocked", "0x" + "1" * 40]
    return [*words, "--rpc", "http://127.0.0.1:9"]


def training(spec: Path, folder: Path) -> list[str]:
    return ["train", "--policy", str(folder), "--spec", str(spec), "--home", str(folder / "home")]


@VERSIONS
@pytest.mark.parametrize("command", [deploying, training])
def test_a_spec_is_refused(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    command: Callable[[Path, Path], list[str]],
    version: int,
    words: Any,
) -> None:
    (tmp_path / "spec.json").write_text(json.dumps(small_spec().to_json() | {"v": version}))
    refused(cli.main(command(tmp_path / "spec.json", tmp_path)), capsys, f"the spec {tmp_path / 'spec.json'}", *words)


def test_rules_with_spot_checks_are_taken(
    tmp_path: Path, deployment: Path, password: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A batch of these rules has eight completions, of which each voter recomputes one."""
    document = json.loads(deployment.read_text())
    rules = small_spec(spot=1).to_json()
    document |= {"spec": rules, "spec_digest": f"0x{block_digest(canonical.encode(rules)).hex()}"}
    path = tmp_path / "deployment.json"
    path.write_text(json.dumps(document))
    assert init(tmp_path / "home", path, password) == 0
    (tmp_path / "net.toml").write_text(network_file(document, 2))
    assert cli.main(["network", "show", "--json", str(tmp_path / "net.toml")]) == 0
    capsys.readouterr()
