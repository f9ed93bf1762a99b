"""From a home to a registered node with its own daemon: everything that can be missing, told in words."""

import re
import shutil
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sapo_devnet.nodes import SAPO
from sapo_devnet.processes import Process
from sapo_devnet.testkit.alive import descendants, remaining, users_of, wait_until
from sapo_devnet.testkit.swarm import Swarm, sapo, swarm
from sapo_devnet.testkit.tiny_policy import tiny_folder
from sapo_verifier import keystore
from sapo_verifier.chain.reader import NodeState


@pytest.fixture(scope="module")
def net(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Swarm]:
    """A network before round 0, without any node."""
    folder = tmp_path_factory.mktemp("network")
    policy = tiny_folder(folder / "policy")
    with swarm(folder, policy) as made:
        yield made


class Home:
    """A node's home whose daemon is the embedded one, on ports that nobody uses."""

    def __init__(self, net: Swarm, folder: Path, *options: Any, rpc: str = "") -> None:
        self.net = net
        self.path = folder / "home"
        self.password = folder / "password"
        keystore.write_random_password(self.password)
        api, gateway = (f"/ip4/127.0.0.1/tcp/{_free_port()}/http" for _ in range(2))
        words = ["init", "--home", self.path, "--password-file", self.password, "--light-key", "--allow-private"]
        words += ["--deployment", net.folder / "deployment.json", "--rpc", rpc or net.chain.url, "--policy", net.policy]
        words += ["--ipfs-api", api, "--ipfs-gateway", gateway, "--poll-seconds", "0.1", "--threads", "1"]
        made = sapo(*words, *options)
        assert made.returncode == 0, made.stderr
        self.address = made.stdout.strip()
        self.log = self.path / "node.log"

    def start(self) -> Process:
        process = Process("node", [*SAPO, *map(str, self.words("--register"))], self.log)
        self.net.others.append(process)
        return process

    def words(self, *more: str) -> list[Any]:
        return ["run", "--home", self.path, "--password-file", self.password, *more]

    def run(self, *more: str, status: int) -> "subprocess.CompletedProcess[str]":
        """`sapo run` where it is expected to refuse; nothing of it may be left."""
        done = sapo(*self.words(*more))
        assert done.returncode == status, done.stderr
        assert not users_of(self.path)
        return done

    def said(self, words: str) -> bool:
        return words in self.log.read_text()


@pytest.fixture
def home(net: Swarm, tmp_path: Path) -> Home:
    return Home(net, tmp_path)


def test_an_unregistered_node_is_told_what_to_do(home: Home) -> None:
    words = home.run(status=1).stderr
    assert f"node {home.address} is not registered" in words
    assert "--register" in words
    asked = re.search(r"Send it 1\.(\d+) coins: 1 for the bond and 0\.\1 for the gas of 100 rounds", words)
    assert asked, words


def test_registering_waits_for_coins_and_the_daemon_ends_with_its_node(net: Swarm, home: Home) -> None:
    """One life: unfunded, funded, registered, a second one refused, stopped, started again, killed."""
    node = home.start()
    wait_until("the node asks for coins", lambda: home.said(f"the account {home.address} holds 0 coins"), seconds=60)
    assert net.reader.node_of(home.address).state is NodeState.NONE
    net.chain.fund(home.address)
    net.serve_until("it is registered", lambda: home.said("register is mined"))
    info = net.reader.node_of(home.address)
    assert (info.state, info.active, info.operator) == (NodeState.REGISTERED, True, home.address)
    wait_until("it plays", lambda: _runs(home), seconds=60)
    assert home.said("starting the embedded one")

    second = sapo(*home.words())
    assert second.returncode == 3
    assert "another process runs the node" in second.stderr

    # A round has not begun; stopping now is clean, and the daemon stops with the node.
    children = descendants(node.pid)
    assert len(children) >= 2, "a daemon and a task worker"
    node.ask_to_stop()
    wait_until("it has stopped", lambda: node.exit_status() is not None, seconds=20)
    assert node.exit_status() == 0, home.log.read_text()
    assert not remaining(children)
    assert not users_of(home.path)
    assert re.search(rf"loading the base pocket from {re.escape(str(net.policy))}\n", home.log.read_text())
    assert re.search(r"loaded it onto cpu, with the engine torch: [0-9.]+ s\n", home.log.read_text())
    assert home.said("SIGTERM: the node stops")
    ended = re.search(r"the node has stopped, ([0-9.]+) s after it was asked to", home.log.read_text())
    assert ended
    assert float(ended[1]) < 2, "under a second where the machine has nothing else to do"

    node = home.start()
    wait_until("it plays", lambda: len(descendants(node.pid)) >= 2 and _runs(home), seconds=60)
    children = descendants(node.pid)
    node.kill()
    wait_until("daemon and worker end after kill -9", lambda: not remaining(children), seconds=10)
    assert not users_of(home.path)
    assert home.log.read_text().count("register/0: sent") == 1
    assert not home.said("Traceback")


def test_a_node_that_is_stopped_while_it_waits_for_coins_ends_cleanly(home: Home) -> None:
    node = home.start()
    wait_until("the node asks for coins", lambda: home.said(f"the account {home.address} holds 0 coins"), seconds=60)
    node.ask_to_stop()
    wait_until("it has stopped", lambda: node.exit_status() is not None, seconds=20)
    assert node.exit_status() == 0
    assert not home.said("is mined"), "nothing was"


def test_a_base_with_one_byte_changed_is_refused(net: Swarm, tmp_path: Path) -> None:
    """By `sapo init`, and by `sapo run` where it changed since."""
    changed = tmp_path / "changed"
    shutil.copytree(net.policy, changed)
    home = Home(net, tmp_path, "--policy", changed)
    data = bytearray((changed / "model.safetensors").read_bytes())
    data[len(data) // 2] ^= 1
    (changed / "model.safetensors").write_bytes(data)
    words = home.run("--register", status=3).stderr
    assert str(changed) in words
    (tmp_path / "another").mkdir()
    with pytest.raises(AssertionError, match="holds no base of the network's spec, which has: pocket"):
        Home(net, tmp_path / "another", "--policy", changed)


def test_an_rpc_that_does_not_answer_at_the_start(net: Swarm, tmp_path: Path) -> None:
    words = Home(net, tmp_path, rpc="http://127.0.0.1:9").run(status=3).stderr
    assert "127.0.0.1:9" in words


def test_an_operator_of_nobody_is_refused(net: Swarm, tmp_path: Path) -> None:
    owner = "0x" + "77" * 20
    words = Home(net, tmp_path, "--owner", owner).run("--register", status=2).stderr
    assert f"only the owner {owner} can register the node" in words


def test_a_port_that_is_taken_by_something_else(net: Swarm, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        gateway = f"/ip4/127.0.0.1/tcp/{taken.getsockname()[1]}/http"
        words = Home(net, tmp_path, "--ipfs-gateway", gateway).run("--register", status=3).stderr
    assert "cannot listen on 127.0.0.1" in words
    assert "the embedded IPFS daemon did not start" in words


def _runs(home: Home) -> bool:
    status = sapo("status", "--home", home.path, "--json").stdout
    return '"phase": "waiting for the next round"' in status and '"running": true' in status


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])
