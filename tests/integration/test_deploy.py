"""`sapo network deploy` as a person runs it, against a real Anvil."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from sapo_client import cli
from sapo_devnet.checkout import ROOT
from sapo_devnet.testkit.anvil import Anvil
from sapo_devnet.testkit.networks import deploy_on, small_spec
from sapo_verifier import keystore
from sapo_verifier.chain.contracts import Call
from sapo_verifier.chain.deploying import contract_address, deploy
from sapo_verifier.chain.deployment import Deployment
from sapo_verifier.chain.errors import ChainError
from sapo_verifier.chain.reader import ChainReader


def run(*arguments: object, **environment: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "sapo_client", "network", "deploy", *map(str, arguments)]
    return subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=60,
        cwd="/",
        stdin=subprocess.DEVNULL,
        env=os.environ | environment,
    )


def run_here(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    """As `run`, in this process: importing everything again for each mistake would take most of the time."""
    status = cli.main(["network", "deploy", *map(str, arguments)])
    printed = capsys.readouterr()
    return status, printed.out, printed.err


@pytest.fixture
def spec_file(tmp_path: Path) -> Path:
    """As a person writes it: indented, in an order of its own."""
    path = tmp_path / "spec.json"
    path.write_text(json.dumps(dict(reversed(small_spec().to_json().items())), indent=4))
    return path


def test_a_devnet_account_deploys_what_a_reader_accepts(anvil: Anvil, spec_file: Path, tmp_path: Path) -> None:
    out = tmp_path / "deployment.json"
    account = anvil.account(0).address
    done = run("--rpc", anvil.url, "--unlocked", account, "--spec", spec_file, "--out", out)
    assert done.returncode == 0, done.stderr
    deployment = Deployment.load(out)
    assert deployment.spec == small_spec()
    assert deployment.chain_id == 31337
    assert deployment.contracts.audits == contract_address(account, 3)
    assert deployment.contracts.audits in done.stdout
    assert deployment.contracts.token in done.stdout
    reader = ChainReader(anvil.url, deployment)
    reader.check()
    assert reader.call(Call("nodes", "AUDITS")) == deployment.contracts.audits
    assert reader.call(Call("nodes", "isSettled", (account.lower(),))) is True
    reader.close()
    assert anvil.w3.eth.get_transaction_count(account) == 5


def test_a_keystore_deploys_and_nothing_secret_is_shown(
    anvil: Anvil,
    spec_file: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("DEBUG")
    password = tmp_path / "password"
    keystore.write_random_password(password)
    secret = keystore.read_password(password)
    address = keystore.create(tmp_path / "key.json", secret, work_factor=keystore.LIGHT_WORK_FACTOR)
    out = tmp_path / "deployment.json"
    arguments = ["--rpc", anvil.url, "--keystore", tmp_path / "key.json", "--password-file", password]
    arguments += ["--spec", spec_file, "--out", out, "--first-block", 50]

    status, broke_out, broke_err = run_here(capsys, *arguments)
    assert status == 1
    assert "too little coin" in broke_err
    assert not out.exists()

    anvil.rpc("anvil_setBalance", address, hex(10**18))
    status, done_out, done_err = run_here(capsys, *arguments)
    assert (status, done_err) == (0, "")
    deployment = Deployment.load(out)
    assert deployment.first_block == 50

    status, _, again = run_here(capsys, *arguments)
    assert (status, "exists already" in again) == (2, True)
    assert Deployment.load(out) == deployment

    key = keystore.load(tmp_path / "key.json", secret).key.hex()
    for shown in (broke_out, broke_err, done_out, again, caplog.text, out.read_text()):
        assert key not in shown
        assert secret not in shown


@pytest.mark.parametrize(
    ("change", "exit_status", "words"),
    [
        ({"--rpc": "http://127.0.0.1:9/SECRET"}, 3, "http://127.0.0.1:9/… refuses the connection"),
        ({"--rpc-file": "/nonexistent"}, 2, "there is no RPC file at /nonexistent"),
        ({"--spec": "/nonexistent.json"}, 2, "cannot be read"),
        ({"--artifacts": "/nonexistent"}, 2, "run `make contracts` first"),
        ({"--first-block": "0"}, 1, "round 0 would begin at block 0"),
        ({"--unlocked": "0x" + "99" * 20}, 1, "holds no key of that account; use a keystore"),
        ({"--unlocked": "me"}, 2, "'me' is no address"),
    ],
)
def test_mistakes_are_answered_in_a_sentence(
    anvil: Anvil,
    spec_file: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    change: dict[str, str],
    exit_status: int,
    words: str,
) -> None:
    arguments = {"--rpc": anvil.url, "--unlocked": anvil.account(0).address, "--spec": str(spec_file)}
    arguments |= {"--out": str(tmp_path / "deployment.json")} | change
    status, out, err = run_here(capsys, *(part for pair in arguments.items() for part in pair))
    assert status == exit_status
    assert words in err
    assert err.startswith("sapo: ")
    assert err.count("\n") == 1
    assert "SECRET" not in out + err
    assert not (tmp_path / "deployment.json").exists()


def test_only_the_first_rpc_deploys(
    anvil: Anvil, spec_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Which chain a network is on is chosen, and not looked for."""
    arguments = ["--unlocked", anvil.account(0).address, "--spec", spec_file, "--out", tmp_path / "d.json"]
    status, _, err = run_here(capsys, *arguments)
    assert (status, "name the chain's RPC with --rpc URL or --rpc-file FILE" in err) == (2, True)
    status, _, err = run_here(capsys, *arguments, "--rpc", "http://127.0.0.1:9", "--rpc", anvil.url)
    assert (status, "http://127.0.0.1:9 refuses the connection" in err) == (3, True)
    file = tmp_path / "rpcs"
    file.write_text(anvil.url)
    file.chmod(0o600)
    assert run_here(capsys, *arguments, "--rpc-file", file)[0] == 0


def test_a_spec_that_is_not_valid_is_refused(
    anvil: Anvil,
    spec_file: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    spec_file.write_text(json.dumps(small_spec().to_json() | {"max_slots": 200}))
    account = anvil.account(0).address
    arguments = ["--rpc", anvil.url, "--unlocked", account, "--spec", spec_file, "--out", tmp_path / "d.json"]
    status, _, err = run_here(capsys, *arguments)
    assert (status, "more than a claim word's 256" in err) == (2, True)
    assert anvil.w3.eth.get_transaction_count(account) == 0


def test_two_networks_of_one_key_do_not_collide(anvil: Anvil) -> None:
    first, second = deploy_on(anvil), deploy_on(anvil)
    assert first.deployment.contracts != second.deployment.contracts
    second.reader().check()
    second.close()


def test_a_transaction_in_between_is_noticed(anvil: Anvil, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nodes would hold the wrong address of Audits for ever."""
    from sapo_verifier.chain import deploying

    honest = deploying.contract_address
    monkeypatch.setattr(deploying, "contract_address", lambda sender, nonce: honest(sender, nonce + 1))
    with pytest.raises(ChainError, match=r"deployed at 0x[0-9a-f]{40} instead of .* deploy again"):
        deploy(anvil.w3, anvil.account(0), small_spec(), artifacts=ROOT / "out")


def test_help_needs_no_chain_and_no_heavy_import() -> None:
    done = run("--help", PYTHONPROFILEIMPORTTIME="1")
    assert done.returncode == 0
    assert "--keystore" in done.stdout
    assert "argparse" in done.stderr
    assert "web3" not in done.stderr
