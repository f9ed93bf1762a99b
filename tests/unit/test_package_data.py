"""The contracts that the package brings: all of them in a wheel, and with the metadata that belongs to their code."""

import hashlib
import json
import shutil
import subprocess
import sys
import tarfile
import zipfile
from importlib.util import find_spec
from pathlib import Path

import pytest

from sapo_devnet.checkout import ROOT
from sapo_lab import export_abi
from sapo_lab.export_abi import BUILD, CONTRACTS, TARGET, exported
from sapo_verifier.chain.contracts import abi, creation_code

CHAIN = "sapo_verifier/chain"


def varint(value: int) -> bytes:
    return bytes([value]) if value < 0x80 else bytes([value & 0x7F | 0x80]) + varint(value >> 7)


def ipfs_hash(data: bytes) -> bytes:
    """sha2-256 of a file of one block, as IPFS makes it by default (UnixFS in DAG-PB)."""
    file = b"\x08\x02\x12" + varint(len(data)) + data + b"\x18" + varint(len(data))
    return hashlib.sha256(b"\x0a" + varint(len(file)) + file).digest()


@pytest.mark.parametrize("name", CONTRACTS)
def test_the_code_holds_the_hash_of_the_metadata(name: str) -> None:
    metadata = (TARGET / "code" / f"{name}.metadata.json").read_bytes()
    assert creation_code(name).count(b"\x64ipfs\x58\x22\x12\x20" + ipfs_hash(metadata)) == 1
    assert json.loads(metadata)["output"]["abi"]
    assert abi(name)


def test_what_is_committed_is_what_forge_builds() -> None:
    for name, text in exported(BUILD):
        assert (TARGET / name).read_bytes() == text.encode(), f"{name}: run scripts/export-abi"


def test_a_file_that_differs_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(export_abi, "TARGET", tmp_path)
    monkeypatch.setattr(sys, "argv", ["export-abi"])
    assert export_abi.main() == 0
    assert len(list(tmp_path.rglob("*.*"))) == 3 * len(CONTRACTS) + 1  # and the layout of Rounds
    monkeypatch.setattr(sys, "argv", ["export-abi", "--check"])
    assert export_abi.main() == 0
    metadata = tmp_path / "code" / "Nodes.metadata.json"
    metadata.write_bytes(metadata.read_bytes() + b"\n")
    capsys.readouterr()
    assert export_abi.main() == 1
    assert "code/Nodes.metadata.json" in capsys.readouterr().err
    monkeypatch.setattr(export_abi, "BUILD", tmp_path / "nothing")
    assert export_abi.main() == 3
    assert "forge build" in capsys.readouterr().err


BUILD_SDIST = "from setuptools.build_meta import build_sdist; build_sdist('dist')"
OPERATORS = (
    "Dockerfile",
    "compose.yaml",
    "requirements-node.lock",
    "docs/operators.md",
    "scripts/operator/sapo.service",
)


@pytest.mark.skipif(find_spec("setuptools") is None, reason="needs setuptools, to build a wheel without the network")
def test_a_source_distribution_and_its_wheel_have_all_of_it(tmp_path: Path) -> None:
    source, ignored = tmp_path / "source", shutil.ignore_patterns("__pycache__", "*.egg-info", "node_modules")
    for name in ("client", "verifier", "scripts", "docs", "contracts"):
        shutil.copytree(ROOT / name, source / name, ignore=ignored)
    for file in ROOT.iterdir():
        if file.is_file():
            shutil.copy(file, source)
    subprocess.run([sys.executable, "-c", BUILD_SDIST], cwd=source, check=True, timeout=120, capture_output=True)
    (sdist,) = (source / "dist").glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        archive.extractall(tmp_path, filter="data")
    (unpacked,) = tmp_path.glob("sapo_network-*")
    assert not [name for name in OPERATORS if not (unpacked / name).is_file()]
    command = [sys.executable, "-m", "pip", "wheel", "-qq", "--disable-pip-version-check", "--no-deps", "--no-index"]
    subprocess.run([*command, "--no-build-isolation", "-w", tmp_path, unpacked], check=True, timeout=120)
    (wheel,) = tmp_path.glob("*.whl")
    names = set(zipfile.ZipFile(wheel).namelist())
    for contract in CONTRACTS:
        wanted = {f"abi/{contract}.json", f"code/{contract}.hex", f"code/{contract}.metadata.json"}
        assert {f"{CHAIN}/{name}" for name in wanted} <= names
    assert f"{CHAIN}/code/Rounds.layout.json" in names
    devnet = {f"{name}.py" for name in ("__init__", "devnet", "command", "adversaries/attacks")}
    assert {f"sapo_devnet/{name}" for name in devnet} | {"sapo_devnet_pytest/__init__.py"} <= names
    assert not any(name.startswith(("sapo_lab", "tests")) for name in names)
    assert {f"sapo_client/commands/{name}.py" for name in ("init", "network", "train")} <= names
