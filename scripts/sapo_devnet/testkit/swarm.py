"""The devnet's own parts, played by a test: real nodes and daemons, and a clock that the test moves."""

import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sapo_client.transactions.outbox import Outbox
from sapo_devnet.chain import Chain, Clock
from sapo_devnet.network import Network
from sapo_devnet.nodes import SAPO, DevnetNode, NodeOptions
from sapo_devnet.policies import DevnetPolicy
from sapo_devnet.processes import Process, stop_all
from sapo_verifier.chain.deployment import Deployment
from sapo_verifier.chain.reader import ChainReader
from sapo_verifier.networks import pocket_spec
from sapo_verifier.spec import Spec

SECONDS = 90.0  # for anything that takes one or two; the machine may be busy


@dataclass
class Swarm:
    """A network of nodes with a model. Round 0 begins with `begin`, each later one by `play_to`; between those calls no
    block is made, and no round ends."""

    network: Network
    policy: Path
    reader: ChainReader
    policies: Sequence[DevnetPolicy] = ()  # which nodes take in turn, instead of the one policy
    others: list[Process] = field(default_factory=list)

    @property
    def folder(self) -> Path:
        return self.network.folder

    @property
    def chain(self) -> Chain:
        return self.network.chain

    @property
    def deployment(self) -> Deployment:
        return self.network.deployment

    @property
    def clock(self) -> Clock:
        return self.network.clock

    @property
    def nodes(self) -> list[DevnetNode]:
        return [node for node in self.network.nodes if isinstance(node, DevnetNode)]

    def add(self, *, rpc: str | Sequence[str] = "", own_groups: int = 1, external_groups: int = 2) -> DevnetNode:
        """A node with its daemon and a funded key, not started yet."""
        number = len(self.nodes)
        node = DevnetNode(f"node{number}", self.folder / f"node{number}", number)
        self.network.nodes.append(node)
        self.network.init(node, self._options(rpc, own_groups, external_groups))
        return node

    def add_twin(self, of: DevnetNode, *, rpc: str | Sequence[str] = "") -> DevnetNode:
        """A second home with the key of a node, and a daemon of its own; not started yet."""
        node = self.add(rpc=rpc)
        node.take_key(of)
        return node

    def _options(self, rpc: str | Sequence[str], own_groups: int, external_groups: int) -> NodeOptions:
        return NodeOptions(
            deployment=self.network.deployment_file,
            rpc=rpc or self.chain.url,
            policies=self.policies or [DevnetPolicy("pocket", self.policy, 0)],
            engine="torch",
            own_groups=own_groups,
            external_groups=external_groups,
            external="truncated",
            seed=0,
            threads=1,
        )

    def begin(self) -> None:
        """Until all nodes are ready; then round 0."""
        deadline = time.monotonic() + SECONDS
        self.clock.start(lambda: self._all_ready(deadline))

    def play_to(self, round_: int, *, waiting_for: list[DevnetNode] | None = None) -> None:
        """Until that round begins: each round before it ends when the nodes are done with it."""
        nodes = self.nodes if waiting_for is None else waiting_for
        deadline = time.monotonic() + SECONDS
        while self.clock.round() < round_:
            if not self.clock.tick(lambda now: all(node.done(now) for node in nodes)):
                self._check(deadline, f"round {round_} did not begin")
                time.sleep(0.05)

    def skip_to(self, round_: int) -> None:
        """That round begins now, whoever is late."""
        self.clock.begin(round_)

    def serve_until(self, what: str, true: Callable[[], object]) -> None:
        """Mine what is sent until `true()` holds, within the round."""
        deadline = time.monotonic() + SECONDS
        while not true():
            self.clock.serve()
            self._check(deadline, f"still not true: {what}")
            time.sleep(0.05)

    def deliver(self, outbox: Outbox) -> None:
        """Everything in the outbox of somebody that the test plays is mined, or has failed."""

        def settled() -> bool:
            outbox.pump()
            return not outbox.pending()

        self.serve_until("the transactions are settled", settled)

    def logs(self) -> str:
        return self.network.logs()

    def _all_ready(self, deadline: float) -> bool:
        self._check(deadline, "not all nodes are ready")
        return all(node.ready() for node in self.nodes)

    def _check(self, deadline: float, words: str) -> None:
        dead = [server.name for node in self.nodes for server in node.servers() if server.exit_status() is not None]
        assert not dead, f"{dead} ended\n{self.logs()}"
        assert time.monotonic() < deadline, f"{words}\n{self.logs()}"


@contextmanager
def swarm(
    folder: Path, policy: Path, *, spec: Spec | None = None, policies: Sequence[DevnetPolicy] = ()
) -> Iterator[Swarm]:
    """A chain with the contracts, before round 0, without nodes; stops whatever was added to it.

    spec: the pocket policy's, if none is given.
    """
    network = Network(folder, spec or pocket_spec(policy), room=120, round_limit=3600.0)
    reader = ChainReader(network.chain.url, network.deployment)
    made = Swarm(network, policy, reader, policies)
    try:
        yield made
    finally:
        network.stop()
        stop_all(made.others)
        reader.close()


def sapo(*words: Any, seconds: float = 60.0) -> "subprocess.CompletedProcess[str]":
    """The real `sapo` in a process of its own. What it says must never be a traceback."""
    done = subprocess.run(
        [*SAPO, *map(str, words)],
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    assert "Traceback" not in done.stderr, done.stderr
    return done
