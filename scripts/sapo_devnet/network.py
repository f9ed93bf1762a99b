"""A network on this machine: Anvil with the contracts, a clock, and nodes. Whatever starts one uses this."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from sapo_devnet import drand
from sapo_devnet.chain import Chain, Clock
from sapo_devnet.errors import DevnetError, DevnetUnable
from sapo_devnet.keys import MNEMONIC
from sapo_devnet.nodes import Member, NodeOptions
from sapo_devnet.processes import STARTED, Part, started_below, stop_all
from sapo_verifier.chain.errors import ChainUnavailable
from sapo_verifier.chain.reader import ChainReader
from sapo_verifier.errors import SapoError
from sapo_verifier.spec import Spec

END_SECONDS = 2.0  # between the end of a process' connections and that of the process
POLL_SECONDS = 0.05


class Network:
    """Before round 0 at first. Whoever makes it stops it; what fails while it is made is stopped already."""

    def __init__(
        self,
        folder: Path,
        spec: Spec,
        *,
        room: int,
        round_limit: float,
        port: int = 0,
        options: Sequence[str] = (),
        beacon: str = "blockhash",
    ) -> None:
        """folder: exists already. room: blocks for registering before round 0. port: of the chain; 0: any free one.

        options: more of Anvil's. beacon: "drand" for one that waits for a drand of the devnet's own.
        """
        self.folder = folder
        self.deployment_file = folder / "deployment.json"
        self.nodes: list[Member] = []
        self.relay: drand.Relay | None = None
        self._readers: list[ChainReader] = []
        waits: Callable[[int], bool] = _never
        try:
            self.chain = Chain(folder / "anvil.log", "--mnemonic", MNEMONIC, *options, port=port)
            with self.told():
                if beacon == "drand":
                    self.deployment = self.chain.deploy(spec, room, drand.RULES, drand.BLOCK_SECONDS)
                else:
                    self.deployment = self.chain.deploy(spec, room)
            self.deployment.save(self.deployment_file)
            if beacon == "drand":
                self._readers = [ChainReader(self.chain.url, self.deployment) for _ in range(2)]
                self.relay = drand.Relay(self._readers[0].block_time)
                waits = drand.Waiting(self._readers[1])
            self.clock = Clock(self.chain, self.deployment, round_limit, waits)
        except BaseException:
            self.stop()
            raise

    @property
    def relays(self) -> list[str]:
        """URLs, for the nodes' settings; none where the beacon takes block hashes."""
        return [] if self.relay is None else [self.relay.url]

    def init(self, node: Member, options: NodeOptions) -> None:
        """Its home, and coins for its key."""
        try:
            node.init(options)
            self.chain.fund(node.address)
        except (DevnetError, ChainUnavailable):
            self.refuse_dead(END_SECONDS)  # whose end `sapo init` may have seen first
            raise

    def refuse_dead(self, seconds: float = 0.0) -> None:
        """Raises DevnetError if something has ended that nobody ended, with the end of its log.

        What fails since Anvil or a daemon is gone may be seen before the end of those, so there is a moment in which
        the cause is looked for. seconds: another one in which something may be seen to end.
        """
        deadline = time.monotonic() + seconds
        while not (dead := self._dead()):
            if time.monotonic() >= deadline:
                return
            time.sleep(POLL_SECONDS)
        deadline = time.monotonic() + END_SECONDS
        while dead[0] is not self.chain.process and time.monotonic() < deadline:
            time.sleep(POLL_SECONDS)
            dead = self._dead() or dead
        raise DevnetError(f"{dead[0].name} has ended; {dead[0].end_of_log()}")

    def _dead(self) -> list[Part]:
        """Without nodes that ended in order, as one does that has withdrawn."""
        nodes = {part for node in list(self.nodes) for part in node.workers() if part.exit_status() == 0}
        return [part for part in self._parts() if part not in nodes and part.exit_status() is not None]

    def _parts(self) -> list[Part]:
        """All that runs, causes first: what needs something stands behind it."""
        nodes = list(self.nodes)  # another thread may add one
        servers = [part for node in nodes for part in node.servers()]
        workers = [part for node in nodes for part in node.workers()]
        return list(dict.fromkeys([self.chain.process, *servers, *workers]))  # formula nodes share their daemon

    @contextmanager
    def told(self) -> Iterator[None]:
        """What fails because something has ended is told as that: its connections end before its process."""
        try:
            yield
        except ChainUnavailable:
            self.refuse_dead(END_SECONDS)
            raise

    def all_ready(self, deadline: float) -> bool:
        """Whether every node is; raises DevnetError if one has ended, or time.monotonic is past `deadline`."""
        self.refuse_dead()
        late = [node.name for node in self.nodes if not node.ready()]
        if late and time.monotonic() > deadline:
            raise DevnetError(f"{', '.join(late)}: still not ready; see the logs in {self.folder}")
        return not late

    def all_done(self, round_: int) -> bool:
        return all(node.done(round_) for node in self.nodes)

    def stop(self) -> list[str]:
        """Nodes first, so that they end their last transactions in peace; then daemons; the chain last.

        Takes less than a minute. The names of those that did not end by themselves.
        """
        workers = [part for node in self.nodes for part in node.workers()]
        servers = [part for node in self.nodes for part in node.servers()]
        if self.relay is not None:
            self.relay.close()
        for reader in self._readers:
            reader.close()
        late = [*stop_all(workers), *stop_all(servers), *stop_all(started_below(self.folder))]
        for process in started_below(self.folder):
            STARTED.remove(process)
        return late

    def logs(self) -> str:
        """The ends of all logs, for a person to read."""
        return "\n".join(f"-- {part.name}: {part.end_of_log()}" for part in self._parts())


def _never(round_: int) -> bool:
    """No round waits for blocks."""
    return False


def in_words(error: SapoError | OSError, folder: Path) -> DevnetError:
    """The error as this package's own, with the logs' place."""
    if isinstance(error, DevnetError) and str(folder) in str(error):
        return error
    made = (
        type(error) if isinstance(error, DevnetError) else DevnetUnable if isinstance(error, OSError) else DevnetError
    )
    told = made(f"{error}; the logs are in {folder}")
    told.exit_status = getattr(error, "exit_status", told.exit_status)
    return told
