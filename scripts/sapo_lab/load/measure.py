"""One network of N formula publishers and two real nodes, and what the real ones need in each round."""

import os
import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from sapo_devnet.formula.shared import Shared
from sapo_devnet.network import Network
from sapo_devnet.nodes import DevnetNode, NodeOptions
from sapo_devnet.policies import DevnetPolicy
from sapo_devnet.testkit.relay import Relay, Traffic
from sapo_lab.load.crowd import Crowd
from sapo_verifier.bases import Bases
from sapo_verifier.chain.reader import ChainReader
from sapo_verifier.errors import SapoError, UsageError
from sapo_verifier.networks import pocket_spec

REAL = 2
READY_SECONDS = 300.0
ROUND_SECONDS = 300.0  # for the real nodes' part of one
POLL_SECONDS = 0.1
BLOCK_GAS = 30_000_000  # as public chains have it: what a block lists is bounded, however many nodes there are


@dataclass(frozen=True)
class Load:
    """Of one real node in one round, on average over both. Bytes with HTTP's own."""

    nodes: int  # publishers
    round: int
    batches: int  # in it, those of the real nodes included
    seconds: float  # from when the round's batches of the crowd are there until both are done with the round
    cpu_seconds: float
    gas: int  # of a real node's transactions
    crowd_gas: int  # of a publisher's, on average
    rpc_calls: float
    rpc_requests: float
    rpc_bytes: float
    peer_bytes: float  # from and to the crowd's gateway
    drawn: float  # groups dealt to it
    checked: float  # that passed every check


def cpu_seconds(node: DevnetNode) -> float:
    """Of its process so far, children that have ended included."""
    fields = Path(f"/proc/{node.process.pid}/stat").read_text().rpartition(")")[2].split() if node.process else []
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


class LoadRun:
    """Everything of one measurement; a context manager."""

    def __init__(self, folder: Path, policy: Path, nodes: int) -> None:
        self._folder = folder
        self._policy = policy
        self._count = nodes
        self._stack = ExitStack()

    def __enter__(self) -> "LoadRun":
        with ExitStack() as stack:
            self._start(stack)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _start(self, stack: ExitStack) -> None:
        folder = self._folder
        if folder.exists():
            raise UsageError(f"{folder} exists already; give another --data")
        folder.mkdir(parents=True)
        options = ("--accounts", str(self._count + 1), "--gas-limit", str(BLOCK_GAS))
        self._network = network = Network(
            folder, pocket_spec(self._policy), room=120, round_limit=ROUND_SECONDS, options=options
        )
        stack.callback(network.stop)
        self._reader = ChainReader(network.chain.url, network.deployment)
        stack.callback(self._reader.close)
        shared = stack.enter_context(Shared(folder / "crowd", network.deployment))
        port = shared.gateway.split("/")[4]
        self._peers = stack.enter_context(Relay(f"http://127.0.0.1:{port}"))
        endpoint = f"/ip4/127.0.0.1/tcp/{self._peers.url.rpartition(':')[2]}/http"
        publishers = [str(address).lower() for address in network.chain.rpc("eth_accounts")[1 : self._count + 1]]
        bases = Bases([self._policy])
        self._crowd = Crowd(network.chain, self._reader, shared, publishers, endpoint, bases)
        stack.callback(self._crowd.close)
        self._relays = [stack.enter_context(Relay(network.chain.url)) for _ in range(REAL)]
        self._real: list[DevnetNode] = []
        stack.callback(network.stop)  # before what the nodes need
        for number, relay in enumerate(self._relays):
            # By its model it would have to reject what the crowd publishes.
            node = DevnetNode(f"real{number}", folder / f"real{number}", number, knows_formula=True)
            self._real.append(node)
            network.nodes.append(node)
            network.init(node, self._options(network.deployment_file, relay.url))
            node.start()
        self._crowd.join()
        deadline = time.monotonic() + READY_SECONDS
        with network.told():
            network.clock.start(lambda: network.all_ready(deadline))

    def _options(self, deployment: Path, rpc: str) -> NodeOptions:
        return NodeOptions(
            deployment=deployment,
            rpc=rpc,
            policies=[DevnetPolicy("pocket", self._policy, 0)],
            own_groups=1,
            external_groups=2,
            external="truncated",
            seed=0,
            threads=1,
            engine="torch",
        )

    def rounds(self, count: int) -> Iterator[Load]:
        """Rounds 1 … count, after round 0, in which policies are committed only."""
        with self._network.told():
            with self._standing_still():
                self._crowd.play(0, publish=False, last=False)
            for round_ in range(count + 1):
                before, began = self._so_far(), time.monotonic()
                self._until_done(round_, began)
                seconds, after = time.monotonic() - began, self._so_far()
                with self._standing_still():
                    load = self._load(round_, seconds, before, after)
                    if round_ < count:
                        self._network.clock.begin(round_ + 1)
                        self._crowd.play(round_ + 1, publish=True, last=round_ + 1 == count)
                if round_:
                    yield load

    def _until_done(self, round_: int, began: float) -> None:
        while not self._network.all_done(round_):
            self._network.clock.serve()
            self._network.refuse_dead()
            if time.monotonic() - began > ROUND_SECONDS:
                raise SapoError(f"the real nodes are not done with round {round_}; see their logs in {self._folder}")
            time.sleep(POLL_SECONDS)

    @contextmanager
    def _standing_still(self) -> Iterator[None]:
        """The real nodes do nothing meanwhile: what the crowd takes of this machine is not theirs."""
        pids = [node.process.pid for node in self._real if node.process]
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            for pid in pids:
                os.kill(pid, signal.SIGCONT)

    def _so_far(self) -> tuple[Traffic, Traffic, float]:
        """RPC of both, peers, CPU of both."""
        rpc = Traffic()
        for relay in self._relays:
            each = relay.so_far()
            rpc = Traffic(rpc.up + each.up, rpc.down + each.down, rpc.requests + each.requests, rpc.calls + each.calls)
        return rpc, self._peers.so_far(), sum(cpu_seconds(node) for node in self._real)

    def _load(
        self, round_: int, seconds: float, before: tuple[Traffic, Traffic, float], after: tuple[Traffic, Traffic, float]
    ) -> Load:
        rpc, peers, cpu = after[0] - before[0], after[1] - before[1], after[2] - before[2]
        reports = [report for node in self._real for report in node.rounds() if report["round"] == round_]
        return Load(
            nodes=self._count,
            round=round_,
            batches=self._reader.round_at(round_).count,
            seconds=seconds,
            cpu_seconds=cpu / REAL,
            gas=self._gas(round_) // REAL,
            crowd_gas=self._crowd.gas // self._count,
            rpc_calls=rpc.calls / REAL,
            rpc_requests=rpc.requests / REAL,
            rpc_bytes=(rpc.up + rpc.down) / REAL,
            peer_bytes=(peers.up + peers.down) / REAL,
            drawn=sum(report["external_drawn"] for report in reports) / REAL,
            checked=sum(report["external_checked"] for report in reports) / REAL,
        )

    def _gas(self, round_: int) -> int:
        """Of the real nodes' transactions in the blocks of a round so far."""
        real, used = {node.address for node in self._real}, 0
        for block in range(self._reader.first_block_of(round_), self._network.chain.block_number() + 1):
            sent = self._network.chain.rpc("eth_getBlockByNumber", hex(block), True)["transactions"]
            for hash_ in [each["hash"] for each in sent if each["from"].lower() in real]:
                used += int(self._network.chain.rpc("eth_getTransactionReceipt", hash_)["gasUsed"], 16)
        return used
