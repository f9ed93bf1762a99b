"""`sapo init --network`, `sapo doctor`, and a home of another network: from a file to a node that could start."""

import json
import re
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from bare_base import bare_base
from sapo_client import cli
from sapo_client.batches.submitting import Submissions
from sapo_client.commands.doctor import status_of
from sapo_client.node.alone import wait_until_alone
from sapo_client.node.checkup import Line
from sapo_client.node.patience import Patience
from sapo_client.node.preflight import ready
from sapo_client.node.trial import judged, speed_line
from sapo_client.state.report import StatusFile
from sapo_client.state.settings import PolicySettings, Settings
from sapo_client.transactions.outbox import Outbox
from sapo_devnet.testkit.anvil import anvil
from sapo_devnet.testkit.networks import BOND, Network, deploy_on, small_spec
from sapo_devnet.testkit.tiny_policy import tiny_folder
from sapo_verifier import keystore
from sapo_verifier.bases import digest_of_folder
from sapo_verifier.chain.contracts import Call
from sapo_verifier.chain.deployment import Deployment
from sapo_verifier.cli import main as audit
from sapo_verifier.errors import SapoError, UsageError
from sapo_verifier.network_file import NetworkFile
from sapo_verifier.networks import pocket_spec

Words = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module")
def chain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Network, Path]]:
    """A network before round 0, and the folder of its file, with the base in it."""
    folder = tmp_path_factory.mktemp("network")
    bare_base(folder / "base")
    rule = small_spec().bases[0].model_dump(mode="json") | {"digest": "0x" + digest_of_folder(folder / "base").hex()}
    with anvil() as running:
        made = deploy_on(running, small_spec(bases=[rule]))
        save(made.deployment, folder / "network.toml", rpc=[running.url])
        keystore.write_random_password(folder / "password")
        yield made, folder
        made.close()


def save(deployment: Deployment, path: Path, *, rpc: list[str]) -> None:
    document = {"name": "testnet", "chain_id": deployment.chain_id, "rpc": rpc, "bases": {"pocket": "base"}}
    NetworkFile.checked(document | {"deployment": deployment}, "the test").save(path)


@pytest.fixture
def sapo(capsys: pytest.CaptureFixture[str]) -> Words:
    """Exit status, standard output and error of a command."""

    def run(*words: object) -> tuple[int, str, str]:
        status = cli.main(list(map(str, words)))
        said = capsys.readouterr()
        return status, said.out, said.err

    return run


def init(folder: Path, home: Path, *more: object, network: str = "network.toml") -> list[object]:
    words = ["init", "--home", home, "--network", folder / network, "--policy", "pocket", "--light-key"]
    return [*words, "--password-file", folder / "password", "--allow-private", *more]


def test_a_network_file_and_a_policy_make_a_home_that_needs_neither_file_again(
    chain: tuple[Network, Path], tmp_path: Path, sapo: Words
) -> None:
    network, folder = chain
    copy = tmp_path / "net"
    shutil.copytree(folder, copy)
    rpcs = tmp_path / "rpcs"
    rpcs.write_text("http://127.0.0.1:9/KEY")
    rpcs.chmod(0o600)
    home = tmp_path / "home"
    status, out, err = sapo(*init(copy, home, "--rpc", "http://127.0.0.1:10", "--rpc-file", rpcs))
    assert status == 0, err
    address = out.strip()
    assert re.fullmatch("0x[0-9a-f]{40}", address)
    assert "its contracts and spec are those of the deployment" in err
    sum_ = re.search(rf"send {address} 1\.(\d+) coins: 1 for the bond and 0\.\1 for the gas of 100 rounds", err)
    assert sum_, err
    assert f"{home / 'keystore.json'}: Back up this file" in err
    settings = Settings.load(home)
    own, public = ["http://127.0.0.1:10", "http://127.0.0.1:9/KEY"], [network.chain.url]
    assert settings.chain.rpc_urls(home) == own + public, "own ones first"
    assert settings.sapo.own_groups == 2, "as many as the spec allows"
    (copy / "network.toml").unlink()
    moved = home.rename(tmp_path / "moved")
    assert Deployment.load(Settings.load(moved).chain.deployment) == network.deployment
    assert NetworkFile.load(moved / "network.toml").deployment == network.deployment
    assert "KEY" not in (moved / "node.toml").read_text() + (moved / "network.toml").read_text()


def test_init_checks_what_answers_and_waits_for_nothing(
    chain: tuple[Network, Path], tmp_path: Path, sapo: Words
) -> None:
    network, folder = chain
    save(network.deployment, folder / "away.toml", rpc=["http://127.0.0.1:9"])
    status, out, err = sapo(*init(folder, tmp_path / "away", network="away.toml"))
    assert (status, len(out.strip())) == (0, 42)
    assert "not checked against the chain: the chain's RPC at http://127.0.0.1:9 refuses the connection" in err
    status, _, err = sapo(*init(folder, tmp_path / "offline", "--offline", network="away.toml"))
    assert (status, "127.0.0.1:9" in err, "Back up" in err) == (0, False, True)
    other = network.deployment.model_copy(update={"block_hash": b"\x11" * 32})
    save(other, folder / "other.toml", rpc=[network.chain.url])
    status, _, err = sapo(*init(folder, tmp_path / "other", network="other.toml"))
    assert (status, (tmp_path / "other").exists()) == (2, False), err
    assert "was reset" in err


