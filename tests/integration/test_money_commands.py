"""`sapo claim`, `sapo status`, `sapo-verify round` on a real network whose nodes voted; contents are made up."""

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sapo_client import cli
from sapo_client.duties import claiming
from sapo_client.duties.health.outbox import held_up, transactions
from sapo_client.state.home import KEYSTORE, OUTBOX, only_one
from sapo_client.state.report import STATUS_FILE
from sapo_client.state.settings import ChainSettings, IpfsSettings, PolicySettings, Settings
from sapo_devnet.testkit.ipfs_daemon import Daemon, ipfs_daemon
from sapo_devnet.testkit.networks import BOND, Network
from sapo_verifier import cli as verify
from sapo_verifier import keystore
from sapo_verifier.chain.contracts import Call
from voters import ENDPOINT, Voter, begin, commit, network_with_batches, play_round, set_back

ACCOUNTS = (1, 2, 3)
R = 2
ME = 2  # its score, too


@pytest.fixture(scope="module")
def begun(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Network]:
    """Everybody voted on round R; the last block is in round R + 3."""
    folder = tmp_path_factory.mktemp("voters")
    with network_with_batches(ACCOUNTS, R) as network:
        voters = [Voter(network, account, folder) for account in ACCOUNTS]
        for round_ in (R + 1, R + 2, R + 3):
            play_round(network, voters, round_)
        for voter in voters:
            voter.close()
        yield network


@pytest.fixture
def network(begun: Network) -> Iterator[Network]:
    with set_back(begun):
        yield begun


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    with ipfs_daemon(tmp_path_factory.mktemp("daemon")) as running:
        yield running


