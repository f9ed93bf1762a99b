"""What ends a devnet's parts, and which of them is told: the cause, though what it brought down is seen first."""

import re
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from sapo_devnet import DevnetError
from sapo_devnet import network as networks
from sapo_devnet.network import Network
from sapo_devnet.processes import Process, stop_all
from sapo_devnet.threads import Thread
from sapo_verifier.chain.errors import ChainUnavailable
from sapo_verifier.errors import SapoError


class Chain:
    def __init__(self, process: Process) -> None:
        self.process = process


class Member:
    """With a process that serves and one that plays."""

    def __init__(self, serves: Any, plays: Any) -> None:
        self.servers = lambda: [serves]
        self.workers = lambda: [plays]


def lasting(folder: Path, name: str, seconds: float) -> Process:
    """Ends with a status that is not 0: a node that ends in order is no failure."""
    command = f"echo {name} speaks; exec timeout {seconds} sleep 999"
    return Process(name, ["/bin/sh", "-c", command], folder / f"{name}.log")


@pytest.fixture
def network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Network:
    """Of processes that end after so many seconds: `parts` says."""
    monkeypatch.setattr(networks, "END_SECONDS", 1.0)
    made = Network.__new__(Network)
    made.folder, made.relay, made._readers = tmp_path, None, []
    return made


def parts(network: Network, chain: float, daemon: float, node: float) -> None:
    network.chain = Chain(lasting(network.folder, "anvil", chain))  # type: ignore[assignment]
    served, played = lasting(network.folder, "daemon", daemon), lasting(network.folder, "node", node)
    network.nodes = [Member(served, played), Member(served, played)]  # type: ignore[list-item]


@pytest.mark.parametrize(
    ("seconds", "told"),
    [
        ((0.6, 60, 0.1), "anvil"),
        ((0.1, 60, 60), "anvil"),
        ((60, 0.4, 0.1), "daemon"),
        ((60, 60, 0.1), "node"),
    ],
)
def test_the_cause_is_told_though_it_is_seen_later(
    network: Network, seconds: tuple[float, float, float], told: str
) -> None:
    parts(network, *seconds)
    time.sleep(0.2)
    with pytest.raises(DevnetError, match=rf"(?s)^{told} has ended; .*{told}\.log ends with:\n{told} speaks"):
        network.refuse_dead()
    network.stop()


def test_a_node_that_ends_in_order_is_no_failure(network: Network) -> None:
    parts(network, 60, 60, 60)
    ended = Process("node", ["/bin/true"], network.folder / "node.log")
    network.nodes.append(Member(network.nodes[0].servers()[0], ended))  # type: ignore[arg-type]
    time.sleep(0.2)
    network.refuse_dead()
    network.stop()


def test_a_connection_ends_before_the_process_that_served_it(network: Network) -> None:
    parts(network, 0.5, 60, 60)
    with pytest.raises(DevnetError, match="anvil has ended"), network.told():
        raise ChainUnavailable("refused")
    network.stop()


def test_where_nothing_has_ended_the_error_stays_itself(network: Network) -> None:
    parts(network, 60, 60, 60)
    began = time.monotonic()
    with pytest.raises(ChainUnavailable, match="busy"), network.told():
        raise ChainUnavailable("busy")
    assert time.monotonic() - began < 3
    network.refuse_dead()
    assert [part.name for part in network._parts()] == ["anvil", "daemon", "node"], "what is shared is named once"
    network.stop()


def test_an_init_that_failed_since_anvil_has_ended_is_told_as_that(network: Network) -> None:
    class Late(Member):
        def init(self, _: object) -> None:
            raise DevnetError("sapo init failed")

    parts(network, 0.5, 60, 60)
    node: Any = Late(None, None)
    with pytest.raises(DevnetError, match="anvil has ended"):
        network.init(node, None)  # type: ignore[arg-type]
    network.stop()


def unwell(error: BaseException) -> Thread:
    def play(_: threading.Event) -> None:
        raise error

    made = Thread("formula7", play)
    assert made.wait_stopped(time.monotonic() + 5)
    return made


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (SapoError("the key is used elsewhere"), "^.*logs there\nthe key is used elsewhere$"),
        (OSError(28, "No space left on device"), "(?i)space"),
        (ZeroDivisionError("zero"), "(?s)Traceback.*ZeroDivisionError: zero"),
    ],
)
def test_a_thread_that_ends_by_itself_says_why(error: BaseException, words: str) -> None:
    made = unwell(error)
    assert made.exit_status() == 1
    assert re.search(words, made.end_of_log())


def test_a_thread_that_was_asked_to_end_has_not_failed() -> None:
    made = Thread("formula7", lambda stop: stop.wait(60) and None)
    assert made.alive
    assert made.exit_status() is None
    assert stop_all([made]) == []
    assert not made.alive
    assert made.exit_status() is None
    deaf = Thread("deaf", lambda _: time.sleep(2))
    deaf.ask_to_stop()
    assert not deaf.wait_stopped(time.monotonic())
