"""Reorganizations under running nodes: what the chain forgets is done again, for the chain as it is then."""

import os
import secrets
import signal
import sqlite3
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sapo_devnet.checkout import ROOT
from sapo_devnet.nodes import DevnetNode
from sapo_devnet.pocket import QUICK_STEPS, pocket_policy
from sapo_devnet.testkit.alive import wait_until
from sapo_devnet.testkit.anvil import anvil
from sapo_devnet.testkit.swarm import Swarm, sapo, swarm
from sapo_verifier.chain.events import pages
from sapo_verifier.facts import BatchInfo


@pytest.fixture(scope="module")
def net(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Swarm]:
    """Two nodes that audit and learn from each other; the tests play on with them, one after the other."""
    folder = tmp_path_factory.mktemp("reorg")
    with swarm(folder, pocket_policy(ROOT, steps=QUICK_STEPS)) as made:  # so that training changes it
        made.add(own_groups=2)
        made.add(own_groups=2)
        for node in made.nodes:
            node.start()
        made.begin()
        yield made


@pytest.fixture
def now(net: Swarm) -> int:
    """A round that both have played to its end, after one in which both took part."""
    now = net.clock.round() + 2
    net.play_to(now)
    net.serve_until(f"round {now} is played", lambda: all(node.done(now) for node in net.nodes))
    assert all(net.reader.batch_of(node.address, now) is not None for node in net.nodes), net.logs()
    return now


def reorg(net: Swarm, first: int) -> None:
    """Replaces the blocks from number `first` on by empty ones; their transactions are gone."""
    # Blocks of the same second, parent and content have the same hash; another miner makes them other blocks.
    net.chain.rpc("anvil_setCoinbase", f"0x{secrets.token_hex(20)}")
    net.chain.rpc("anvil_reorg", net.chain.block_number() - first + 1, [])


def mined_in(node: DevnetNode, key: str) -> int:
    """The block of a transaction, as the node's outbox knows it."""
    with sqlite3.connect(f"file:{node.home / 'outbox.sqlite'}?mode=ro", uri=True) as db:
        return int(db.execute("SELECT block FROM entry WHERE key = ?", (key,)).fetchone()[0])


def batch(net: Swarm, node: DevnetNode, round_: int) -> BatchInfo | None:
    index = net.reader.batch_of(node.address, round_)
    return None if index is None else net.reader.batch_at(index)


def policies(net: Swarm, node: DevnetNode, round_: int) -> int:
    """How many there are among those committed for the round and for the next one."""
    committed = [net.reader.policy_of(node.address, r) for r in (round_, round_ + 1)]
    return len({policy.digest for policy in committed if policy})


def report_of(node: DevnetNode, round_: int) -> dict[str, Any]:
    return next(report for report in node.rounds() if report["round"] == round_)


def assert_well(net: Swarm, rounds: list[int]) -> None:
    """Both published in these rounds, once each, and each found the other's batches to be right."""
    seen = Counter(
        (str(event.args["node"]), event.args["round"])
        for page in pages(net.reader, None)
        for event in page.events
        if event.name == "BatchSubmitted"
    )
    for node in net.nodes:
        assert [seen[node.address, round_] for round_ in rounds] == [1] * len(rounds), net.logs()
        assert "Traceback" not in (node.home / "node.log").read_text()
        for round_ in rounds:
            assert report_of(node, round_)["failures"] == [], report_of(node, round_)


def test_batches_that_another_history_has_under_an_index_are_looked_at_anew(net: Swarm, now: int) -> None:
    """Deeper than the window: what was drawn, checked and cached is gone, and its indices are given again.

    The first test, since Anvil does not keep the state of very old blocks.
    """
    assert net.reader.batch_count() == 2 * now
    reorg(net, net.reader.first_block_of(0) + 1)
    assert net.reader.batch_count() == 0
    net.play_to(now + 5)
    assert_well(net, [now + 3, now + 4])
    for node in net.nodes:
        assert report_of(node, now + 4)["external_checked"] > 0


