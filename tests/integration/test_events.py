"""Reading events behind a provider that limits ranges, and across reorganizations."""

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from typing import Any

import pytest

from sapo_devnet.testkit.faulty_rpc import faulty_rpc
from sapo_devnet.testkit.networks import BOND, Network
from sapo_verifier.chain.contracts import Call
from sapo_verifier.chain.errors import ChainUnavailable
from sapo_verifier.chain.events import Cursor, Page, pages
from sapo_verifier.chain.reader import ChainReader


@contextmanager
def limiting_proxy(target: str, most_blocks: int, *, status: int = 200) -> Iterator[tuple[str, list[int]]]:
    """An RPC that refuses eth_getLogs over more than `most_blocks`, as providers do. Yields URL and ranges asked."""
    ranges: list[int] = []

    def limit(method: str, params: Any) -> dict[str, Any] | None:
        if method != "eth_getLogs":
            return None
        ranges.append(int(params[0]["toBlock"], 16) - int(params[0]["fromBlock"], 16) + 1)
        return {"code": -32005, "message": "query exceeds max block range"} if ranges[-1] > most_blocks else None

    with faulty_rpc(target, limit, status=status) as proxy:
        yield proxy.url, ranges


class Follower:
    """Keeps events as a client would: pages and cursor together, forgetting what was reorganized away."""

    def __init__(self, reader: ChainReader, chunk: int = 10_000) -> None:
        self.reader = reader
        self.chunk = chunk
        self.cursor: Cursor | None = None
        self.events: list[Any] = []
        self.forgot: list[int] = []

    def follow(self) -> list[Page]:
        read = list(pages(self.reader, self.cursor, chunk=self.chunk))
        for page in read:
            if page.forget_after is not None:
                self.forgot.append(page.forget_after)
                self.events = [event for event in self.events if event.block <= page.forget_after]
            self.events += page.events
            self.cursor = page.cursor
        return read

    def names(self) -> list[tuple[str, str]]:
        return [(event.name, event.args["endpoint"]) for event in self.events]


def act(network: Network, i: int, function: str, *args: str, value: int = 0) -> None:
    """One call of account i to Nodes, in a block of its own."""
    w3 = network.chain.w3
    sent: Any = {
        "from": network.chain.account(i).address,
        "to": w3.to_checksum_address(network.deployment.contracts.nodes),
        "data": "0x" + Call("nodes", function, args).encode().hex(),
        "value": value,
    }
    assert w3.eth.wait_for_transaction_receipt(w3.eth.send_transaction(sent))["status"] == 1


def register(network: Network, i: int, endpoint: str) -> None:
    act(network, i, "register", network.chain.account(9).address, endpoint, value=BOND)


@pytest.mark.parametrize("status", [200, 400, 413])
def test_chunks_are_halved_until_the_provider_takes_them(network: Network, status: int) -> None:
    register(network, 1, "first")
    network.chain.mine(100)
    register(network, 2, "second")
    network.chain.mine(57)
    act(network, 1, "setEndpoint", "third")
    with limiting_proxy(network.chain.url, 16, status=status) as (url, ranges):
        follower = Follower(network.reader(url))
        follower.follow()
    assert follower.names() == [
        ("NodeRegistered", "first"),
        ("NodeRegistered", "second"),
        ("EndpointChanged", "third"),
    ]
    blocks = network.chain.w3.eth.block_number - network.deployment.block + 1
    assert sum(size for size in ranges if size <= 16) == blocks
    assert len([size for size in ranges if size > 16]) <= 5
    assert max(size for size in ranges if size <= 16) > 8
    event = follower.events[1]
    assert event.args == {
        "node": network.chain.account(2).address.lower(),
        "operator": network.chain.account(9).address.lower(),
        "bond": BOND,
        "endpoint": "second",
    }
    assert bytes(network.chain.w3.eth.get_block(event.block)["hash"]) == event.block_hash


def test_a_provider_that_refuses_even_one_block_is_given_up(network: Network) -> None:
    with limiting_proxy(network.chain.url, 0) as (url, ranges):
        with pytest.raises(ChainUnavailable, match="not give the logs even of the single block"):
            list(pages(network.reader(url), None))
        assert len(ranges) <= 6


def test_too_many_requests_do_not_shrink_the_chunks(network: Network) -> None:
    with limiting_proxy(network.chain.url, 0, status=429) as (url, ranges):
        with pytest.raises(ChainUnavailable, match="HTTP 429: too many requests"):
            list(pages(network.reader(url), None))
        assert len(ranges) == 1


def test_a_cursor_goes_on_where_it_stopped(network: Network) -> None:
    register(network, 1, "first")
    follower = Follower(network.reader())
    follower.follow()
    assert follower.cursor is not None
    assert follower.cursor.block == network.chain.w3.eth.block_number
    assert follower.follow() == []
    register(network, 2, "second")
    later = pages(network.reader(), follower.cursor)
    assert [event.args["endpoint"] for page in later for event in page.events] == ["second"]


@pytest.mark.parametrize("depth", [1, 3, 12])
def test_a_reorganization_rewinds_the_cursor(network: Network, depth: int) -> None:
    register(network, 1, "kept")
    network.chain.mine(12)
    follower = Follower(network.reader(), chunk=4)
    follower.follow()
    register(network, 2, "lost")
    follower.follow()
    assert follower.names() == [("NodeRegistered", "kept"), ("NodeRegistered", "lost")]

    network.chain.reorg(depth)
    register(network, 3, "new")
    follower.follow()
    assert follower.names() == [("NodeRegistered", "kept"), ("NodeRegistered", "new")]
    assert len(follower.forgot) == 1
    fork = network.chain.w3.eth.block_number - 1 - depth
    assert follower.forgot[0] <= fork
    follower.follow()
    assert len(follower.forgot) == 1


def test_a_chain_that_became_shorter_is_noticed(network: Network) -> None:
    register(network, 1, "kept")
    snapshot = network.chain.rpc("evm_snapshot")
    follower = Follower(network.reader(), chunk=1)
    follower.follow()
    register(network, 2, "lost")
    follower.follow()
    network.chain.rpc("evm_revert", snapshot)
    follower.follow()
    assert follower.names() == [("NodeRegistered", "kept")]
    register(network, 3, "new")
    follower.follow()
    assert follower.names() == [("NodeRegistered", "kept"), ("NodeRegistered", "new")]


def test_a_cursor_stays_small_and_reaches_far_back() -> None:
    cursor = Cursor(((0, bytes(32)),))
    for block in range(1, 5000):
        cursor = cursor.advanced(block, block.to_bytes(32, "big"))
    blocks = [block for block, _ in cursor.trail]
    assert blocks == sorted(blocks)
    assert blocks[-1] == cursor.block == 4999
    assert len(blocks) <= 16
    assert blocks[0] < 2500
    assert all(older >= 4999 - 4 * (4999 - newer) for older, newer in pairwise(blocks[:-1]))
    assert blocks[-2] == 4998


def test_an_endpoint_that_is_no_text_does_not_stop_anybody(network: Network) -> None:
    w3 = network.chain.w3
    call = Call("nodes", "register", (network.chain.account(1).address, "xx"))
    sent: Any = {
        "from": network.chain.account(1).address,
        "to": w3.to_checksum_address(network.deployment.contracts.nodes),
        "data": "0x" + call.encode().replace(b"xx", b"\xff\xfe").hex(),
        "value": BOND,
    }
    w3.eth.send_transaction(sent)
    follower = Follower(network.reader())
    follower.follow()
    assert follower.names() == [("NodeRegistered", "\ufffd\ufffd")]
