"""What a command ends with where it fails: one status for each kind of error, and JSON where that was asked for."""

import importlib
import json
import pkgutil
from pathlib import Path

import pytest

import sapo_client
import sapo_verifier
from sapo_client import cli
from sapo_devnet.checkout import ROOT
from sapo_verifier import cli as verify
from sapo_verifier.bases import BaseMissingError
from sapo_verifier.chain.deployment import DeploymentError
from sapo_verifier.chain.errors import ChainError, ChainMismatch, ChainUnavailable, HttpRefused
from sapo_verifier.errors import BAD, UNABLE, USAGE, ObjectError, SapoError
from sapo_verifier.ipfs import BlockCorrupt, BlockUnavailable, EndpointError, RepoError, StoreFailed
from sapo_verifier.keystore import KeystoreError

NOT_HERE = ("sapo_client.generation.vllm.forced", "sapo_client.generation.vllm.child")  # need vLLM


@pytest.mark.parametrize(
    ("kind", "status"),
    [
        (SapoError, BAD), (ObjectError, BAD), (ChainError, BAD), (BlockCorrupt, BAD),
        (DeploymentError, USAGE), (KeystoreError, USAGE), (EndpointError, USAGE), (ChainMismatch, USAGE),
        (ChainUnavailable, UNABLE), (BlockUnavailable, UNABLE), (StoreFailed, UNABLE), (RepoError, UNABLE),
        (BaseMissingError, UNABLE),
    ],
)  # fmt: skip
def test_the_kind_says_the_status(kind: type[SapoError], status: int) -> None:
    assert kind("words").exit_status == status


def test_an_http_status_is_no_exit_status() -> None:
    assert HttpRefused("503", 503).exit_status == UNABLE


def test_no_error_has_another_status() -> None:
    for package in (sapo_client, sapo_verifier):
        for module in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
            if not module.name.endswith("__main__") and module.name not in NOT_HERE:
                importlib.import_module(module.name)
    kinds, seen = [SapoError], set()
    while kinds:
        kind = kinds.pop()
        seen.add(kind)
        kinds += [each for each in kind.__subclasses__() if each not in seen]
    assert len(seen) > 20
    assert {kind.exit_status for kind in seen} == {BAD, USAGE, UNABLE}


@pytest.mark.parametrize(
    ("main", "words", "status"),
    [
        (cli.main, ["status", "--home", "/no/such/home"], 2),
        (cli.main, ["claim", "--home", "/no/such/home"], 2),
        (cli.main, ["bench", "step", "--policy", "/no/such/policy"], 2),
        (cli.main, ["claim", "--since", "x"], 2),
        (cli.main, ["fly"], 2),
        (verify.main, ["batch", "0", "--deployment", "/no/such/file"], 2),
        (verify.main, ["round"], 2),
        (verify.main, ["prove", "0", "--send"], 2),
    ],
)
def test_with_json_an_error_is_json_too(main, words, status, capsys: pytest.CaptureFixture[str]) -> None:  # type: ignore[no-untyped-def]
    assert main([*words, "--json"]) == status
    out, err = capsys.readouterr()
    said = json.loads(out)
    assert said["status"] == status
    assert said["error"] in err
    assert main(words) == status
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("page", ["operators.md", "auditors.md"])
def test_the_table_is_in_the_documents(page: str) -> None:
    text = Path(ROOT / "docs" / page).read_text()
    for status, word in ((BAD, "bad"), (USAGE, "use"), (UNABLE, "now")):
        assert any(line.startswith(f"| {status} |") and word in line for line in text.splitlines()), (page, status)
