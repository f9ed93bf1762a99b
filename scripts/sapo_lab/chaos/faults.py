"""What befalls the network, one fault a round: functions that begin it, let time pass at each `yield`, and end it.

What a fault changed in providers and relays is put right by `Net.heal` afterwards, everything else by itself.
"""

import os
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from sapo_devnet.processes import stop_all
from sapo_devnet.testkit.anvil import anvil
from sapo_lab.chaos.net import GWEI, Net
from sapo_verifier.chain.contracts import Call
from sapo_verifier.errors import UNABLE

Ticks = Iterator[None]
SECONDS = 5.0  # that a provider's trouble lasts
LONG = 15.0


@dataclass(frozen=True)
class Fault:
    """One of them. may_say: what nodes may say of it that they must not say otherwise (a pattern)."""

    words: str
    play: Callable[[Net], Ticks]
    may_say: str = "$^"


def lasting(seconds: float) -> Ticks:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        yield


def submitted(net: Net) -> bool:
    """Everybody has signed this round's submission."""
    return all(net.status_of(node, f"submit/{net.round}") for node in net.nodes)


def mined(net: Net) -> bool:
    return all(net.mined_in(node, f"submit/{net.round}") is not None for node in net.nodes)


def in_flight(net: Net) -> Ticks:
    """Until everybody's submission is signed and sent, and none is mined."""
    yield from net.until(lambda: net.swarm.reader.beacon(net.round) is not None)
    net.frozen = True
    yield from net.until(lambda: submitted(net))
    net.frozen = False


# -- fees, the pool, nonces --


def spike_in_flight(net: Net) -> Ticks:
    """From the moment in which submissions are in flight to the end of the round."""
    yield from in_flight(net)
    round_ = net.round
    for _ in range(80):
        net.base_fee(2000)
        net.chain.mine()
        if net.round > round_:
            break
        yield
    net.base_fee(1)
    net.chain.mine()


def spike_before(net: Net) -> Ticks:
    """1,000 gwei with nothing in flight, for half a round."""
    for _ in range(30):
        net.base_fee(1000)
        net.chain.mine()
        yield
    net.base_fee(1)
    net.chain.mine()


def dropped_pool(net: Net) -> Ticks:
    yield from in_flight(net)
    net.drop_pool()


def taken_nonce(net: Net) -> Ticks:
    """A wallet with the same key sends one transaction."""
    yield from in_flight(net)
    net.drop_pool()
    net.send_as(net.first.address, net.first.address)


# -- answers --


def answers(code: int, message: str, *, every: bool = True) -> Callable[[Net], Ticks]:
    """An error in every answer."""

    def play(net: Net) -> Ticks:
        for provider in net.providers(every=every):
            provider.fault = lambda method, params: {"code": code, "message": message}
        yield from lasting(SECONDS)

    return play


def status(code: int, *, every: bool = True) -> Callable[[Net], Ticks]:
    def play(net: Net) -> Ticks:
        for provider in net.providers(every=every):
            provider.instead = code, b"no"
        yield from lasting(SECONDS)

    return play


def garbage(net: Net) -> Ticks:
    for provider in net.providers(every=True):
        provider.instead = 200, b'{"jsonrpc": "2.0", "id": 1, "result": [[['
    yield from lasting(SECONDS)


def slow(net: Net) -> Ticks:
    for provider in net.providers(every=True):
        provider.delay = 10.0
    yield from lasting(LONG)


def away(*, every: bool, seconds: float = SECONDS) -> Callable[[Net], Ticks]:
    def play(net: Net) -> Ticks:
        for relay in net.relays(every=every):
            relay.cut()
        yield from lasting(seconds)

    return play


def refused_once(net: Net) -> Ticks:
    """A view in which nobody is registered, at one estimate of each node."""
    for provider in net.providers(every=True):
        left = [None]

        def fault(method: str, params: Any, left: list[None] = left) -> dict[str, Any] | None:
            if method == "eth_estimateGas" and left:
                left.pop()
                return {"code": 3, "message": "execution reverted"}
            return None

        provider.fault = fault
    yield from net.until(lambda: submitted(net))


def lag(blocks: int, *, every: bool) -> Callable[[Net], Ticks]:
    def play(net: Net) -> Ticks:
        net.chain.mine(blocks)
        for provider in net.providers(every=every):
            provider.lag = blocks
        yield from lasting(LONG)

    return play


