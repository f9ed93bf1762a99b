"""Real nodes in the middle of a round, with verdicts that are committed and a policy that is promised: one moves and
loses nothing, one comes back from a backup and loses what was said."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sapo_client.state.home import KEYSTORE
from sapo_devnet.nodes import SAPO, DevnetNode, daemon_addresses
from sapo_devnet.processes import Process, stop_all
from sapo_devnet.testkit.alive import wait_until
from sapo_devnet.testkit.swarm import Swarm, sapo, swarm
from sapo_devnet.testkit.tiny_policy import tiny_folder
from sapo_verifier.chain.audits import AuditsReader, BallotState, BatchState
from sapo_verifier.chain.errors import coins
from sapo_verifier.chain.events import pages
from sapo_verifier.schedule import FINAL_AFTER

COMMITTED, REVEALED = BallotState.COMMITTED, BallotState.REVEALED


@pytest.fixture(scope="module")
def net(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Swarm]:
    """Three nodes that audit each other: two are enough to accept a batch; the tests play on with them."""
    folder = tmp_path_factory.mktemp("nodes")
    with swarm(folder, tiny_folder(folder / "random")) as made:
        for _ in range(3):
            made.add().start()
        made.begin()
        made.play_to(2)
        yield made


def stop(net: Swarm, number: int) -> None:
    """In the middle of a round, done with it: as soon as it has committed for the next one."""
    node, now = net.nodes[number], net.clock.round()
    net.serve_until("it is done with the round", lambda: node.done(now))
    assert node.process is not None
    node.process.ask_to_stop()
    wait_until("it has stopped", lambda: not node.alive, seconds=60)
    assert node.process.exit_status() == 0


def new_home(net: Swarm, number: int, name: str) -> list[str]:
    """The node's next home, with a daemon of its own that runs already; the settings that differ there."""
    node = net.nodes[number]
    stop_all([node.daemon])
    node.home = net.folder / name
    node.home.mkdir()
    node.daemon = node._start_daemon("127.0.0.1:0", "127.0.0.1:0")
    node.api, node.gateway = daemon_addresses(node.daemon)
    return ["--set", f"ipfs.api={node.api}", "--set", f"ipfs.gateway={node.gateway}"]


def play_on(net: Swarm, rounds: int) -> None:
    for _ in range(rounds):
        net.play_to(net.clock.round() + 1)


def fines(net: Swarm, node: DevnetNode) -> list[Any]:
    events = [event for page in pages(net.reader, None) for event in page.events]
    return [event.args for event in events if event.name == "NodeFined" and event.args["node"] == node.address]


def fate(net: Swarm, node: DevnetNode, *rounds: int) -> list[BatchState]:
    """How its batches of these rounds fare."""
    indices = [net.reader.batch_of(node.address, round_) for round_ in rounds]
    return [outcome.state for outcome in AuditsReader(net.reader).outcomes_of([i for i in indices if i is not None])]


def test_a_node_moves_in_the_middle_of_a_round_and_loses_nothing(net: Swarm, tmp_path: Path) -> None:
    node, audits, file = net.nodes[0], AuditsReader(net.reader), tmp_path / "node.tar"
    stop(net, 0)
    now, old = net.clock.round(), node.home
    assert audits.verdicts_of(node.address, now - 1, 1)[0] is COMMITTED
    assert net.reader.policy_of(node.address, now + 1) is not None
    left = sapo("move", "export", file, "--home", old)
    assert left.returncode == 0, left.stderr
    assert "are not in" not in left.stderr, "all owed blocks are in it"
    assert sapo("run", "--home", old, "--password-file", node._password).returncode == 3

    changes = new_home(net, 0, "moved")
    importing = Process(
        "import", [*SAPO, "move", "import", str(file), "--home", str(node.home), *changes], tmp_path / "log"
    )
    try:
        wait_until("it waits", lambda: "waiting until block" in importing.last_words(), seconds=60)
        assert not (node.home / KEYSTORE).exists()
        net.chain.mine(12)
        wait_until("it is done", lambda: importing.exit_status() is not None, seconds=60)
    finally:
        stop_all([importing])
    assert importing.exit_status() == 0, importing.last_words()
    assert net.clock.round() == now, "still the same round"

    node.start()
    net.serve_until("it is ready", node.ready)
    play_on(net, 2)
    said = (node.home / "node.log").read_text()
    assert "watches the key" not in said
    assert f"resumed from the checkpoint of round {now}" in said
    assert audits.verdicts_of(node.address, now - 1, 1)[0] is REVEALED
    assert net.reader.batch_of(node.address, now + 1) is not None
    assert net.reader.node_of(node.address).endpoint == node.gateway
    undone = sapo("move", "undo", "--home", old)
    assert (undone.returncode, "sent what this home does not know" in undone.stderr) == (3, True), undone.stderr
    play_on(net, 2)
    assert fate(net, node, now + 1) == [BatchState.STANDING], "by all who could, with its own blocks"


def test_a_node_comes_back_from_a_backup_and_loses_what_was_said(net: Swarm, tmp_path: Path) -> None:
    node, audits = net.nodes[1], AuditsReader(net.reader)
    stop(net, 1)
    now, old, backup = net.clock.round(), node.home, tmp_path / "backup"
    backup.mkdir()
    for name in ("node.toml", KEYSTORE):
        shutil.copy(old / name, backup / name)
    shutil.copy(net.folder / "deployment.json", backup)
    changes = new_home(net, 1, "restored")
    words = ["restore", "--from", backup, "--home", node.home, *changes]
    dry = sapo(*words, "--dry-run")
    assert dry.returncode == 0, dry.stderr
    terms = audits.terms()
    assert f"the verdicts on round {now - 1} (stage 1) are committed" in dry.stdout
    assert f"a policy is committed for round {now + 1}, and its weights are lost" in dry.stdout
    assert not (node.home / KEYSTORE).exists()
    bond = net.reader.node_of(node.address).bond
    done = sapo(*words)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(dry.stdout.rsplit("nothing was made", 1)[0])

    node.start()
    play_on(net, 5)
    said = (node.home / "node.log").read_text()
    assert "nothing else used the key" in said
    taken = sum(fine["paid"] + fine["burned"] for fine in fines(net, node))
    lost = done.stdout.split("fees in all: ")[1].split(" ")[0]
    assert taken == terms.missed_reveal_fee + terms.missed_batch_fee
    assert coins(taken) == lost
    assert net.reader.node_of(node.address).bond == bond, "topped up again"
    assert net.reader.batch_of(node.address, net.clock.round() - 1) is not None, "it plays again"

    # And the one that moved: nothing of before, of then or of after is lost.
    moved, final = net.nodes[0], net.clock.round() - FINAL_AFTER
    assert fines(net, moved) == []
    assert fate(net, moved, *range(1, final + 1)) == [BatchState.ACCEPTED] * final
    pay = audits.payouts_of(moved.address, range(1, final))
    assert all(each.claimed and each.amount for each in pay)
