"""One node per key, with real nodes: a second home with the same key, a home without its outbox, and plain restarts."""

import json
import shutil
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from sapo_client.node.alone import PHASE
from sapo_devnet.nodes import DevnetNode
from sapo_devnet.testkit.alive import wait_until
from sapo_devnet.testkit.swarm import Swarm, sapo, swarm
from sapo_devnet.testkit.tiny_policy import tiny_folder

FOREIGN = "a second program uses this node's key"
WAITS = "so this node sends nothing"


@pytest.fixture(scope="module")
def net(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Swarm]:
    """Two nodes that audit each other, from round 2 on; the tests play on with them, one after the other."""
    folder = tmp_path_factory.mktemp("nodes")
    with swarm(folder, tiny_folder(folder / "random")) as made:
        for _ in range(2):
            made.add().start()
        made.begin()
        made.play_to(2)
        yield made


def said(node: DevnetNode) -> str:
    return (node.home / "node.log").read_text()


def nonce(net: Swarm, node: DevnetNode) -> int:
    return int(net.chain.rpc("eth_getTransactionCount", node.address, "latest"), 16)


def signed(node: DevnetNode) -> int:
    with sqlite3.connect(f"file:{node.home / 'outbox.sqlite'}?mode=ro", uri=True) as db:
        return int(db.execute("SELECT COUNT(*) FROM attempt").fetchone()[0])


def stop(node: DevnetNode) -> None:
    assert node.process is not None
    node.process.ask_to_stop()
    wait_until("it has stopped", lambda: not node.alive, seconds=30)
    assert node.process.exit_status() == 0, said(node)


def play_on(net: Swarm, rounds: int) -> int:
    """So many more rounds; the one that it is then."""
    now = net.clock.round() + rounds
    net.play_to(now)
    return now


def test_a_second_node_with_the_key_refuses_and_sends_nothing(net: Swarm) -> None:
    first, other = net.nodes[:2]
    twin = net.add_twin(first)
    endpoint = net.reader.node_of(first.address).endpoint
    twin.start()
    net.serve_until("it watches", lambda: twin.status().get("phase") == PHASE)
    before = net.clock.round()
    for _ in range(4):
        if twin.alive:
            play_on(net, 1)
    net.serve_until("it has refused", lambda: not twin.alive)
    assert twin.process is not None
    assert twin.process.exit_status() == 3
    assert f"sapo: {FOREIGN}" in said(twin)
    assert "This node has sent nothing" in said(twin)
    assert signed(twin) == 0
    assert net.reader.node_of(first.address).endpoint == endpoint
    now = play_on(net, 1)
    assert nonce(net, first) == signed(first), "all that the key sent is the first one's"
    for node in (first, other):
        assert all(net.reader.batch_of(node.address, round_) is not None for round_ in range(before, now))
        assert node.alive
        assert "program" not in said(node)


def test_restarts_of_whole_homes_wait_for_nothing(net: Swarm) -> None:
    first = net.nodes[0]
    waited = said(first).count(WAITS)
    stop(first)
    first.start()
    now = play_on(net, 2)
    assert first.process is not None
    first.process.kill()
    first.start()
    play_on(net, 3)
    assert said(first).count(WAITS) == waited
    assert all(net.reader.batch_of(first.address, round_) is not None for round_ in (now, now + 2))


def test_a_home_without_its_outbox_watches_and_sends_nothing(net: Swarm, tmp_path: Path) -> None:
    """That it goes on after that: test_move.py, with a node that comes back from a backup."""
    first = net.nodes[0]
    waited = said(first).count(WAITS)
    play_on(net, 1)
    stop(first)
    home = tmp_path / "saved"
    shutil.copytree(first.home, home, ignore=shutil.ignore_patterns("ipfs"))
    for file in first.home.glob("outbox.sqlite*"):
        file.unlink()
    first.start()
    net.serve_until("it watches", lambda: first.status().get("phase") == PHASE)
    before = nonce(net, first)
    play_on(net, 1)
    assert nonce(net, first) == before, "it sends nothing"

    stop(first)  # at once, also while it watches
    for file in first.home.glob("outbox.sqlite*"):
        file.unlink()
    for file in home.glob("outbox.sqlite*"):  # with what SQLite's journal holds
        shutil.copy(file, first.home / file.name)
    first.start()
    net.serve_until("it plays", lambda: first.status().get("done_round") is not None)
    assert said(first).count(WAITS) == waited + 1, "with the outbox there is nothing that it does not know"


def test_a_node_that_knows_does_not_wait(net: Swarm) -> None:
    first = net.nodes[0]
    stop(first)
    for file in first.home.glob("outbox.sqlite*"):
        file.unlink()
    waited = said(first).count(WAITS)
    first.start("--i-know")
    now = play_on(net, 4)
    assert said(first).count(WAITS) == waited
    assert FOREIGN not in said(first)
    assert net.reader.batch_of(first.address, now - 1) is not None


def test_two_nodes_that_were_told_to_go_on_find_each_other(net: Swarm) -> None:
    """The last test: it ends one of them at least."""
    first, other = net.nodes[:2]
    twin = net.add_twin(first)
    twin.start("--i-know")
    net.serve_until("it plays", lambda: twin.status().get("done_round", -2) >= -1 and twin.status()["phase"] != PHASE)
    began = net.clock.round()
    for _ in range(3):
        if first.alive and twin.alive:
            play_on(net, 1)
    net.serve_until("one has found the other", lambda: not (first.alive and twin.alive))
    assert net.clock.round() <= began + 3
    ended = [node for node in (first, twin) if not node.alive]
    for node in ended:
        assert node.process is not None
        assert node.process.exit_status() == 3, said(node)
        assert f"sapo: {FOREIGN}" in said(node)
        status = sapo("status", "--home", node.home, "--json")
        assert json.loads(status.stdout)["phase"] == "stopped"
        assert FOREIGN in json.loads(status.stdout)["trouble"]
    for node in (first, twin):
        assert "reorganization" not in said(node)
        assert "another history" not in said(node)
    assert other.alive
    assert "program" not in said(other)
