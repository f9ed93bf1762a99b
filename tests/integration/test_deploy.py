"""`sapo network deploy` as a person runs it, against a real Anvil."""

import io
import json
import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sapo_client import cli
from sapo_devnet.checkout import ROOT
from sapo_devnet.testkit.anvil import Anvil
from sapo_devnet.testkit.anvil import anvil as running
from sapo_devnet.testkit.faulty_rpc import faulty_rpc
from sapo_devnet.testkit.networks import deploy_on, small_spec
from sapo_verifier import keystore
from sapo_verifier.bls12381 import g2_of
from sapo_verifier.chain.contracts import Call
from sapo_verifier.chain.deploying import ORDER, contract_address, deploy
from sapo_verifier.chain.deploying_on import GAS, Deploying
from sapo_verifier.chain.deployment import Deployment
from sapo_verifier.chain.errors import ChainError, ChainUnavailable
from sapo_verifier.chain.reader import ChainReader
from sapo_verifier.chain.rpc import connect_for_sending, transport
from sapo_verifier.drand import quicknet
from sapo_verifier.errors import SapoError, UsageError
from sapo_verifier.network_file import NetworkFile


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
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    caplog.set_level("DEBUG")
    password = tmp_path / "password"
    keystore.write_random_password(password)
    secret = keystore.read_password(password)
    address = keystore.create(tmp_path / "key.json", secret, work_factor=keystore.LIGHT_WORK_FACTOR)
    out = tmp_path / "deployment.json"
    arguments = ["--rpc", anvil.url, "--keystore", tmp_path / "key.json", "--password-file", password]
    arguments += ["--spec", spec_file, "--out", out, "--first-block", 50, "--confirmations", 0]

    status, broke_out, broke_err = run_here(capsys, *arguments)
    assert status == 1
    assert "too little coin" in broke_err
    assert not out.exists()

    anvil.rpc("anvil_setBalance", address, hex(10**18))
    monkeypatch.setattr("sys.stdin", io.StringIO())
    status, _, asked_err = run_here(capsys, *arguments)
    assert (status, "nobody is here to agree to that: pass --yes" in asked_err) == (2, True)
    assert re.search(r"deploying takes about 14,350,000 gas: [0-9.]+ coins at [0-9.]+ gwei", asked_err)
    assert anvil.w3.eth.get_transaction_count(anvil.w3.to_checksum_address(address)) == 0
    arguments += ["--yes", "--name", "testnet", "--public-rpc", "https://rpc.example.org"]
    arguments += ["--base-from", "pocket=owner/pocket@abc"]
    status, done_out, done_err = run_here(capsys, *arguments)
    assert status == 0, done_err
    deployment = Deployment.load(out)
    assert deployment.first_block == 50
    network = NetworkFile.load(tmp_path / "testnet.toml")
    assert (network.deployment, network.rpc) == (deployment, ["https://rpc.example.org"])
    assert cli.main(["network", "show", str(tmp_path / "testnet.toml")]) == 0
    shown = capsys.readouterr().out
    assert deployment.contracts.audits in shown
    assert "owner/pocket@abc" in shown
    steps = json.loads((tmp_path / "deployment.transactions.json").read_text())["steps"]
    assert [step["contract"] for step in steps] == list(ORDER)
    for step in steps:
        sent = anvil.w3.eth.get_transaction(step["transaction"])["input"].hex()
        assert sent.endswith(step["encoded_arguments"].removeprefix("0x")), "as an explorer asks for them"
        assert abs(step["gas"] - GAS[step["contract"]]) < 20_000, "what the cost is reckoned by"

    status, _, again = run_here(capsys, *arguments)
    assert (status, "exists already" in again) == (2, True)
    assert Deployment.load(out) == deployment

    assert network.deployment.drand is None
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
        ({"--public-rpc": "ws://rpc"}, 2, "is no public RPC"),
        ({"--base-from": "gpt=owner/gpt"}, 2, "--base-from names gpt, which the spec does not have"),
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


