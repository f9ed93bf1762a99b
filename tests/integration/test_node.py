"""The node's loop as real processes on a real chain: late, alone, killed, and without a chain for a while."""

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sapo_devnet.nodes import DevnetNode

from processes import descendants, remaining, wait_until
from relay import Relay
from sapo_verifier.chain.events import pages
from swarm import Swarm, sapo, swarm
from tiny_policy import tiny_folder


@pytest.fixture(scope="module")
def policy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random policy: it knows nothing, and takes a second to make."""
    return tiny_folder(tmp_path_factory.mktemp("policy") / "random")


@pytest.fixture
def net(tmp_path: Path, policy: Path) -> Iterator[Swarm]:
    with swarm(tmp_path, policy) as made:
        yield made


def report_of(node: DevnetNode, round_: int) -> dict[str, Any]:
    found = [report for report in node.rounds() if report["round"] == round_]
    assert found, f"{node.name} has no report of round {round_}"
    return found[0]


def lines_of(node: DevnetNode) -> int:
    return len((node.home / "rounds.jsonl").read_text().splitlines())


def signal_to(node: DevnetNode, number: int) -> None:
    assert node.process is not None
    os.kill(node.process.pid, number)


def events(net: Swarm, name: str) -> list[dict[str, Any]]:
    return [dict(event.args) for page in pages(net.reader, None) for event in page.events if event.name == name]


def test_a_late_node_skips_rounds_and_takes_part_again_beside_one_that_uses_nobody(net: Swarm) -> None:
    alone, late = net.add(external_groups=0), net.add(external_groups=2)
    for node in net.nodes:
        node.start()
    net.begin()
    net.play_to(2)
    assert net.reader.batch_of(late.address, 1) is not None
    signal_to(late, signal.SIGSTOP)
    net.play_to(4, waiting_for=[alone])
    signal_to(late, signal.SIGCONT)
    net.play_to(6)

    assert [net.reader.batch_of(late.address, r) is None for r in (1, 2, 3, 4, 5)] == [False, True, True, True, False]
    assert "no policy was committed" in report_of(late, 4)["skipped"]
    assert report_of(late, 5)["skipped"] == ""
    assert report_of(late, 5)["external_checked"] == report_of(late, 5)["external_drawn"] > 0
    assert all(net.reader.batch_of(alone.address, r) is not None for r in (1, 2, 3, 4, 5))
    for report in alone.rounds():
        assert report["external_drawn"] == report["external_missing"] == report["external_used"] == 0, report
        assert report["bytes_down"] == 0, "J = 0 fetches nothing"
    captured = [event["round"] for event in events(net, "BeaconCaptured")]
    assert captured == list(range(6)), "each beacon is captured once, whoever pokes"
    status = sapo("status", "--home", late.home, "--json")
    assert status.returncode == 0, status.stdout + status.stderr

    # A node that was killed says so.
    assert alone.process is not None
    alone.process.kill()
    dead = sapo("status", "--home", alone.home)
    assert dead.returncode == 1
    assert "unhealthy: the node is not running" in dead.stdout


def test_a_beacon_is_captured_by_a_node_that_saw_the_rounds_very_first_block(net: Swarm) -> None:
    node = net.add()
    node.start()
    net.begin()
    net.play_to(1)
    net.serve_until("round 1 is played", lambda: node.done(1))
    net.chain.mine(net.reader.first_block_of(2) - net.chain.block_number())
    # In the first block nobody can capture it yet; a node that asks too early must ask again.
    wait_until("the node has seen round 2", lambda: node.status()["round"] == 2, seconds=30)
    time.sleep(2.0)
    net.chain.mine(1)
    net.serve_until("round 2 is played", lambda: node.done(2))
    assert net.reader.batch_of(node.address, 2) is not None


def test_a_node_that_was_killed_when_done_does_nothing_twice(net: Swarm) -> None:
    node = net.add()
    node.start()
    net.begin()
    net.play_to(2)
    net.serve_until("round 2 is played", lambda: node.done(2))
    sent = _transactions(net, node)
    before, count = report_of(node, 2), lines_of(node)
    assert node.process is not None
    children = descendants(node.process.pid)
    node.process.kill()
    wait_until("the task worker ends with its node", lambda: not remaining(children), seconds=10)
    node.start()
    net.serve_until("round 2 is played again", lambda: node.ready() and node.done(2))
    time.sleep(0.5)
    assert _transactions(net, node) == sent, "playing a round twice sends nothing twice"
    assert lines_of(node) == count, "a round that was reported is not reported again"
    assert report_of(node, 2) == before
    net.play_to(4)
    assert [net.reader.batch_at(i).round for i in range(net.reader.batch_count())] == [1, 2, 3]
    assert report_of(node, 3)["bytes_up"] == 0, "nobody fetched anything: an old count must not be counted again"


def test_a_node_that_is_killed_after_its_submission_submits_no_other(net: Swarm) -> None:
    """Blocks are made only after the kill: the transaction is on its way while nobody watches."""
    node = net.add()
    node.start()
    net.begin()
    net.play_to(1)
    net.serve_until("the beacon is captured", lambda: net.reader.beacon(1) is not None)
    wait_until("its batch is sent", lambda: "submit/1: sent" in (node.home / "node.log").read_text(), seconds=60)
    assert node.process is not None
    node.process.kill()
    node.start()
    net.play_to(3)
    assert [net.reader.batch_at(i).round for i in range(net.reader.batch_count())] == [1, 2]
    assert (node.home / "node.log").read_text().count("submit/1: sent") == 1
    assert report_of(node, 1)["completions"] > 0
    assert report_of(node, 1)["skipped"] == ""


def test_a_round_that_ends_before_a_batch_is_mined_is_reported_as_it_ended(net: Swarm) -> None:
    """The submission is mined by the same step that ends the round."""
    node = net.add()
    node.start()
    net.begin()
    net.play_to(1)
    net.serve_until("the beacon is captured", lambda: net.reader.beacon(1) is not None)
    wait_until("it waits", lambda: node.status().get("phase") == "waiting for its transactions", seconds=60)
    net.skip_to(2)
    net.serve_until("round 2 is played", lambda: node.done(2))
    assert net.reader.batch_of(node.address, 1) is not None
    assert report_of(node, 1)["completions"] > 0, "a batch that is on chain has a report"


def test_a_chain_that_goes_away_for_a_while_is_waited_for(net: Swarm) -> None:
    with Relay(net.chain.url) as rpc:
        node = net.add(rpc=rpc.url)
        node.start()
        net.begin()
        net.play_to(1)
        rpc.cut()
        wait_until(
            "the node says that the chain is gone",
            lambda: node.status().get("phase") == "waiting for the chain",
            seconds=60,
        )
        status = sapo("status", "--home", node.home)
        assert status.returncode == 1
        assert "unhealthy:" in status.stdout
        assert rpc.url.removeprefix("http://") in status.stdout
        rpc.mend()
        net.serve_until("round 1 is played", lambda: node.done(1))
        net.play_to(3)
        assert all(net.reader.batch_of(node.address, r) is not None for r in (1, 2))
        assert node.status()["trouble"] == ""
        assert sapo("status", "--home", node.home).returncode == 0


def _transactions(net: Swarm, node: DevnetNode) -> int:
    return int(net.chain.rpc("eth_getTransactionCount", node.address, "pending"), 16)
