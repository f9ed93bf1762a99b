"""The node's loop as real processes on a real chain: late, alone, killed, and without a chain for a while."""

import json
import os
import re
import signal
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from sapo_client.state.report import RoundReport
from sapo_devnet.nodes import DevnetNode
from sapo_devnet.testkit.alive import descendants, remaining, wait_until
from sapo_devnet.testkit.faulty_rpc import faulty_rpc
from sapo_devnet.testkit.relay import Relay
from sapo_devnet.testkit.swarm import Swarm, sapo, swarm
from sapo_devnet.testkit.tiny_policy import tiny_folder
from sapo_verifier.chain.contracts import Call
from sapo_verifier.chain.events import pages


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


def reported(node: DevnetNode) -> list[int]:
    """The rounds of the lines in rounds.jsonl, as they stand there."""
    return [json.loads(line)["round"] for line in (node.home / "rounds.jsonl").read_text().splitlines()]


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
    assert reported(late)[:6] == [0, 1, 2, 3, 4, 5], "each exactly once"
    assert report_of(late, 2)["skipped"] != ""
    assert "busy with round" in report_of(late, 3)["skipped"]
    assert "or its process or machine stood still" in report_of(late, 3)["skipped"]
    assert report_of(late, 5)["external_checked"] == report_of(late, 5)["external_drawn"] > 0
    assert all(net.reader.batch_of(alone.address, r) is not None for r in (1, 2, 3, 4, 5))
    for report in alone.rounds():
        assert report["external_missing"] == report["external_used"] == 0, "J = 0 audits, and learns from nobody"
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


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory, policy: Path) -> Iterator[Swarm]:
    """One node that several tests play on with, one after the other."""
    with swarm(tmp_path_factory.mktemp("shared"), policy) as made:
        made.add().start()
        made.begin()
        yield made


@pytest.fixture
def now(shared: Swarm) -> int:
    """A round that the node has played to its end, after one in which it took part."""
    now = shared.clock.round() + 2
    shared.play_to(now)
    shared.serve_until(f"round {now} is played", lambda: shared.nodes[0].done(now))
    return now


def test_a_status_is_renewed_while_the_node_waits_for_the_next_round(shared: Swarm, now: int) -> None:
    node = shared.nodes[0]
    before = node.status()["updated"]
    wait_until("it is written anew", lambda: node.status()["updated"] > before, seconds=60)
    assert node.status()["phase"] == "waiting for the next round"
    wait_until("the node gets on", lambda: node.status()["progressed"] > before, seconds=60)


def test_a_beacon_is_captured_by_a_node_that_saw_the_rounds_very_first_block(shared: Swarm, now: int) -> None:
    node = shared.nodes[0]
    shared.chain.mine(shared.reader.first_block_of(now + 1) - shared.chain.block_number())
    # In the first block nobody can capture it yet; a node that asks too early must ask again.
    wait_until("the node has seen the round", lambda: node.status()["round"] == now + 1, seconds=30)
    time.sleep(1.0)
    shared.chain.mine(1)
    shared.serve_until("it is played", lambda: node.done(now + 1))
    assert shared.reader.batch_of(node.address, now + 1) is not None


def test_a_node_that_was_killed_when_done_does_nothing_twice(shared: Swarm, now: int) -> None:
    node = shared.nodes[0]
    sent, batches = _transactions(shared, node), shared.reader.batch_count()
    before, count = report_of(node, now), lines_of(node)
    assert node.process is not None
    children = descendants(node.process.pid)
    node.process.kill()
    wait_until("the task worker ends with its node", lambda: not remaining(children), seconds=10)
    node.start()
    shared.serve_until("it is played again", lambda: node.ready() and node.done(now))
    time.sleep(0.5)
    assert _transactions(shared, node) == sent, "playing a round twice sends nothing twice"
    assert lines_of(node) == count, "a round that was reported is not reported again"
    assert report_of(node, now) == before
    shared.play_to(now + 2)
    assert shared.reader.batch_count() == batches + 1
    assert report_of(node, now + 1)["bytes_up"] == 0, "nobody fetched anything: an old count is not counted again"