def test_tasks_that_were_edited_without_their_digest_are_refused(
    anvil: Anvil,
    spec_file: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """No node would start on that network, and its contracts are paid for."""
    document = small_spec().to_json()
    document["tasks"][0]["config"] = {"max_terms": 3}
    spec_file.write_text(json.dumps(document))
    account = anvil.account(0).address
    arguments = ["--rpc", anvil.url, "--unlocked", account, "--spec", spec_file, "--out", tmp_path / "d.json"]
    status, _, err = run_here(capsys, *arguments)
    assert status == 2
    named = re.search(r"the digest of its tasks is (0x\w+), and here it is (0x\w+): if you edited the tasks", err)
    assert named is not None
    assert named[1] == document["versions"]["digest"]
    assert anvil.w3.eth.get_transaction_count(account) == 0
    document["versions"]["digest"] = named[2]
    spec_file.write_text(json.dumps(document))
    assert run_here(capsys, *arguments)[0] == 0


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


def deploying(url: str, anvil: Anvil, path: Path, **options: Any) -> Deploying:
    options = {"confirmations": 0, "timeout": 20.0} | options
    return Deploying(connect_for_sending(url), anvil.account(0), small_spec(), path, **options)


def agree(cost: object) -> None:
    """To whatever it costs."""


def nonce(anvil: Anvil) -> int:
    return int(anvil.w3.eth.get_transaction_count(anvil.account(0).address))


@pytest.mark.parametrize("sent", [0, 2, 4])
@pytest.mark.parametrize("arrives", [False, True])
def test_an_rpc_that_is_lost_between_two_transactions(anvil: Anvil, tmp_path: Path, sent: int, arrives: bool) -> None:
    """Whether the transaction that it was lost with arrived or not: the next run goes on, and sends nothing twice."""
    count = 0

    def fault(method: str, params: Any) -> dict[str, Any] | None:
        nonlocal count
        count += method == "eth_sendRawTransaction"
        if count <= sent:
            return None
        if arrives and method == "eth_sendRawTransaction":
            anvil.rpc(method, *params)
        return {"code": -32000, "message": "header not found"}

    path = tmp_path / "journal"
    with faulty_rpc(anvil.url, fault, status=502) as lost, pytest.raises(ChainUnavailable), transport(lost.url):
        deploying(lost.url, anvil, path).run(agree)
    assert nonce(anvil) == sent + arrives
    made = deploying(anvil.url, anvil, path).run(agree)
    assert nonce(anvil) == 5
    reader = ChainReader(anvil.url, made)
    reader.check()
    reader.close()
    assert deploying(anvil.url, anvil, path).run(lambda cost: pytest.fail("nothing is left to pay for")) == made
    assert nonce(anvil) == 5


def test_a_deployment_that_is_killed_goes_on(anvil: Anvil, tmp_path: Path) -> None:
    """Signed, on disk, and gone before it was sent."""

    class Killed(BaseException):
        pass

    def killed(words: str) -> None:
        if words.startswith("Rounds"):
            raise Killed

    path = tmp_path / "journal"
    with pytest.raises(Killed):
        deploying(anvil.url, anvil, path, say=killed).run(agree, 100)
    assert nonce(anvil) == 3
    with pytest.raises(UsageError, match="begun with round 0 at block 100"):
        deploying(anvil.url, anvil, path).run(agree, 90)
    other = replace(deploying(anvil.url, anvil, path), account=anvil.account(1))
    with pytest.raises(UsageError, match="begun with another deployer"):
        other.run(agree)
    other = replace(deploying(anvil.url, anvil, path), spec=small_spec(max_new_tokens=8))
    with pytest.raises(UsageError, match="begun with another spec digest"):
        other.run(agree)
    assert deploying(anvil.url, anvil, path).run(agree).first_block == 100
    assert nonce(anvil) == 5


def test_another_transaction_of_the_key_ends_a_deployment_in_words(anvil: Anvil, tmp_path: Path) -> None:
    def another(words: str) -> None:
        if words.startswith("Nodes"):
            sender = anvil.account(0).address
            anvil.w3.eth.send_transaction({"from": sender, "to": sender, "value": 1})  # type: ignore[typeddict-item]

    with pytest.raises(SapoError, match=r"another transaction of 0x[0-9a-f]{40} came in between \(nonce 2\)"):
        deploying(anvil.url, anvil, tmp_path / "journal", say=another).run(agree)


def test_confirmations_are_waited_for(anvil: Anvil, tmp_path: Path) -> None:
    path = tmp_path / "journal"
    with pytest.raises(ChainUnavailable, match="3 blocks after block 5 did not come in 1 seconds"):
        deploying(anvil.url, anvil, path, confirmations=3, timeout=1.0).run(agree)
    anvil.mine(3)
    assert deploying(anvil.url, anvil, path, confirmations=3, timeout=1.0).run(agree).block == 1


def test_help_needs_no_chain_and_no_heavy_import() -> None:
    done = run("--help", PYTHONPROFILEIMPORTTIME="1")
    assert done.returncode == 0
    assert "--keystore" in done.stdout
    assert "argparse" in done.stderr
    assert "web3" not in done.stderr


def test_a_network_that_waits_for_drand(
    anvil: Anvil, tmp_path: Path, spec_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The network file says so and where its relays are; what goes with another beacon is refused before."""
    password = tmp_path / "password"
    keystore.write_random_password(password)
    address = keystore.create(
        tmp_path / "key.json", keystore.read_password(password), work_factor=keystore.LIGHT_WORK_FACTOR
    )
    anvil.rpc("anvil_setBalance", address, hex(10**18))
    out = tmp_path / "deployment.json"
    arguments = ["--rpc", anvil.url, "--keystore", tmp_path / "key.json", "--password-file", password, "--yes"]
    arguments += ["--spec", spec_file, "--out", out, "--confirmations", 0, "--name", "testnet"]
    arguments += ["--drand-relay", "https://relay.example.org"]
    status, _, refused = run_here(capsys, *arguments)
    assert (status, "go with --beacon drand" in refused) == (2, True)
    status, _, said = run_here(capsys, *arguments, "--beacon", "drand", "--drand-margin", 48)
    assert status == 0, said
    network = NetworkFile.load(tmp_path / "testnet.toml")
    assert network.deployment == Deployment.load(out)
    assert (network.deployment.drand, network.drand_relays) == (quicknet(48), ["https://relay.example.org"])
    first = json.loads((tmp_path / "deployment.transactions.json").read_text())["steps"][0]
    assert (first["contract"], first["arguments"][2:]) == (
        "DrandBeacon", ["0x" + g2_of(quicknet().key).hex(), 1692803367, 3, 48]
    )  # fmt: skip
    assert abs(first["gas"] - GAS["DrandBeacon"]) < 20_000, first["gas"]


def test_a_chain_without_the_precompiles_is_refused_in_words() -> None:
    with running("--hardfork", "cancun") as old, pytest.raises(ChainError, match=r"lacks the precompiles of EIP-2537"):
        deploy(old.w3, old.account(0), small_spec(), drand=quicknet())
