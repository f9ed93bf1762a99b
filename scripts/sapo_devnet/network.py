"""A network on this machine: Anvil with the contracts, a clock, and nodes. Whatever starts one uses this."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sapo_devnet.chain import Chain, Clock
from sapo_devnet.errors import DevnetError
from sapo_devnet.keys import MNEMONIC
from sapo_devnet.nodes import Member, NodeOptions
from sapo_devnet.processes import STARTED, Process, started_below, stop_all
from sapo_verifier.chain.errors import ChainUnavailable
from sapo_verifier.errors import SapoError
from sapo_verifier.spec import Spec

END_SECONDS = 2.0  # between the end of Anvil's connections and that of its process


class Network:
    """Before round 0 at first. Whoever makes it stops it; what fails while it is made is stopped already."""

    def __init__(self, folder: Path, spec: Spec, *, room: int, round_limit: float, port: int = 0) -> None:
        """folder: exists already. room: blocks for registering before round 0. port: of the chain; 0: any free one."""
        self.folder = folder
        self.deployment_file = folder / "deployment.json"
        self.nodes: list[Member] = []
        try:
            self.chain = Chain(folder / "anvil.log", "--mnemonic", MNEMONIC, port=port)
            self.deployment = self.chain.deploy(spec, room=room)
            self.deployment.save(self.deployment_file)
            self.clock = Clock(self.chain, self.deployment, round_limit)
        except BaseException:
            self.stop()
            raise

    def init(self, node: Member, options: NodeOptions) -> None:
        """Its home, and coins for its key."""
        node.init(options)
        self.chain.fund(node.address)

    def refuse_dead(self) -> None:
        """Raises DevnetError if something has ended that nobody ended, with the end of its log."""
        for process in [self.chain.process, *(p for node in self.nodes for p in (*node.servers(), *node.workers()))]:
            if process.exit_status() is not None:
                raise DevnetError(f"{process.name} has ended; {process.log} ends with:\n{process.last_words()}")

    @contextmanager
    def told(self) -> Iterator[None]:
        """An RPC that does not answer since Anvil has ended is told as that: its connections end before its process."""
        try:
            yield
        except ChainUnavailable:
            deadline = time.monotonic() + END_SECONDS
            while time.monotonic() < deadline:
                self.refuse_dead()
                time.sleep(0.05)
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

        Takes less than a minute. The names of those that had to be killed.
        """
        nodes = [process for node in self.nodes for process in node.workers()]
        servers = [process for node in self.nodes for process in node.servers()]
        killed = [*stop_all(nodes), *stop_all(servers), *stop_all(started_below(self.folder))]
        for process in started_below(self.folder):
            STARTED.remove(process)
        return killed

    def logs(self) -> str:
        """The ends of all logs, for a person to read."""
        parts: list[Process] = [self.chain.process]
        parts += [process for node in self.nodes for process in (*node.servers(), *node.workers())]
        return "\n".join(f"-- {process.name}: {process.log}\n{process.last_words()}" for process in parts)


def in_words(error: SapoError | OSError, folder: Path) -> DevnetError:
    """The error as this package's own, with the logs' place."""
    if isinstance(error, DevnetError) and str(folder) in str(error):
        return error
    made = type(error) if isinstance(error, DevnetError) else DevnetError
    told = made(f"{error}; the logs are in {folder}")
    told.exit_status = getattr(error, "exit_status", told.exit_status)
    return told
