"""From a home to a registered node with its own daemon: everything that can be missing, told in words."""

import os
import re
import shutil
import signal
import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from sapo_client.node import daemon
from sapo_client.state.report import StatusFile
from sapo_client.state.settings import IpfsSettings
from sapo_devnet.nodes import SAPO
from sapo_devnet.processes import Process
from sapo_devnet.testkit.alive import descendants, remaining, users_of, wait_until
from sapo_devnet.testkit.hostile_http import answer, hostile
from sapo_devnet.testkit.ipfs_daemon import ipfs_daemon
from sapo_devnet.testkit.swarm import Swarm, sapo, swarm
from sapo_devnet.testkit.tiny_policy import tiny_folder
from sapo_verifier import keystore
from sapo_verifier.chain.reader import NodeState
from sapo_verifier.errors import UnableError
from sapo_verifier.ipfs import DaemonAway, StoreFailed


@pytest.fixture(scope="module")
def net(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Swarm]:
    """A network before round 0, without any node."""
    folder = tmp_path_factory.mktemp("network")
    policy = tiny_folder(folder / "policy")
    with swarm(folder, policy) as made:
        yield made


class Home:
    """A node's home whose daemon is the embedded one, on ports that it finds by itself."""

    def __init__(self, net: Swarm, folder: Path, *options: Any, rpc: str = "") -> None:
        self.net = net
        self.path = folder / "home"
        self.password = folder / "password"
        keystore.write_random_password(self.password)
        words = ["init", "--home", self.path, "--password-file", self.password, "--light-key", "--allow-private"]
        words += ["--deployment", net.folder / "deployment.json", "--rpc", rpc or net.chain.url, "--policy", net.policy]
        words += ["--poll-seconds", "0.1", "--threads", "1"]
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
    assert home.said("starting the embedded IPFS daemon")

    def serves() -> set[int]:
        return {pid for pid, command in users_of(home.path).items() if "ipfs.daemon.serve" in command}

    (daemon_pid,) = serves()
    os.kill(daemon_pid, signal.SIGKILL)
    wait_until("the daemon is started again", lambda: serves() - {daemon_pid}, seconds=60)

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
        port = taken.getsockname()[1]
        gateway = f"/ip4/127.0.0.1/tcp/{port}/http"
        words = Home(net, tmp_path, "--ipfs-gateway", gateway).run("--register", status=3).stderr
    assert f"the embedded IPFS daemon's gateway cannot listen on 127.0.0.1:{port}" in words
    assert "set [ipfs] gateway in node.toml to a free port" in words


def test_a_foreign_daemon_is_not_taken_for_ones_own(net: Swarm, tmp_path: Path) -> None:
    with ipfs_daemon(tmp_path) as foreign:
        words = Home(net, tmp_path, "--ipfs-api", foreign.api).run("--register", status=3).stderr
    assert f"at {foreign.api} an IPFS daemon answers already" in words
    assert '[ipfs] daemon = "external"' in words
    assert re.search(r'\[ipfs\] api = "/ip4/127.0.0.1/tcp/\d+/http" and gateway = "/ip4/127.0.0.1/tcp/\d+/http"', words)


def test_blocks_that_another_daemon_has_are_left_to_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that a killed node left is given a moment; one that stays is told."""
    monkeypatch.setattr(daemon, "LEFT_SECONDS", 0.1)
    with (
        ipfs_daemon(tmp_path) as other,
        pytest.raises(UnableError, match=rf"process {other.process.pid}\) has the blocks"),
    ):
        daemon._refuse_repo(other.repo)
    daemon._refuse_repo(other.repo)


def test_an_external_daemon_that_stays_away_or_refuses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Patience has the end that the settings say; a refusal is none of its business."""
    monkeypatch.setattr(daemon, "FIRST_WAIT", 0.01)
    status, stop = StatusFile(tmp_path), threading.Event()
    away = IpfsSettings(daemon="external", api="/ip4/127.0.0.1/tcp/1/http", patience_minutes=0.001)
    with ExitStack() as stack, pytest.raises(DaemonAway, match=r"does not answer.*\[ipfs\] patience_minutes"):
        daemon.open_store(tmp_path, away, status, stop, stack)
    assert status.get("phase") == daemon.PHASE
    with hostile(answer(b"403 - Forbidden", status="403 Forbidden")) as kubo, ExitStack() as stack:
        closed = IpfsSettings(daemon="external", api=kubo.endpoint())
        with pytest.raises(StoreFailed, match=r"\[ipfs\] api_auth_file"):
            daemon.open_store(tmp_path, closed, status, stop, stack)
    stop.set()
    with ExitStack() as stack:
        daemon.open_store(tmp_path, away, status, stop, stack)


def _runs(home: Home) -> bool:
    status = sapo("status", "--home", home.path, "--json").stdout
    return '"phase": "waiting for the next round"' in status and '"running": true' in status
