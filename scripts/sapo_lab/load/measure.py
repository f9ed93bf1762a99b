"""One network of N formula publishers and two real nodes, and what the real ones need in each round."""

import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from sapo_devnet.chain import Chain, Clock
from sapo_devnet.checkout import SCRIPTS
from sapo_devnet.formula.shared import Shared
from sapo_devnet.nodes import DevnetNode, NodeOptions
from sapo_devnet.policies import DevnetPolicy
from sapo_devnet.processes import Process, stop_all
from sapo_devnet.testkit.relay import Relay, Traffic
from sapo_lab.load.crowd import Crowd
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


class KnowingNode(DevnetNode):
    """A real node that judges formula batches by the formula: by its model it would have to reject them all."""

    def start(self, *more: str) -> None:
        command = [sys.executable, "-m", "sapo_devnet.formula", "--home", str(self.home)]
        command += ["--password-file", str(self._password), *more]
        self.process = Process(self.name, command, self.home / "node.log", path=SCRIPTS)
        self.starts += 1

    def cpu_seconds(self) -> float:
        """Of its process so far, children that have ended included."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split() if self.process else []
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
        self._chain = Chain(folder / "anvil.log", *options)
        stack.callback(self._chain.stop)
        self._deployment = self._chain.deploy(pocket_spec(self._policy), room=120)
        path = folder / "deployment.json"
        self._deployment.save(path)
        self._reader = ChainReader(self._chain.url, self._deployment)
        stack.callback(self._reader.close)
        self._clock = Clock(self._chain, self._deployment, ROUND_SECONDS)
        shared = stack.enter_context(Shared(folder / "crowd", self._deployment))
        port = shared.gateway.split("/")[4]
        self._peers = stack.enter_context(Relay(f"http://127.0.0.1:{port}"))
        endpoint = f"/ip4/127.0.0.1/tcp/{self._peers.url.rpartition(':')[2]}/http"
        publishers = [str(address).lower() for address in self._chain.rpc("eth_accounts")[1 : self._count + 1]]
        self._crowd = Crowd(self._chain, self._reader, shared, publishers, endpoint)
        stack.callback(self._crowd.close)
        self._relays = [stack.enter_context(Relay(self._chain.url)) for _ in range(REAL)]
        self._real: list[KnowingNode] = []
        stack.callback(self._stop_real)
        for number, relay in enumerate(self._relays):
            node = KnowingNode(f"real{number}", folder / f"real{number}", number)
            self._real.append(node)
            node.init(self._options(path, relay.url))
            self._chain.fund(node.address)
            node.start()
        self._crowd.join()
        deadline = time.monotonic() + READY_SECONDS
        self._clock.start(lambda: self._all_ready(deadline))

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
        with self._standing_still():
            self._crowd.play(0, publish=False, last=False)
        for round_ in range(count + 1):
            before, began = self._so_far(), time.monotonic()
            self._until_done(round_, began)
            seconds, after = time.monotonic() - began, self._so_far()
            with self._standing_still():
                load = self._load(round_, seconds, before, after)
                if round_ < count:
                    self._begin(round_ + 1)
                    self._crowd.play(round_ + 1, publish=True, last=round_ + 1 == count)
            if round_:
                yield load

    def _begin(self, round_: int) -> None:
        while self._clock.round() < round_:
            self._clock.tick(lambda _: True)

    def _until_done(self, round_: int, began: float) -> None:
        while not all(node.done(round_) for node in self._real):
            self._clock.serve()
            self._refuse_dead()
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
        return rpc, self._peers.so_far(), sum(node.cpu_seconds() for node in self._real)

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
        for block in range(self._reader.first_block_of(round_), self._chain.block_number() + 1):
            sent = self._chain.rpc("eth_getBlockByNumber", hex(block), True)["transactions"]
            for hash_ in [each["hash"] for each in sent if each["from"].lower() in real]:
                used += int(self._chain.rpc("eth_getTransactionReceipt", hash_)["gasUsed"], 16)
        return used

    def _all_ready(self, deadline: float) -> bool:
        self._refuse_dead()
        if time.monotonic() > deadline:
            raise SapoError(f"the real nodes are not ready after {READY_SECONDS:.0f} s; see {self._folder}")
        return all(node.ready() for node in self._real)

    def _refuse_dead(self) -> None:
        for process in [self._chain.process, *(process for node in self._real for process in node.processes())]:
            if process.exit_status() is not None:
                raise SapoError(f"{process.name} has ended; {process.log} ends with:\n{process.last_words()}")

    def _stop_real(self) -> None:
        stop_all([node.process for node in self._real if node.process])
        stop_all([node.daemon for node in self._real])