def test_a_node_that_is_killed_after_its_submission_submits_no_other(shared: Swarm, now: int) -> None:
    """Blocks are made only after the kill: the transaction is on its way while nobody watches."""
    node, round_ = shared.nodes[0], now + 1
    _play_until_sent(shared, round_)
    assert node.process is not None
    node.process.kill()
    node.start()
    shared.play_to(round_ + 2)
    assert len(shared.reader.batches_of(round_)) == len(shared.reader.batches_of(round_ + 1)) == 1
    assert (node.home / "node.log").read_text().count(f"submit/{round_}: sent") == 1
    assert report_of(node, round_)["completions"] > 0
    assert report_of(node, round_)["skipped"] == ""


def test_a_round_that_ends_before_a_batch_is_mined_is_reported_as_it_ended(shared: Swarm, now: int) -> None:
    """The submission is mined by the same step that ends the round."""
    node, round_ = shared.nodes[0], now + 1
    _play_until_sent(shared, round_)
    shared.skip_to(round_ + 1)
    shared.serve_until("the next round is played", lambda: node.done(round_ + 1))
    assert shared.reader.batch_of(node.address, round_) is not None
    assert report_of(node, round_)["completions"] > 0, "a batch that is on chain has a report"
    assert report_of(node, round_)["skipped"] == ""


def test_a_batch_that_never_got_on_chain_is_not_reported_as_published(shared: Swarm, now: int) -> None:
    """Its transactions are lost, and the round ends."""
    node, round_ = shared.nodes[0], now + 1
    _play_until_sent(shared, round_)
    signal_to(node, signal.SIGSTOP)  # or else it would send them again at once
    shared.chain.rpc("anvil_dropAllTransactions")
    shared.skip_to(round_ + 1)
    signal_to(node, signal.SIGCONT)
    shared.play_to(round_ + 4)
    assert [shared.reader.batch_of(node.address, r) is None for r in (round_, round_ + 3)] == [True, False]
    assert "the batch did not get on chain" in report_of(node, round_)["skipped"]
    assert report_of(node, round_ + 3)["skipped"] == ""


def _play_until_sent(net: Swarm, round_: int) -> None:
    """Into the round, until the node waits for its submission; no block is made after the beacon's."""
    node = net.nodes[0]
    net.play_to(round_)
    net.serve_until("the beacon is captured", lambda: net.reader.beacon(round_) is not None)
    wait_until(
        "its batch is sent",
        lambda: node.status()["round"] == round_ and node.status()["phase"] == "waiting for its transactions",
        seconds=60,
    )


def test_a_node_forgets_what_is_old_and_logs_to_its_file(net: Swarm) -> None:
    """A home of long ago: reports and transactions of before round 0 stand in for those of thousands of rounds."""
    node = net.add()
    settings = (node.home / "node.toml").read_text()
    settings = settings.replace('format = "text"', 'format = "json"\nfile = "run.log"')
    (node.home / "node.toml").write_text(settings.replace("rounds = 2000", "rounds = 100"))
    for old in range(-300, 0):
        RoundReport(round=old).append_to(node.home)
    node.start()
    net.begin()
    net.play_to(1)
    reports = [report["round"] for report in node.rounds()]
    assert reports[0] >= -100
    assert reports[-2:] == [-1, 0]
    assert node.process is not None
    node.process.kill()
    with closing(sqlite3.connect(node.home / "outbox.sqlite")) as db, db:
        columns = "(key, call, value, status, nonce, block, confirmed)"
        call = Call("rounds", "poke").to_json()
        rows = [(f"commit/{old}", call, "0", "mined", old, 20 * old, 1) for old in range(-3000, -1000)]
        db.executemany(f"INSERT INTO entry {columns} VALUES (?, ?, ?, ?, ?, ?, ?)", rows)  # noqa: S608
    node.start()
    net.serve_until("it is ready again", node.ready)
    net.play_to(4)
    outbox = {path.name: path for path in node.home.iterdir()}["outbox.sqlite"]
    with closing(sqlite3.connect(f"{outbox.as_uri()}?mode=ro", uri=True)) as db:
        keys = {row[0] for row in db.execute("SELECT key FROM entry")}
    assert not [key for key in keys if key.startswith("commit/-")]
    assert keys >= {"register/0", "commit/1", "commit/4", "submit/3"}
    assert all(net.reader.batch_of(node.address, round_) is not None for round_ in (1, 3)), net.logs()
    lines = [json.loads(line) for line in (node.home / "run.log").read_text().splitlines()]
    rounds = [line for line in lines if line["message"].startswith("round=")]
    assert {line["round"] for line in rounds} >= {0, 1, 3}
    assert {(type(line["reward"]), type(line["seconds_training"])) for line in rounds} == {(int, float)}
    assert ("register/0", "mined") in {(line.get("key"), line.get("status")) for line in lines}
    assert "level=" not in (node.home / "node.log").read_text(), "standard error is for what ends it"
    assert (node.home / "run.log").stat().st_mode & 0o777 == 0o600


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