def other_chain(net: Net) -> Ticks:
    """The first provider of each node leads to another chain."""
    with anvil("--chain-id", "4242") as other:
        for provider in net.providers(every=False):
            provider.target = other.url
        yield from lasting(SECONDS)
        for provider in net.providers(every=False):
            provider.target = net.chain.url


def capped(how: Callable[[list[Any]], tuple[int, Any] | None]) -> Callable[[Net], Ticks]:
    """Batches of more than three calls are refused, for the whole round."""

    def play(net: Net) -> Ticks:
        for provider in net.providers(every=True):
            provider.cap = lambda calls: how(calls) if len(calls) > 3 else None
        round_ = net.round
        yield from net.until(lambda: all(node.done(round_) for node in net.nodes))

    return play


def one_error(calls: list[Any]) -> tuple[int, Any]:
    return 200, {"jsonrpc": "2.0", "id": None, "error": {"code": -32600, "message": "batch too large"}}


def an_error_each(calls: list[Any]) -> tuple[int, Any]:
    error = {"code": -32005, "message": "batch limit exceeded"}
    return 200, [{"jsonrpc": "2.0", "id": call["id"], "error": error} for call in calls]


# -- the chain itself --


def reorganized(depth: int, *, dropped: bool = False) -> Callable[[Net], Ticks]:
    """Once all submissions are mined, and so many blocks deep."""

    def play(net: Net) -> Ticks:
        yield from net.until(lambda: mined(net))
        found = [net.mined_in(node, f"submit/{net.round}") for node in net.nodes]
        assert all(found), f"in round {net.round} submissions are not mined: {found}"
        first = min(block for block in found if block is not None)
        net.chain.mine(max(0, depth - (net.chain.block_number() - first + 1)))
        net.reorganize(net.chain.block_number() - first + 1, dropped=dropped)
        yield

    return play


def set_back(net: Net) -> Ticks:
    """To the middle of the round before, as a chain that is restored from a snapshot."""
    point = net.chain.rpc("evm_snapshot")
    round_ = net.round
    while net.round == round_:
        net.play_round()
    yield from lasting(1.0)
    net.chain.rpc("evm_revert", point)
    net.drop_pool()
    yield


def frozen(net: Net) -> Ticks:
    """The chain's node does not answer and makes no block."""
    net.frozen = True
    os.kill(net.chain.process.pid, signal.SIGSTOP)
    yield from lasting(LONG)
    os.kill(net.chain.process.pid, signal.SIGCONT)


def blocks(count: int) -> Callable[[Net], Ticks]:
    def play(net: Net) -> Ticks:
        yield from lasting(1.0)
        for done in range(0, count, 100):  # more at a time take Anvil longer than one may wait for an answer
            net.chain.mine(min(100, count - done))

    return play


# -- the node --


def killed(*, with_daemon: bool) -> Callable[[Net], Ticks]:
    def play(net: Net) -> Ticks:
        yield from net.until(lambda: net.first.status().get("phase") in ("auditing", "voting", "training"))
        net.first.crash(with_daemon=with_daemon)
        yield from net.until(net.first.ready, 60.0)

    return play


def stopped_for_a_round(net: Net) -> Ticks:
    """One node's process stands still (SIGSTOP) until the next round has begun."""
    net.stop_for(net.first, signal.SIGSTOP)
    round_, others = net.round, net.nodes[1:]
    yield from net.until(lambda: all(node.done(round_) for node in others))
    net.swarm.skip_to(round_ + 1)
    net.stop_for(net.first, signal.SIGCONT)


def fined(net: Net) -> Ticks:
    """Somebody settles a wrong verdict in the middle of the round, as the contracts would."""
    fine = int(net.swarm.deployment.spec.chain.bond, 16) // 20
    yield from net.until(lambda: net.status_of(net.first, f"submit/{net.round}") == "mined")
    audits, reader = net.swarm.reader.address_of("audits"), net.swarm.reader
    held = reader.balance(audits)
    net.chain.rpc("anvil_setBalance", audits, hex(held + GWEI * GWEI))
    net.call_as(audits, Call("nodes", "fine", (net.first.address, fine, "0x" + "77" * 20, 1000)))
    net.chain.rpc("anvil_setBalance", audits, hex(held))


