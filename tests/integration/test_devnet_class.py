"""`Devnet` with real parts: rounds by hand, what befalls its nodes, and how it ends."""

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.request import urlopen

import pytest

from sapo_devnet import Devnet, DevnetError, DevnetUnable
from sapo_devnet.checkout import ROOT
from sapo_devnet.testkit.alive import descendants, remaining, users_of, wait_until
from sapo_devnet.testkit.tiny_policy import tiny_folder
from sapo_verifier.chain.deployment import Deployment
from sapo_verifier.errors import UsageError


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_folder(tmp_path_factory.mktemp("policy") / "random")


@pytest.fixture(scope="module")
def net(tmp_path_factory: pytest.TempPathFactory, model: Path) -> Iterator[Devnet]:
    """Two nodes and one of formula, and rounds that end by hand; the tests play on with it, one after the other."""
    folder = tmp_path_factory.mktemp("by hand")
    with Devnet(nodes=2, formula=1, pace="hand", policy=model, folder=folder) as made:
        yield made
    assert not users_of(folder)


def test_a_round_ends_when_it_is_told_to_and_not_before_all_are_done(net: Devnet) -> None:
    assert net.round == 0
    net.until(lambda: all(node.done(0) for node in net.nodes), what="all are done with round 0")
    assert net.round == 0
    assert net.next_round() == 1
    assert net.until_round(3) == 3
    published = {(batch["round"], batch["name"]) for batch in net.summary()["batches"]}
    assert published >= {(round_, name) for round_ in (1, 2) for name in ("node0", "node1", "formula0")}
    assert net.summary()["nodes"]["node0"]["running"]


def test_nodes_with_a_model_judge_the_others_by_the_formula(net: Devnet) -> None:
    (report,) = [report for report in net.nodes[0].rounds() if report["round"] == 2]
    assert report["external_checked"] == report["external_drawn"] == 2 * 2, "two groups of either"
    assert report["failures"] == []
    assert any("policy unknown" in words for row in net.nodes[2].rounds() for words in row["failures"]), "it abstains"


def test_what_an_account_of_the_test_s_sends_is_mined(net: Devnet) -> None:
    from web3 import HTTPProvider, Web3

    w3, me = Web3(HTTPProvider(net.rpc)), net.accounts[0]
    sent = {"to": net.accounts[1].address, "value": 1, "gas": 21_000, "gasPrice": 2 * w3.eth.gas_price, "nonce": 0}
    signed = me.sign_transaction({**sent, "chainId": net.deployment.chain_id})
    receipt = w3.eth.wait_for_transaction_receipt(w3.eth.send_raw_transaction(signed.raw_transaction), timeout=20)
    assert receipt["status"] == 1
    before = w3.eth.get_block("latest")
    net.reorganize(2)
    assert w3.eth.get_block(before["number"])["hash"] != before["hash"]


def test_one_that_stands_still_or_was_killed_is_not_waited_for(net: Devnet) -> None:
    def state() -> str:
        assert net.nodes[1].process is not None
        return Path(f"/proc/{net.nodes[1].process.pid}/stat").read_text().rpartition(")")[2].split()[0]

    net.pause_node(1)
    assert state() == "T"
    net.next_round()
    assert state() == "T"
    net.resume_node("node1")
    assert state() != "T"
    net.next_round()
    daemon = net.nodes[0].daemon.pid
    net.kill_node(0, with_daemon=True)
    with pytest.raises(UsageError, match="node0 does not run"):
        net.pause_node(0)
    now = net.next_round()
    net.start_node(0)
    assert net.nodes[0].daemon.pid != daemon
    assert net.nodes[0].starts == 2
    with pytest.raises(UsageError, match="runs already"):
        net.start_node(0)
    net.until(lambda: net.nodes[0].done(now), what="it plays the round that it missed the beginning of")


def test_who_joins_late_plays_too(net: Devnet) -> None:
    withholder = net.inject("withholder")
    assert (withholder.name, withholder.attack) == ("withholder", "withholder")
    assert len(net.gateways) == 4
    now = net.until_round(net.round + 2)
    net.until(lambda: net.reader.batch_of(withholder.address, now) is not None, what="it publishes")
    with pytest.raises(UsageError, match="no such attack"):
        net.inject("nap")
    with pytest.raises(UsageError, match="no node 'node7'"):
        net.kill_node("node7")


def test_until_final_plays_on_and_in_no_time_if_nobody_is_waited_for(net: Devnet) -> None:
    now = net.round
    for _ in range(5):
        net.next_round(wait=False)
    assert net.until_final(now) == now + 6


