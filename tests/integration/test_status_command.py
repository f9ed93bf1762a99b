"""`sapo status` as a process of its own, on a real network whose nodes voted: what it calls unhealthy, and how fast."""

import json
import os
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sapo_client.state.home import LOCK, only_one
from sapo_client.state.report import STATUS_FILE, RoundReport
from sapo_client.state.settings import ChainSettings, IpfsSettings, PolicySettings, Settings
from sapo_devnet.testkit.faulty_rpc import faulty_rpc
from sapo_devnet.testkit.hostile_http import Script, hostile
from sapo_devnet.testkit.ipfs_daemon import Daemon, ipfs_daemon
from sapo_devnet.testkit.networks import Network
from sapo_devnet.testkit.swarm import sapo
from sapo_verifier.audit import CheckResult
from sapo_verifier.chain.contracts import Call
from sapo_verifier.files import lock_file
from sapo_verifier.ipfs import BlockStore
from voters import ENDPOINT, Voter, address, begin, play_round, send, set_back

ACCOUNTS = (1, 2, 3, 4)
R = 2
ME = 4
SECONDS = 10.0  # for an answer, whatever the RPC does


@pytest.fixture
def network(begun: Network) -> Iterator[Network]:
    with set_back(begun):
        yield begun


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    with ipfs_daemon(tmp_path_factory.mktemp("daemon")) as running:
        yield running


class Home:
    """Of account ME; this process stands for its node."""

    def __init__(self, network: Network, daemon: Daemon, folder: Path) -> None:
        self.network, self.daemon, self.folder = network, daemon, folder
        self.path = folder / "home"
        self.path.mkdir()
        network.deployment.save(folder / "deployment.json")
        self.write()

    def write(self, *, rpc: str | None = None, endpoint: str = ENDPOINT, **ipfs: Any) -> None:
        (self.path / "node.toml").unlink(missing_ok=True)
        chain = ChainSettings(rpc=rpc or self.network.chain.url, deployment=self.folder / "deployment.json")
        settings = IpfsSettings(api=self.daemon.api, endpoint=endpoint, **ipfs)
        Settings(chain=chain, policy=PolicySettings(folder=self.folder), ipfs=settings).write(self.path)

    def say(self, round_: int, **values: Any) -> None:
        now = time.time()
        node = address(self.network, ME)
        document = {"pid": os.getpid(), "updated": now, "progressed": now, "node": node, "round": round_}
        (self.path / STATUS_FILE).write_text(json.dumps(document | {"phase": "voting"} | values))

    def status(self, *words: str) -> tuple[int, dict[str, Any]]:
        with only_one(self.path):
            done = sapo("status", "--json", "--home", self.path, *words)
        return done.returncode, json.loads(done.stdout)


@pytest.fixture
def home(network: Network, daemon: Daemon, tmp_path: Path) -> Home:
    return Home(network, daemon, tmp_path)


def play(network: Network, voters: dict[int, Voter], to: int) -> None:
    for round_ in range(R + 1, to + 1):
        play_round(network, voters.values(), round_)


def test_a_node_whose_batch_others_accepted_is_healthy(network: Network, voters: dict[int, Voter], home: Home) -> None:
    play(network, voters, R + 3)
    home.say(R + 3)
    RoundReport(R, completions=8, reward=4).append_to(home.path)
    code, facts = home.status()
    assert (code, facts["reasons"]) == (0, [])
    assert facts["reached"] == f"in round {R}: 3 verdicts of others took all blocks of batch {ME - 1}"
    assert "rounds of 700000 gas" in facts["gas_lasts"]


def test_what_nobody_checked_is_never_healthy_but_on_a_devnet(network: Network, home: Home) -> None:
    home.say(R)
    code, facts = home.status()
    assert code == 1
    (reason,) = facts["reasons"]
    assert "not checked: nobody has revealed a verdict" in reason
    assert "sapo status --probe" in reason
    home.write(allow_private=True)
    code, facts = home.status()
    assert (code, facts["reasons"]) == (0, [])
    assert facts["reached"].startswith("not checked")