def test_more_own_groups_than_a_batch_holds_are_refused_by_init_and_at_the_start(
    chain: tuple[Network, Path], tmp_path: Path, sapo: Words
) -> None:
    _, folder = chain
    words = "sapo.own_groups = 3, and a batch of this network holds 2 groups at most"
    for more in (["--i", 3], ["--set", "sapo.own_groups=3"]):
        status, _, err = sapo(*init(folder, tmp_path / "home", "--offline", *more))
        assert (status, words in err, (tmp_path / "home").exists()) == (2, True, False), err
    assert sapo(*init(folder, tmp_path / "home", "--offline"))[0] == 0
    changes = {"sapo": {"own_groups": 3}}
    with (
        pytest.raises(UsageError, match=words),
        ready(tmp_path / "home", folder / "password", register=False, changes=changes),
    ):
        raise AssertionError("it would start")
    status, _, err = sapo(*init(folder, tmp_path / "b", "--offline", "--set", "sapo.own_grups=3"))
    assert (status, "the nearest is sapo.own_groups" in err) == (2, True)


def test_a_home_stays_with_its_network_and_nothing_in_it_is_touched(
    chain: tuple[Network, Path], tmp_path: Path, sapo: Words
) -> None:
    """A new network was deployed, and its deployment file put into the home of the old one."""
    network, folder = chain
    home, password = tmp_path / "home", folder / "password"
    assert sapo(*init(folder, home))[0] == 0
    account = keystore.load(home / "keystore.json", keystore.read_password(password))
    Outbox.at_home(home, Settings.load(home).chain, network.reader(), account).close()
    old = (home / "deployment.json").read_bytes()
    rules = network.spec.to_json() | {"max_prompt_bytes": 32}
    new = deploy_on(network.chain, type(network.spec).model_validate(rules))
    new.deployment.save(home / "deployment.json")
    before = contents(home)
    with pytest.raises(UsageError) as caught, ready(home, password, register=True):
        raise AssertionError("it would start")
    assert "is of another network than its deployment file" in str(caught.value)
    assert "reveal, claim and exit there" in str(caught.value)
    assert contents(home) == before
    status, out, _ = sapo("doctor", "--home", home, "--quick", "--json")
    assert status == 1
    assert "is of another network" in out
    assert contents(home) == before
    (home / "deployment.json").write_bytes(old)
    with pytest.raises(SapoError, match="is not registered"), ready(home, password, register=False):
        raise AssertionError("it would start")
    new.close()


def contents(home: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in home.rglob("*") if path.is_file() and path.name != "lock"}


def test_doctor_from_an_empty_account_to_a_registered_node(
    chain: tuple[Network, Path], tmp_path: Path, sapo: Words
) -> None:
    network, folder = chain
    home = tmp_path / "home"
    address = sapo(*init(folder, home, "--set", "chain.rpc=['http://127.0.0.1:9']"))[1].strip()

    def doctor(*more: object) -> tuple[int, dict[str, tuple[str, str]]]:
        status, out, _ = sapo("doctor", "--home", home, "--quick", "--json", *more)
        found = json.loads(out)
        assert found["status"] == status
        return status, {line["what"]: (line["level"], line["words"]) for line in found["lines"]}

    status, lines = doctor()
    assert status == 0, lines
    assert lines["RPC http://127.0.0.1:9"][0] == "warning", "another one answers"
    level, words = lines[f"RPC {network.chain.url}"]
    assert (level, bool(re.match(r"answers in \d+ ms, block \d+", words))) == ("ok", True)
    assert lines["chain"][0] == lines["base"][0] == lines["home"][0] == lines["IPFS daemon"][0] == "ok"
    level, words = lines["node"]
    assert (level, f"send {address} 1." in words) == ("warning", True)
    assert "nobody listens there yet" in lines["endpoint from here"][1]
    assert "--probe" in lines["endpoint from outside"][1]
    assert "at most, by the network's rules" in lines["disk"][1]

    network.chain.rpc("anvil_setBalance", address, hex(2 * BOND))
    network.chain.rpc("anvil_impersonateAccount", address)
    w3, call = network.chain.w3, Call("nodes", "register", (address, "/ip4/127.0.0.1/tcp/8080/http"))
    to, sender = w3.to_checksum_address(network.deployment.contracts.nodes), w3.to_checksum_address(address)
    assert "which is enough" in doctor()[1]["node"][1]
    w3.eth.send_transaction({"from": sender, "to": to, "value": BOND, "data": "0x" + call.encode().hex()})  # type: ignore[typeddict-item]
    status, lines = doctor()
    assert (status, lines["node"][0], lines["funds"][0]) == (0, "ok", "ok")
    assert re.search(r"coins at 0x[0-9a-f]{40}: gas for \d+ rounds", lines["funds"][1])
    network.chain.rpc("anvil_setBalance", address, "0x0")
    status, lines = doctor()
    assert (status, lines["funds"][0]) == (1, "bad")
    assert "is empty" in lines["funds"][1]

    (folder / "base" / "generation_config.json").write_text("a file that a base may have, and this one has not")
    try:
        status, lines = doctor()
        assert (status, lines["base"][0]) == (1, "bad")
    finally:
        (folder / "base" / "generation_config.json").unlink()
    status, lines = doctor("--rpc", "http://127.0.0.1:9")
    assert (status, lines["RPC http://127.0.0.1:9"][0]) == (3, "bad"), "nothing is known to be wrong"