def test_what_does_not_happen_in_time_is_told(net: Devnet) -> None:
    with pytest.raises(DevnetError, match=r"after 0 s still not there: pigs fly; the logs are in .*by hand"):
        net.until(lambda: False, 0.1, what="pigs fly")


# -- how it ends: with a chain alone, which starts in a second --


def test_when_all_is_final_no_round_ends_any_more(model: Path) -> None:
    with Devnet(nodes=0, rounds=1, policy=model) as net:
        assert net.until_final(1) == 7
        with pytest.raises(UsageError, match=r"round 8 never begins: .* the last one is 7"):
            net.until_round(8)
    assert not net._folder or not net._folder.exists()


def test_by_the_clock_rounds_end_by_themselves(model: Path) -> None:
    with Devnet(nodes=0, pace=0.5, policy=model) as net:
        assert net.until_round(3, 10) >= 3
        assert net.next_round(wait=False) >= 4


def test_an_exception_ends_it_and_says_where_the_logs_are(model: Path) -> None:
    def interrupted() -> None:
        with Devnet(nodes=0, policy=model) as net:
            seen.append(net)
            raise KeyboardInterrupt

    seen: list[Devnet] = []
    with pytest.raises(KeyboardInterrupt) as error:
        interrupted()
    folder = seen[0].folder
    assert str(folder) in error.value.__notes__[0]
    assert (folder / "anvil.log").is_file()
    assert not users_of(folder)
    shutil.rmtree(folder)


def test_what_ended_by_itself_is_told_with_its_log(model: Path, tmp_path: Path) -> None:
    def killed(folder: Path, then: Callable[[Devnet], object]) -> None:
        with Devnet(nodes=0, policy=model, folder=folder) as net:
            os.kill(net._net.chain.process.pid, signal.SIGKILL)
            then(net)

    words = r"anvil has ended; .*anvil\.log"
    with pytest.raises(DevnetError, match=words):
        killed(tmp_path / "asked", lambda net: net.until_round(10**6))
    with pytest.raises(DevnetError, match=words):
        killed(tmp_path / "at the end", lambda net: wait_until("it is seen", lambda: net._held._failure, seconds=20))
    with pytest.raises(DevnetError, match=words):
        killed(tmp_path / "waiting", lambda net: net.until(net.reader.batch_count, what="a batch"))
    with pytest.raises(OSError, match=r"refused|reset") as error:
        killed(tmp_path / "theirs", lambda net: urlopen(net.rpc))  # noqa: S310 - loopback
    assert re.search(f"Before that: {words}", error.value.__notes__[-1]), "a connection ends before the process"
    assert not users_of(tmp_path)


def test_a_port_that_is_taken_is_told(model: Path, tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(DevnetUnable, match=r"(?s)Anvil did not start.*in use"):
            Devnet(nodes=0, policy=model, folder=tmp_path / "net", port=taken.getsockname()[1]).start()
    assert not users_of(tmp_path)


def test_a_disk_that_is_full_is_told_and_what_was_started_ends(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Deployment, "save", full)
    with pytest.raises(DevnetError, match="No space left on device; the logs are in"):
        Devnet(nodes=0, policy=model, folder=tmp_path / "net").start()
    assert (tmp_path / "net" / "anvil.log").is_file()
    assert not users_of(tmp_path)


THEIRS = """
import sys, threading, time
from pathlib import Path
from sapo_devnet import Devnet

net = Devnet(nodes=1, policy=Path(sys.argv[1]), folder=Path(sys.argv[2]))
starter = threading.Thread(target=net.start)
starter.start()
starter.join()      # for the kernel the parent of what it started would be gone
net.next_round()
net.pause_node(0)
print("paused", flush=True)
time.sleep(600)
"""


def test_after_kill_9_all_of_it_ends_also_what_stands_still(model: Path, tmp_path: Path) -> None:
    path = os.pathsep.join(filter(None, [str(ROOT / "scripts"), os.environ.get("PYTHONPATH")]))
    process = subprocess.Popen(
        [sys.executable, "-c", THEIRS, str(model), str(tmp_path / "net")],
        env={**os.environ, "PYTHONPATH": path},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    with process.stdout:
        assert process.stdout.readline() == "paused\n"
        children = descendants(process.pid)
        process.kill()
        process.wait()
    wait_until("its children end", lambda: not remaining(children), seconds=20)
    assert not users_of(tmp_path)
