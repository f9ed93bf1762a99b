"""What a round costs one node is bounded: flat in the number of nodes, and in time whatever its peers do."""

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import cast

import pytest

from sapo_client.batches.auditing import AuditCounts, Auditor, FetchBudget
from sapo_client.batches.pins import PinBook
from sapo_client.batches.seeds import Seeds
from sapo_devnet.testkit.hostile_http import Script, hostile
from sapo_devnet.testkit.ipfs_daemon import ipfs_daemon
from sapo_devnet.testkit.publishers import Publishers, publishers
from sapo_devnet.testkit.relay import Relay
from sapo_lab.sweeps.traffic import MOST_GROWTH, cost_of
from sapo_verifier import protocol
from sapo_verifier.ipfs import BlockStore, GatewayReader

FEW, MANY = 10, 200
BUDGET = 3.0  # seconds
SLACK = 2.0  # for the checks of four batches, on a busy machine


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Publishers]:
    with publishers(tmp_path_factory.mktemp("publishers"), [FEW, MANY]) as network:
        yield network


@pytest.mark.timeout(600)
def test_traffic_of_a_node_is_flat_in_the_number_of_nodes(made: Publishers, tmp_path: Path) -> None:
    few, many = (cost_of(made, count, tmp_path / str(count)) for count in (FEW, MANY))
    print(few, many)
    draws, slots = made.network.spec.chain.draws, 3
    assert few.batches == many.batches == draws
    assert few.groups == many.groups == draws * slots, "everything passed its checks"
    # Completions differ in length, so fewer bytes prove nothing; half of them would mean that something is not counted.
    assert 1 / 2 < many.block_bytes / few.block_bytes < MOST_GROWTH
    assert 1 / 2 < many.rpc_bytes / few.rpc_bytes < MOST_GROWTH
    assert (many.rpc_requests, many.rpc_calls) == (few.rpc_requests, few.rpc_calls)


def test_the_measure_sees_a_reader_of_all_batches(made: Publishers) -> None:
    down = {}
    for count in (FEW, MANY):
        with Relay(made.network.chain.url) as relay:
            reader = made.network.reader(relay.url)
            assert len(reader.batches_of(made.rounds[count])) == count
            down[count] = relay.so_far().down
    assert down[MANY] > 5 * down[FEW]


def auditor(made: Publishers, store: GatewayReader, pins: PinBook, voter: int = 0) -> Auditor:
    reader = made.network.reader()
    spec, unused = made.network.spec, cast(Seeds, None)
    return Auditor(reader, store, spec, made.worker, made.tokenizer, None, pins, made.nodes[voter], unused)


def test_the_window_is_that_of_the_contract(made: Publishers, tmp_path: Path) -> None:
    """As the whole round would give it; for voters that published in it and for one that did not."""
    pins = PinBook(tmp_path / "pins.sqlite")
    with GatewayReader(allow_private=True) as store:
        for count in (FEW, MANY):
            round_ = made.rounds[count]
            for voter in (0, 3, FEW - 1, MANY - 1):
                asked = auditor(made, store, pins, voter)
                everything = asked.reader.batches_of(round_)
                own = next((i for i, batch in enumerate(everything) if batch.node == made.nodes[voter]), None)
                start = asked.reader.window_start(made.nodes[voter], round_, 1)
                draws = made.network.spec.chain.draws
                expected = [everything[i] for i in protocol.window(start, count, own, draws)]
                assert asked.window(round_) == expected
                assert len(expected) == draws
    pins.close()


def stall(connection: socket.socket, over: threading.Event) -> None:
    over.wait(30)


def trickle(connection: socket.socket, over: threading.Event) -> None:
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
    while not over.wait(0.05):
        connection.sendall(b"a")


@pytest.mark.parametrize("script", [stall, trickle])
@pytest.mark.parametrize("daemon_too", [False, True], ids=["reader", "node"])
def test_peers_that_never_finish_cost_their_part_of_the_time_only(
    made: Publishers, tmp_path: Path, script: Script, daemon_too: bool
) -> None:
    """Half of the window's producers; the others' batches are all used, whatever the order."""
    with ExitStack() as stack:
        slow = stack.enter_context(hostile(script)).endpoint()
        if daemon_too:
            daemon = stack.enter_context(ipfs_daemon(tmp_path))
            store: GatewayReader = stack.enter_context(BlockStore(daemon.api, allow_private=True))
        else:
            store = stack.enter_context(GatewayReader(allow_private=True))
        pins = PinBook(tmp_path / "pins.sqlite")
        asked = auditor(made, store, pins)
        window = asked.window(made.rounds[MANY])
        budget = FetchBudget(BUDGET, len(window))
        started = time.monotonic()
        passed, counts = [], AuditCounts()
        for i, batch in enumerate(window):
            peers = [slow] if i % 2 == 0 else [made.daemon.gateway]
            seen, found = asked.audit(batch, peers, made.policy(), budget)
            passed.append(len(seen.groups))
            counts += found
        seconds = time.monotonic() - started
        pins.close()
    assert passed == [0, 3, 0, 3], counts.failures
    assert BUDGET / 4 < seconds < BUDGET + SLACK
    assert [failure.split(": ")[1] for failure in counts.failures] == ["available void"] * 2


def test_when_the_time_is_over_nothing_more_is_asked_for(made: Publishers, tmp_path: Path) -> None:
    with hostile(stall) as server, GatewayReader(allow_private=True) as store:
        pins = PinBook(tmp_path / "pins.sqlite")
        asked = auditor(made, store, pins)
        (batch, *_) = asked.window(made.rounds[MANY])
        budget = FetchBudget(0.0, 1)
        started = time.monotonic()
        seen, counts = asked.audit(batch, [server.endpoint()], made.policy(), budget)
        assert seen.groups == []
        assert time.monotonic() - started < 1.0
        assert server.requests == []
        pins.close()
    assert "audit.seconds" in counts.failures[0]


def test_a_window_costs_no_time_where_the_chain_says_that_there_are_very_many_batches() -> None:
    """The count is the RPC's word."""
    started = time.monotonic()
    assert protocol.window(7, 2**200, None, 4) == [7, 8, 9, 10]
    assert protocol.window(2**200 - 1, 2**200, 0, 3) == [2**200 - 1, 1, 2]
    assert time.monotonic() - started < 0.1