def test_a_void_batch_names_the_check_and_the_voter_and_its_pay_says_so(
    network: Network, voters: dict[int, Voter], home: Home, daemon: Daemon
) -> None:
    """One voter's report is served; another's endpoint leads nowhere."""
    index = voters[ME].reader.batch_of(voters[ME].node, R)
    assert index is not None
    words = "block 0x12: nobody has it\x1b[31m"
    for account in (1, 2, 3):
        voters[account].pool.findings[index] = [CheckResult("available", "void", words)]
    send(network, [(1, Call("nodes", "setEndpoint", (daemon.gateway,)), 0)])
    play(network, voters, R + 2)
    with BlockStore(daemon.api, allow_private=True) as store:
        for block in voters[1].blocks.kept:
            store.put(block)
    play_round(network, voters.values(), R + 3)
    home.write(allow_private=True)
    home.say(R + 3)
    code, facts = home.status()
    assert code == 1
    batch, reached = facts["reasons"]
    assert f"the own batch {index} of round {R} is disputed" in batch
    assert f"{voters[1].node} calls void it in stage 1 (available: block 0x12: nobody has it\\x1b[31m)" in batch
    assert f"{voters[2].node} calls void it in stage 1 (its report is not to be had: " in batch
    assert "See that the endpoint can be reached" in batch
    assert f"not reached from outside: not in round {R}: {voters[1].node} says: available" in reached

    for round_ in range(R + 4, R + 7):
        play_round(network, voters.values(), round_)
    home.say(R + 6)
    code, facts = home.status()
    assert any(f"the own batch {index} of round {R} is void: " in reason for reason in facts["reasons"])
    assert any("the bond is short of 0.1 coins" in reason for reason in facts["reasons"]), "nobody could look at it"
    assert facts["pay"][str(R)].startswith(f"nothing: batch {index} ended void: {voters[1].node} calls void it")
    assert facts["pay"][str(R - 1)].startswith("nothing: no policy was committed for it")


def test_rejects_without_reports_are_named_by_voter(network: Network, voters: dict[int, Voter], home: Home) -> None:
    index = voters[ME].reader.batch_of(voters[ME].node, R)
    assert index is not None
    voters[2].pool.findings[index] = [CheckResult("reward", "fail", "no", 0, 1)]
    play(network, voters, R + 3)
    home.say(R + 3)
    code, facts = home.status()
    assert code == 1
    (reason,) = facts["reasons"]
    assert f"{voters[2].node} rejects it in stage 1 (its report is not to be had: " in reason
    assert facts["reached"].startswith(f"in round {R}: 3 verdicts"), "who rejects it has fetched it"


def test_an_endpoint_that_differs_and_an_empty_account(network: Network, voters: dict[int, Voter], home: Home) -> None:
    play(network, voters, R + 3)
    home.say(R + 3)
    home.write(endpoint="/dns4/elsewhere.example/tcp/443/https")
    network.chain.rpc("anvil_setBalance", address(network, ME), "0x0")
    code, facts = home.status()
    assert code == 1
    endpoint, empty = facts["reasons"]
    assert ENDPOINT in endpoint
    assert "/dns4/elsewhere.example/tcp/443/https" in endpoint
    assert f"the account {address(network, ME)} is empty" in empty
    network.chain.rpc("anvil_setBalance", address(network, ME), hex(10**17))
    network.chain.rpc("anvil_setNextBlockBaseFeePerGas", hex(10 * 10**9))
    network.chain.mine()
    words = f"the account {address(network, ME)} holds 0.1 coins, gas for 14 rounds, less than the 50 of [health] gas_"
    assert words in home.status()[1]["reasons"][1]
    network.chain.rpc("anvil_setNextBlockBaseFeePerGas", hex(600 * 10**9))
    network.chain.mine()
    assert "a block asks 600 gwei, above the cap of 500" in home.status()[1]["reasons"][2]


def test_verdicts_that_are_not_revealed(network: Network, voters: dict[int, Voter], home: Home) -> None:
    play(network, voters, R + 1)
    begin(network, R + 3)
    home.say(R + 3)
    facts = home.status()[1]
    assert any(f"the verdicts on round {R}, stage 1, were committed and not revealed in time" in r
               for r in facts["reasons"])  # fmt: skip