def test_rounds_that_pass_while_the_chain_is_away_are_reported_with_the_reason(net: Swarm) -> None:
    with Relay(net.chain.url) as rpc:
        node = net.add(rpc=rpc.url)
        node.start()
        net.begin()
        net.play_to(2)
        net.serve_until("round 2 is played", lambda: node.done(2))
        rpc.cut()
        wait_until("the chain is gone", lambda: node.status().get("phase") == "waiting for the chain", seconds=60)
        net.skip_to(5)
        rpc.mend()
        net.play_to(7)
    assert reported(node)[:7] == [0, 1, 2, 3, 4, 5, 6], "each exactly once"
    for round_ in (3, 4):
        assert f"the chain was away: the chain's RPC at {rpc.url}" in report_of(node, round_)["skipped"]
    assert report_of(node, 2)["skipped"] == report_of(node, 6)["skipped"] == ""


def test_an_rpc_that_answers_with_errors_for_a_while_is_waited_for(net: Swarm) -> None:
    """What a provider answers when it is busy is no answer: no round is left for it."""
    busy = {"code": -32005, "message": "limit exceeded"}
    with faulty_rpc(net.chain.url, lambda method, params: None) as rpc:
        node = net.add(rpc=rpc.url)
        node.start()
        net.begin()
        net.play_to(1)
        rpc.fault = lambda method, params: busy
        wait_until("it waits", lambda: node.status().get("phase") == "waiting for the chain", seconds=60)
        assert "has no answer now" in node.status()["trouble"]
        time.sleep(3)
        rpc.fault = lambda method, params: None
        net.serve_until("round 1 is played", lambda: node.done(1))
        net.play_to(3)
        assert all(net.reader.batch_of(node.address, r) is not None for r in (1, 2))
        assert node.status()["trouble"] == ""
    log = (node.home / "node.log").read_text()
    assert log.count("has no answer now") == 1, "what lasts is one line"
    assert re.search(r"that is over, after \d+ s and \d+ times", log)


def test_a_node_plays_on_over_its_second_rpc(net: Swarm) -> None:
    """The first one is gone in the middle of a round, and back three rounds later."""
    with Relay(net.chain.url) as first, Relay(net.chain.url) as second:
        node = net.add(rpc=[first.url, second.url])
        node.start()
        net.begin()
        net.play_to(1)
        net.serve_until("the beacon is captured", lambda: net.reader.beacon(1) is not None)
        first.cut()
        net.play_to(4)
        before = first.so_far().calls
        first.mend()
        net.play_to(5)
        wait_until("the first one is used again", lambda: first.so_far().calls > before + 20, seconds=90)
        net.play_to(6)
        log = (node.home / "node.log").read_text()
    assert all(net.reader.batch_of(node.address, r) is not None for r in range(1, 6))
    assert all(report_of(node, r)["skipped"] == "" for r in range(1, 6))
    assert f"of the chain's RPCs {first.url} cannot be reached; {second.url} is asked instead" in log
    assert log.count("is asked instead") <= 3
    assert "none of the chain's RPCs" not in log
    assert "that is over" not in log, "the loop met no trouble"


def test_a_node_ends_by_itself_where_its_settings_say_so(net: Swarm) -> None:
    with Relay(net.chain.url) as rpc:
        node = net.add(rpc=rpc.url)
        settings = node.home / "node.toml"
        settings.write_text(settings.read_text().replace("patience_minutes = 30.0", "patience_minutes = 0.05"))
        node.start()
        net.begin()
        net.play_to(1)
        rpc.cut()
        wait_until("the node has ended", lambda: not node.alive, seconds=60)
    assert node.process is not None
    assert node.process.exit_status() == 3
    assert "[chain] patience_minutes" in (node.home / "node.log").read_text()


def _transactions(net: Swarm, node: DevnetNode) -> int:
    return int(net.chain.rpc("eth_getTransactionCount", node.address, "pending"), 16)
