"""The network that the faults fall upon: real nodes, each behind two providers of its own, and a chain whose rounds end
also for who is late."""

import json
import os
import re
import secrets
import signal
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sapo_devnet.nodes import DevnetNode
from sapo_devnet.testkit.faulty_rpc import serving
from sapo_devnet.testkit.provider import Provider, well
from sapo_devnet.testkit.relay import Relay
from sapo_devnet.testkit.swarm import Swarm, swarm
from sapo_verifier.chain.contracts import Call
from sapo_verifier.chain.events import Cursor, pages

NODES = 3
GWEI = 10**9
TICK = 0.05
LIMIT = 30.0  # seconds after which a round ends without those who are late
EMPTY = "0x" + "00" * 20


@dataclass
class Line:
    """One node's two ways to the chain; the second is used where the first fails."""

    providers: list[Provider]
    relays: list[Relay]


@dataclass
class Net:
    """What a fault may touch."""

    swarm: Swarm
    lines: list[Line]
    frozen: bool = False  # no block is made
    _said: dict[str, int] = field(default_factory=dict)  # bytes of each node's log when the fault began

    @property
    def chain(self) -> Any:
        return self.swarm.chain

    @property
    def nodes(self) -> list[DevnetNode]:
        return self.swarm.nodes

    @property
    def first(self) -> DevnetNode:
        """The node that a fault of one node falls upon."""
        return self.nodes[0]

    def providers(self, *, every: bool) -> list[Provider]:
        """Of all nodes: every one, or the first ones."""
        return [provider for line in self.lines for provider in line.providers[: None if every else 1]]

    def relays(self, *, every: bool) -> list[Relay]:
        return [relay for line in self.lines for relay in line.relays[: None if every else 1]]

    def heal(self) -> None:
        """Nothing is wrong any more."""
        self.frozen = False
        for line in self.lines:
            for provider, relay in zip(line.providers, line.relays, strict=True):
                provider.heal(self.chain.url)
                relay.mend()

    # -- the chain --

    @property
    def round(self) -> int:
        return self.swarm.clock.round()

    def base_fee(self, gwei: float) -> None:
        """What the next block asks for a unit of gas."""
        self.chain.rpc("anvil_setNextBlockBaseFeePerGas", hex(int(gwei * GWEI)))

    def drop_pool(self) -> None:
        self.chain.rpc("anvil_dropAllTransactions")

    def reorganize(self, depth: int, *, dropped: bool = False) -> None:
        """The last blocks are replaced by empty ones; dropped: nobody has their transactions any more."""
        # Blocks of the same second, parent and content have the same hash; another miner makes them other blocks.
        self.chain.rpc("anvil_setCoinbase", f"0x{secrets.token_hex(20)}")
        self.chain.rpc("anvil_reorg", depth, [])
        if dropped:
            self.drop_pool()

    def send_as(self, sender: str, to: str, data: str = "0x", value: int = 0) -> None:
        """A transaction in somebody's name, in a block of its own."""
        self.chain.rpc("anvil_impersonateAccount", sender)
        request = {"from": sender, "to": to, "data": data, "value": hex(value), "gas": hex(10**6)}
        request |= {"maxPriorityFeePerGas": hex(20 * GWEI), "maxFeePerGas": hex(200 * GWEI)}
        self.chain.rpc("eth_sendTransaction", request)
        self.chain.mine()
        self.chain.rpc("anvil_stopImpersonatingAccount", sender)

    def call_as(self, sender: str, call: Call) -> None:
        self.send_as(sender, self.swarm.reader.address_of(call.contract), "0x" + call.encode().hex())

    def mined_in(self, node: DevnetNode, key: str) -> int | None:
        """The block of a transaction, as the node's outbox knows it; None if it is not mined."""
        with sqlite3.connect(f"file:{node.home / 'outbox.sqlite'}?mode=ro", uri=True) as db:
            row = db.execute("SELECT block FROM entry WHERE key = ?", (key,)).fetchone()
        return None if row is None or row[0] is None else int(row[0])

    def status_of(self, node: DevnetNode, key: str) -> str:
        """A transaction's status in the node's outbox; "" if it is not there."""
        with sqlite3.connect(f"file:{node.home / 'outbox.sqlite'}?mode=ro", uri=True) as db:
            row = db.execute("SELECT status FROM entry WHERE key = ?", (key,)).fetchone()
        return "" if row is None else str(row[0])

    # -- nodes --

    def stop_for(self, node: DevnetNode, number: signal.Signals) -> None:
        assert node.process is not None
        os.kill(node.process.pid, number)

    def worth(self) -> int:
        """Wei that all nodes have on chain: coins, bonds, and bonds in disputes that are not closed."""
        reader = self.swarm.reader
        held = sum(reader.balance(node.address) + reader.node_of(node.address).bond for node in self.nodes)
        return held + reader.balance(reader.address_of("disputes"))

    def here(self) -> Cursor:
        """What is read from here on are the events of later blocks."""
        number = self.chain.block_number()
        found = self.chain.rpc("eth_getBlockByNumber", hex(number), False)
        return Cursor(((number, bytes.fromhex(found["hash"][2:])),))

    def fined(self, since: Cursor) -> int:
        """Wei that the nodes' bonds were fined afterwards."""
        found = [event for page in pages(self.swarm.reader, since, chunk=500) for event in page.events]
        fines = [event.args for event in found if event.name == "NodeFined" and event.block > since.block]
        return sum(fine["paid"] + fine["burned"] for fine in fines)

    def mark(self) -> None:
        """What nodes say from now on is about the next fault."""
        self._said = {node.name: (node.home / "node.log").stat().st_size for node in self.nodes}

    def said(self) -> dict[str, list[str]]:
        """Each node's lines since then."""
        logs = {node.name: (node.home / "node.log").read_bytes()[self._said[node.name] :] for node in self.nodes}
        return {name: log.decode(errors="replace").splitlines() for name, log in logs.items()}

    # -- time --

    def step(self) -> None:
        """A moment passes: what is sent is mined, and no round ends."""
        if not self.frozen:
            self.swarm.clock.serve()
        time.sleep(TICK)

    def until(self, true: Callable[[], object], seconds: float = LIMIT) -> Iterator[None]:
        """Ticks until something is so, or the time is over."""
        deadline = time.monotonic() + seconds
        while not true() and time.monotonic() < deadline:
            yield

    def play_round(self) -> None:
        """The round that goes on ends when all are done with it, or by the limit; then the next one begins."""
        now, deadline = self.round, time.monotonic() + LIMIT
        while self.round == now:
            if not self.swarm.clock.tick(lambda round_: time.monotonic() > deadline or self.is_done(round_)):
                time.sleep(TICK)

    def is_done(self, round_: int) -> bool:
        """Everybody has played it to its end."""
        return all(node.done(round_) for node in self.nodes)

    def is_well(self, round_: int) -> bool:
        """Everybody published in it, and has promised for the next one."""
        reader = self.swarm.reader
        return all(
            reader.batch_of(node.address, round_) is not None and reader.policy_of(node.address, round_ + 1) is not None
            for node in self.nodes
        )


@contextmanager
def chaos_net(folder: Path, policy: Path) -> Iterator[Net]:
    """In round 1, with everybody at work."""
    with ExitStack() as stack, swarm(folder, policy) as made:
        lines = []
        for _ in range(NODES):
            providers = [stack.enter_context(serving(Provider(made.chain.url, well))) for _ in range(2)]
            relays = [stack.enter_context(Relay(provider.url)) for provider in providers]
            lines.append(Line(providers, relays))
            node = made.add(rpc=relays[0].url, own_groups=2, external_groups=2)
            _use(node, [relay.url for relay in relays])
        for node in made.nodes:
            node.start()
        made.begin()
        net = Net(made, lines)
        while net.round < 1:
            net.play_round()
        yield net


def _use(node: DevnetNode, urls: list[str]) -> None:
    """Several RPCs in the node's settings."""
    path = node.home / "node.toml"
    words = re.sub(r"(?m)^rpc = .*$", f"rpc = {json.dumps(urls)}", path.read_text())
    path.write_text(words)