def other_endpoint(net: Net) -> Ticks:
    """Changed on chain with the node's own key, from elsewhere."""
    yield from net.until(lambda: mined(net))
    net.call_as(net.first.address, Call("nodes", "setEndpoint", ("/ip4/127.0.0.1/tcp/9/http",)))
    yield


def twin(net: Net) -> Ticks:
    """A second home with the first node's key is started: it sees that somebody uses the key, and ends."""
    second = net.swarm.add_twin(net.first)
    net.swarm.network.nodes.remove(second)
    try:
        second.start()
        process = second.workers()[0]
        # Rounds are short, and it loads its model first.
        yield from net.until(lambda: "watches the key" in process.last_words() or not second.alive)
        for _ in range(6):
            if second.alive:
                net.play_round()
        yield from net.until(lambda: not second.alive)
        assert process.exit_status() == UNABLE, process.last_words()
    finally:
        stop_all([*second.processes()])


def poor(net: Net) -> Ticks:
    """The account is emptied, and filled again two thirds into the round."""
    held = net.swarm.reader.balance(net.first.address)
    net.chain.rpc("anvil_setBalance", net.first.address, hex(1))
    yield from lasting(SECONDS)
    net.chain.rpc("anvil_setBalance", net.first.address, hex(held))


LAGS = r"does not show its transaction|has fallen behind"
REORG = r"reorganization|" + LAGS

FAULTS = (
    Fault("nothing", lambda net: iter(())),
    Fault("2,000 gwei while submissions are in flight, until the round is over", spike_in_flight),
    Fault("1,000 gwei with nothing in flight, half a round", spike_before),
    Fault("the pool is dropped with submissions in it", dropped_pool),
    Fault("a wallet with the node's key takes a nonce", taken_nonce, "took nonce|was used by another"),
    *(
        Fault(f"every answer is {code} {message!r}, 5 s", answers(code, message))
        for code, message in (
            (-32005, "daily request count exceeded"),
            (-32603, "Internal error"),
            (-32016, "over the rate"),
            (-32000, "header not found"),
            (-32000, "missing trie node 5f3c (path )"),
            (-32000, "request timed out"),
        )
    ),
    *(Fault(f"HTTP {code}, 5 s", status(code)) for code in (429, 500, 503)),
    Fault("answers are rubbish, 5 s", garbage),
    Fault("every answer takes 10 s, for 15 s", slow),
    Fault("no provider can be reached, 5 s", away(every=True)),
    Fault("one estimate of each node is refused", refused_once),
    Fault("every view lags by 3 blocks, 15 s", lag(3, every=True), LAGS),
    Fault("batches above 3 calls: one error instead of a list", capped(one_error)),
    Fault("batches above 3 calls: an error for each", capped(an_error_each)),
    *(
        Fault(f"batches above 3 calls: HTTP {code}", capped(lambda calls, code=code: (code, {})))  # type: ignore[misc]
        for code in (400, 413, 429, 500)
    ),
    Fault("the first provider of two cannot be reached, 15 s", away(every=False, seconds=LONG)),
    Fault("the first provider of two answers HTTP 429, 5 s", status(429, every=False)),
    Fault("the first provider of two lags by 10 blocks, 15 s", lag(10, every=False), LAGS),
    Fault("the first provider of two leads to another chain, 5 s", other_chain, "chain 4242"),
    *(
        Fault(f"a reorganization of {depth} blocks under the submissions", reorganized(depth), REORG)
        for depth in (1, 5, 10)
    ),
    Fault("a reorganization of 20 blocks under the submissions", reorganized(20), REORG),
    Fault("one of 20 blocks, and nobody has their transactions", reorganized(20, dropped=True), REORG),
    Fault("the chain is set back across a round (evm_revert)", set_back, REORG),
    Fault("the chain's node stands still, 15 s", frozen),
    Fault("300 blocks at once", blocks(300)),
    Fault("8,000 blocks at once", blocks(8000)),
    Fault("kill -9 of one node in the middle of the round", killed(with_daemon=False)),
    Fault("kill -9 of one node and its daemon", killed(with_daemon=True)),
    Fault("one node stands still into the next round", stopped_for_a_round),
    Fault("a fine in the middle of the round", fined),
    Fault("an empty account for 5 s", poor),
    Fault("the endpoint is changed from elsewhere", other_endpoint, "took nonce|endpoint"),
    Fault("a second node is started with the key of one", twin),
    Fault("nothing, again", lambda net: iter(())),
)