def test_a_probe_of_a_gateway_of_somebody_else(network: Network, home: Home, daemon: Daemon) -> None:
    home.say(R)
    code, facts = home.status("--probe", daemon.gateway_url)
    assert code == 1
    assert "127.0.0.1 did not give bafkrei" in facts["reached"], "the policy of these batches is no block"
    assert "not reached from outside" in facts["reasons"][0]
    home.write(probe_url="http://10.0.0.1:99")
    with only_one(home.path):
        assert sapo("status", "--home", home.path).returncode == 2, "10.0.0.1 is the node itself"


def _hang(connection: socket.socket, over: threading.Event) -> None:
    over.wait(60)


def _drip(connection: socket.socket, over: threading.Event) -> None:
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 100000\r\n\r\n")
    while not over.wait(0.5):
        connection.sendall(b" ")


def _late(connection: socket.socket, over: threading.Event) -> None:
    if not over.wait(10):
        connection.sendall(b"HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n")


@pytest.mark.parametrize("script", [_hang, _drip, _late])
def test_an_answer_within_ten_seconds_from_an_rpc_that_gives_none(home: Home, script: Script) -> None:
    with hostile(script) as rpc:
        home.write(rpc=f"http://127.0.0.1:{rpc.port}")
        home.say(R)
        started = time.monotonic()
        code, facts = home.status()
        assert time.monotonic() - started < SECONDS
    assert code == 1
    assert f"the chain's RPC at http://127.0.0.1:{rpc.port} did not answer" in facts["reasons"][0]
    assert facts["running"] is True, "what is known without the chain is told"


def test_an_answer_within_ten_seconds_from_an_rpc_that_is_slow_each_time(
    network: Network, voters: dict[int, Voter], home: Home
) -> None:
    """No answer takes too long; all of them together do."""
    play(network, voters, R + 3)

    def slow(calls: list[Any]) -> None:
        time.sleep(1.2)

    with faulty_rpc(network.chain.url, lambda method, params: None) as rpc:
        rpc.cap = slow
        home.write(rpc=rpc.url)
        home.say(R + 3)
        started = time.monotonic()
        code, facts = home.status()
        assert time.monotonic() - started < SECONDS
    assert code == 1
    assert any("did not answer everything within" in reason for reason in facts["reasons"])
    assert facts["reached"] == "not checked: the chain did not tell in time"


def test_an_answer_within_ten_seconds_from_an_rpc_that_fails_for_ever(network: Network, home: Home) -> None:
    with faulty_rpc(network.chain.url, lambda method, params: {"code": -32005, "message": "limit exceeded"}) as rpc:
        home.write(rpc=rpc.url)
        home.say(R)
        started = time.monotonic()
        code, facts = home.status()
        assert time.monotonic() - started < SECONDS
    assert code == 1
    assert "has no answer now" in facts["reasons"][0]


def test_a_process_that_is_dead_and_one_that_is_starting(network: Network, home: Home) -> None:
    ended = subprocess.Popen(["true"])
    ended.wait()
    home.say(R, pid=ended.pid)
    done = sapo("status", "--json", "--home", home.path)
    assert done.returncode == 1
    assert f"process {ended.pid}, which said so, is gone" in json.loads(done.stdout)["reasons"][0]
    code, facts = home.status()
    assert code == 1
    assert f"process {os.getpid()} holds the home and has said nothing yet" in facts["reasons"][0]
    home.say(R, phase="starting", phase_since=time.time() - 40)
    code, facts = home.status()
    assert code == 1
    assert "it is still starting (4" in facts["reasons"][0]


def test_a_home_whose_holder_noted_no_number(network: Network, home: Home) -> None:
    home.write(allow_private=True)
    home.say(R)
    held = lock_file(home.path / LOCK)
    assert held is not None
    try:
        done = sapo("status", "--json", "--home", home.path)
    finally:
        os.close(held)
    assert done.returncode == 0, done.stdout