def test_what_a_new_nodes_key_sent_before_is_no_warning(
    chain: tuple[Network, Path], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """As of somebody who deployed the network with it, or bought coins."""
    caplog.set_level("INFO")
    network, _ = chain
    account, w3, reader = network.chain.account(5), network.chain.w3, network.reader()
    w3.eth.send_transaction({"from": account.address, "to": account.address, "value": 1})  # type: ignore[typeddict-item]
    outbox, status = Outbox(tmp_path / "outbox.sqlite", reader, account), StatusFile(tmp_path)
    patience = Patience(1.0, 0.1)
    node = account.address.lower()
    wait_until_alone(reader, outbox, node, status, poll_seconds=0.1, patience=patience, stop=threading.Event())
    outbox.close()
    assert f"the key {node} was used before its node" in caplog.text
    assert [record for record in caplog.records if record.levelname != "INFO"] == []


def test_a_new_nodes_first_round_is_told_from_one_that_it_was_late_for(chain: tuple[Network, Path]) -> None:
    network, _ = chain
    nobody: Any = None
    address = network.chain.account(6).address.lower()
    new = Submissions(network.reader(), nobody, nobody, nobody, network.spec, address)
    assert "the node is new" in new.why_none()
    late: Any = SimpleNamespace(call=lambda call: (5, 3, 0) if call.function == "missedOf" else None)
    assert "no policy was committed for this round in time" in replace(new, reader=late).why_none()


def test_the_exit_status_says_whether_something_is_bad_or_not_known() -> None:
    well, doubt = Line("a", "ok", ""), Line("b", "warning", "")
    bad, unknown = Line("c", "bad", ""), Line("d", "bad", "", unable=True)
    assert [status_of(lines) for lines in ([], [well, doubt], [well, unknown], [unknown, bad])] == [0, 0, 3, 1]


def test_speed_is_held_against_a_rounds_length(tmp_path: Path) -> None:
    """One real trial, of a policy that is tiny; then by its numbers."""
    folder = tiny_folder(tmp_path / "policy")
    settings = Settings.checked(
        {"chain": {"deployment": "d.json"}, "policy": PolicySettings(folder=folder).model_dump(), "threads": 1}, "test"
    )
    started = time.monotonic()
    line = speed_line(settings, pocket_spec(folder), tmp_path, 1e6)
    assert (line.level, "tokens per second" in line.words) == ("ok", True), line.words
    assert time.monotonic() - started < 90
    found: dict[str, Any] = {"engine_seconds": 3.0, "records_seconds": 1.0, "train_seconds": 2.0}
    found["tokens_per_second"] = 9.0  # 4 · 4 + 8 · 2 seconds
    levels = {seconds: judged(found, 4, 4, seconds).level for seconds in (31.0, 33.0, 65.0, None)}
    assert levels == {31.0: "bad", 33.0: "warning", 65.0: "ok", None: "ok"}
    assert "about 32 s for 4 own groups and training on 8; a round lasts about 65 s" in judged(found, 4, 4, 65.0).words


def test_a_trial_that_takes_too_long_is_ended(
    chain: tuple[Network, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sapo_client.node.trial.SECONDS", 0.05)
    settings = Settings.checked({"chain": {"deployment": "d.json"}, "policy": {"folder": str(tmp_path)}}, "test")
    line = speed_line(settings, chain[0].spec, tmp_path, 0.05)
    assert (line.level, "was not generated and trained on within" in line.words) == ("bad", True)
    assert speed_line(settings, chain[0].spec, tmp_path, 600.0).level == "warning"


def test_an_auditor_needs_the_network_file_alone(
    chain: tuple[Network, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    network, folder = chain
    network.mine_to_round(0)
    words = ["round", "0", "--network", str(folder / "network.toml"), "--no-fetch"]
    assert audit(words) == 0
    assert "round 0 (final in round 6, now 0): 0 batches" in capsys.readouterr().out
    assert audit([*words, "--deployment", "deployment.json"]) == 2
    assert "not allowed with" in capsys.readouterr().err