@pytest.fixture
def home(network: Network, daemon: Daemon, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Of account ME; its key comes without a password."""
    network.deployment.save(tmp_path / "deployment.json")
    folder = tmp_path / "home"
    folder.mkdir()
    chain = ChainSettings(rpc=network.chain.url, deployment=tmp_path / "deployment.json")
    ipfs = IpfsSettings(api=daemon.api, endpoint=ENDPOINT)
    Settings(chain=chain, policy=PolicySettings(folder=tmp_path), ipfs=ipfs).write(folder)
    (folder / KEYSTORE).touch(0o400)
    monkeypatch.setattr(keystore, "load", lambda *_: network.chain.account(ME))
    monkeypatch.setattr(keystore, "read_password", lambda *_: "secret")
    return folder


def node_of(network: Network) -> str:
    return str(network.chain.account(ME).address).lower()


def final(network: Network) -> None:
    begin(network, R + 6)
    network.chain.rpc("evm_setAutomine", True)


def say(network: Network, home: Path, **values: Any) -> None:
    document = {
        "pid": os.getpid(),
        "updated": time.time(),
        "node": node_of(network),
        "phase": "training",
        "round": R + 6,
    }
    (home / STATUS_FILE).write_text(json.dumps(document | {"phase": "training"} | values))


def status(home: Path, capsys: pytest.CaptureFixture[str], *more: str) -> tuple[int, dict[str, Any]]:
    code = cli.main(["status", "--json", "--home", str(home), *more])
    return code, json.loads(capsys.readouterr().out)


def test_claim_pulls_what_is_final(network: Network, home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    final(network)
    assert cli.main(["claim", "--home", str(home), "--json"]) == 0
    claimed = json.loads(capsys.readouterr().out)
    producer, auditor = ME * 10**18, 2 * (100 * 10**18 // 6)
    assert claimed["rounds"] == [{"round": R, "producer": producer, "auditor": auditor}]
    assert claimed["total"] == producer + auditor
    assert network.reader().call(Call("token", "balanceOf", (node_of(network),))) == producer + auditor
    assert cli.main(["claim", "--home", str(home)]) == 0
    assert "nothing to claim" in capsys.readouterr().out


def test_claim_in_words(network: Network, home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    final(network)
    assert cli.main(["claim", "--home", str(home), "--since", "0"]) == 0
    out = capsys.readouterr().out
    assert f"round {R:6}: producer 2, auditor 33.333333333333333332" in out
    assert "claimed 35.333333333333333332 tokens" in out


def test_claim_and_status_take_rpcs_instead_of_the_homes(
    network: Network, home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    final(network)
    settings = home / "node.toml"
    settings.write_text(settings.read_text().replace(network.chain.url, "http://127.0.0.1:9"))
    file = tmp_path / "rpcs"
    file.write_text(f"http://127.0.0.1:10/KEY\n{network.chain.url}\n")
    file.chmod(0o600)
    assert cli.main(["claim", "--home", str(home)]) == 3
    assert cli.main(["claim", "--home", str(home), "--rpc", "http://127.0.0.1:10/KEY"]) == 3
    assert "http://127.0.0.1:10/… refuses the connection" in capsys.readouterr().err
    assert cli.main(["claim", "--home", str(home), "--rpc", "http://127.0.0.1:9", "--rpc-file", str(file)]) == 0
    assert "claimed" in capsys.readouterr().out
    say(network, home)
    assert "refuses the connection" in str(status(home, capsys))
    assert "refuses the connection" not in str(status(home, capsys, "--rpc-file", str(file)))
    file.write_text("http://127.0.0.1:10/KEY\nhttp://127.0.0.1:11")
    said = str(status(home, capsys, "--rpc-file", str(file)))
    assert "http://127.0.0.1:10/… refuses the connection; http://127.0.0.1:11 refuses the connection" in said
    assert "KEY" not in said


def test_claim_settles_first_what_is_overdue(network: Network, home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    commit(network, [ME], R + 5)
    begin(network, R + 5)
    final(network)
    assert cli.main(["claim", "--home", str(home), "--json"]) == 0
    claimed = json.loads(capsys.readouterr().out)
    assert claimed["settled"] == [{"round": R + 5, "fee": BOND // 50}]
    assert [row["round"] for row in claimed["rounds"]] == [R]


def test_claim_goes_on_where_somebody_settles_first(
    network: Network, home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    commit(network, [ME], R + 5)
    begin(network, R + 5)
    final(network)
    found = claiming.debts_of

    def and_then_it_is_settled(*arguments: Any) -> Any:
        debts = found(*arguments)
        w3, to = network.chain.w3, network.deployment.contracts.disputes
        request = {"from": w3.eth.accounts[9], "to": w3.to_checksum_address(to), "gas": 10**6}
        w3.eth.send_transaction(request | {"data": "0x" + debts[0].call.encode().hex()})  # type: ignore[arg-type]
        return debts

    monkeypatch.setattr(claiming, "debts_of", and_then_it_is_settled)
    assert cli.main(["claim", "--home", str(home), "--json"]) == 0
    claimed = json.loads(capsys.readouterr().out)
    assert claimed["settled"] == [{"round": R + 5, "fee": 0}], "this node took nothing"
    assert [row["round"] for row in claimed["rounds"]] == [R]


def test_claim_before_the_round_is_final(network: Network, home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["claim", "--home", str(home)]) == 0
    assert "nothing to claim" in capsys.readouterr().out


def test_claim_of_a_running_node(network: Network, home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    final(network)
    with only_one(home):
        assert cli.main(["claim", "--home", str(home)]) == 3
    assert "is running, and claims by itself" in capsys.readouterr().err
    assert not (home / OUTBOX).exists(), "nothing of it was touched"


def test_a_claim_that_is_not_mined(
    network: Network, home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It stays in the outbox, and the next try goes on with it."""
    begin(network, R + 6)
    monkeypatch.setattr(claiming, "WAIT_SECONDS", 0.0)
    assert cli.main(["claim", "--home", str(home)]) == 3
    assert "was not mined in 0 s; it stays in the outbox" in capsys.readouterr().err
    assert transactions(home / OUTBOX) == {"sent": 1}
    network.chain.mine()
    monkeypatch.setattr(claiming, "WAIT_SECONDS", 30.0)
    assert cli.main(["claim", "--home", str(home)]) == 0
    assert "nothing to claim" in capsys.readouterr().out


def test_status_of_a_healthy_node(network: Network, home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    final(network)
    say(network, home)
    with only_one(home):
        code, facts = status(home, capsys)
    assert (code, facts["reasons"]) == (0, [])
    assert facts["bond"] == "1 of 1"
    assert facts["batches"] == {"accepted": 1}
    assert facts["rewards_ready"] == "35.333333333333333332 of 1 rounds"
    assert facts["pay_earned"].startswith("0 tokens held, 35.3")
    assert "are not final" in facts["pay_to_come"]
    assert "blocks" in facts["round_ends_in"]
    assert facts["debts"] == {}
    assert facts["transactions"] == {}
    assert facts["chain_round"] == R + 6


def test_status_says_what_is_wrong(network: Network, home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    final(network)
    say(network, home, round=R + 3)
    with only_one(home):
        assert "is this machine too slow?" in status(home, capsys)[1]["reasons"][0]
    say(network, home)
    assert "not running" in status(home, capsys)[1]["reasons"][0]


def test_status_of_debts_and_a_short_bond(network: Network, home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    commit(network, [ME], R + 5)
    begin(network, R + 5)
    final(network)
    say(network, home)
    with only_one(home):
        code, facts = status(home, capsys)
        assert code == 1
        assert facts["debts"] == {str(R + 5): "0.02"}
        assert facts["batches"] == {"accepted": 1, "missed": 1}
        assert f"overdue of round {R + 5}: 0.02 coins" in facts["reasons"][0]
        call = Call("disputes", "settle", (node_of(network), R + 5, 2**256 - 1))
        w3 = network.chain.w3
        to = w3.to_checksum_address(network.deployment.contracts.disputes)
        w3.eth.send_transaction({"from": w3.eth.accounts[9], "to": to, "data": "0x" + call.encode().hex()})
        code, facts = status(home, capsys)
    assert code == 1
    assert facts["debts"] == {}
    assert "the bond is short of 0.02 coins" in facts["reasons"][0]


def test_status_reads_an_outbox_that_is_in_use(network: Network, tmp_path: Path) -> None:
    voter = Voter(network, 3, tmp_path)
    voter.outbox.put("one", Call("rounds", "poke"))
    file = tmp_path / "3" / "outbox.sqlite"
    assert (transactions(file), held_up(file)) == ({"intent": 1}, {})
    network.chain.rpc("anvil_setNextBlockBaseFeePerGas", hex(600 * 10**9))
    network.chain.mine()
    voter.outbox.pump()
    assert "above the cap of 500 gwei ([chain] fee_cap_gwei)" in held_up(file)["one"]
    voter.close()
    assert transactions(tmp_path / "nothing") == {}
    (tmp_path / "broken").write_bytes(b"no database" * 100)
    assert transactions(tmp_path / "broken") == held_up(tmp_path / "broken") == {}


def test_a_round_and_its_pay(network: Network, home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    final(network)
    words = ["round", str(R), "--no-fetch", "--rpc", network.chain.url]
    words += ["--deployment", str(home.parent / "deployment.json")]
    assert verify.main([*words, "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["final"] is True
    assert [row["score"] for row in shown["batches"]] == [1, 2, 3]
    assert {row["state"] for row in shown["batches"]} == {"accepted"}
    assert [row["stage_1"]["accepts"] for row in shown["batches"]] == [2, 2, 2]
    totals = shown["totals"]
    assert (totals["claimed"], totals["paid_verdicts"], totals["pool"]) == (6, 6, 1000 * 10**18)
    assert totals["producers"] + totals["auditors"] + totals["locked"] == totals["pool"]
    assert totals["producers"] == sum(row["pay"]["producer"] for row in shown["batches"]) == 6 * 10**18
    for row in shown["batches"]:
        pay = row["pay"]
        assert pay["total"] == pay["score"] * pay["per_one"] + pay["verdicts"] * pay["per_verdict"]
        assert pay["differs"] == ""
    assert verify.main(words) == 0
    out = capsys.readouterr().out
    assert "totals: 3 accepted; 6 ones claimed, paid verdicts 6" in out
    assert "2/0/0 of 2" in out
    assert node_of(network) in out


def test_a_round_that_nobody_serves(network: Network, home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The endpoints of these nodes lead nowhere."""
    words = ["round", str(R), "--rpc", network.chain.url, "--deployment", str(home.parent / "deployment.json")]
    assert verify.main([*words, "--json"]) == 3, "nobody was asked, as this machine refuses to, and nothing is final"
    shown = json.loads(capsys.readouterr().out)
    assert {row["checks"] for row in shown["batches"]} == {"abstain"}
    last = [row["outcomes"][-1] for row in shown["batches"]]
    assert {(each["check"], each["status"]) for each in last} == {("available", "unknown")}
    assert all("--allow-private" in each["reason"] for each in last)
    assert shown["final"] is False
    final(network)
    assert verify.main(words) == 3
    assert "unknown: the network's word is accepted; not known here: available" in capsys.readouterr().out


def test_rounds_without_batches(network: Network, home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--rpc", network.chain.url, "--deployment", str(home.parent / "deployment.json")]
    assert verify.main(["round", "1", *words]) == 0
    assert "0 batches" in capsys.readouterr().out
    assert verify.main(["round", "99", *words]) == 3
    assert "has not begun" in capsys.readouterr().err