def test_a_beacon_that_changes_makes_the_round_be_generated_anew(net: Swarm, now: int) -> None:
    """Both have trained since: the weights that were committed for the round are those of an older checkpoint."""
    for _ in range(6):
        if all(policies(net, node, now) == 2 for node in net.nodes):
            break
        now += 1
        net.play_to(now)
        net.serve_until(f"round {now} is played", lambda now=now: all(node.done(now) for node in net.nodes))
    assert any(policies(net, node, now) == 2 for node in net.nodes), "nobody has learned anything"
    beacon = net.reader.beacon(now)
    before = [batch(net, node, now) for node in net.nodes]
    trained = [report_of(node, now)["training"] for node in net.nodes]
    reorg(net, net.reader.first_block_of(now))
    assert net.reader.beacon(now) is None
    net.serve_until("both published", lambda: all(batch(net, node, now) for node in net.nodes))
    assert net.reader.beacon(now) not in (beacon, None)
    after = [batch(net, node, now) for node in net.nodes]
    assert all(
        a and b and a.manifest != b.manifest and a.policy == b.policy for a, b in zip(after, before, strict=True)
    )
    net.play_to(now + 3)
    assert_well(net, [now, now + 1, now + 2])
    for node, training in zip(net.nodes, trained, strict=True):
        log = (node.home / "node.log").read_text()
        assert f"round {now} has another beacon after a reorganization" in log
        assert report_of(node, now)["training"] == training, "it trains once in a round"
        assert report_of(node, now + 1)["external_checked"] > 0, "the other's new batch stands every check"


def test_a_submission_that_is_lost_is_sent_again(net: Swarm, now: int) -> None:
    beacon = net.reader.beacon(now)
    before = [batch(net, node, now) for node in net.nodes]
    reorg(net, min(mined_in(node, f"submit/{now}") for node in net.nodes))
    assert net.reader.beacon(now) == beacon
    assert not all(batch(net, node, now) for node in net.nodes)
    net.serve_until("both are there again", lambda: all(batch(net, node, now) for node in net.nodes))
    manifests = {made.manifest for made in before if made}
    assert {made.manifest for node in net.nodes if (made := batch(net, node, now))} == manifests
    net.play_to(now + 2)
    assert_well(net, [now, now + 1])


def test_a_commitment_that_is_lost_is_sent_again_in_time(net: Swarm, now: int) -> None:
    node = net.nodes[0]
    committed = net.reader.policy_of(node.address, now + 1)
    reorg(net, mined_in(node, f"commit/{now + 1}"))
    assert net.reader.policy_of(node.address, now + 1) is None
    net.serve_until("it is there again", lambda: net.reader.policy_of(node.address, now + 1) == committed)
    net.play_to(now + 2)
    assert_well(net, [now, now + 1])


def test_a_round_whose_commitment_is_lost_too_late_is_skipped_in_words(net: Swarm, now: int) -> None:
    node = net.nodes[0]
    assert node.process is not None
    os.kill(node.process.pid, signal.SIGSTOP)  # or else it would send it again at once
    reorg(net, mined_in(node, f"commit/{now + 1}"))
    net.chain.rpc("anvil_dropAllTransactions")
    net.skip_to(now + 1)
    os.kill(node.process.pid, signal.SIGCONT)
    net.play_to(now + 4)
    assert batch(net, node, now + 1) is None
    assert "no policy was committed for this round in time" in report_of(node, now + 1)["skipped"]
    assert batch(net, node, now + 3) is not None
    assert report_of(node, now + 3)["skipped"] == ""


def test_a_chain_that_is_replaced_by_an_empty_one_is_said_in_words(net: Swarm, now: int) -> None:
    """The last test: it takes the chain away."""
    node = net.nodes[0]
    net.chain.process.ask_to_stop()  # killed, npm's wrapper would leave Anvil itself behind
    assert net.chain.process.wait_stopped(time.monotonic() + 15)
    with anvil(port=int(net.chain.url.rpartition(":")[2])):
        wait_until("the node says so", lambda: "reset" in node.status().get("trouble", ""), seconds=60)
        log = node.home / "node.log"
        spoken, used = log.stat().st_size, cpu_seconds(node)
        time.sleep(4.0)
        assert cpu_seconds(node) - used < 2.0, "it waits, and does not spin"
        assert log.stat().st_size == spoken, "it has said so, and does not fill the disk with it"
        assert node.alive
        assert "Traceback" not in log.read_text()
        status = sapo("status", "--home", node.home)
        assert status.returncode == 1
        assert "reset" in status.stdout
        assert "deploy again, or point --deployment at the right file" in status.stdout


def cpu_seconds(node: DevnetNode) -> float:
    assert node.process is not None
    fields = Path(f"/proc/{node.process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
