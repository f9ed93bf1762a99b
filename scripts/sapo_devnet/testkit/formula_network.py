"""A whole network of formula nodes, played for some rounds: a chain with all that indexers and dashboards look at."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from sapo_devnet.chain import Chain, Clock
from sapo_devnet.formula.policy import formula_spec
from sapo_devnet.formula.shared import Shared
from sapo_devnet.formula_nodes import FormulaNode
from sapo_verifier.chain.deployment import Deployment
from sapo_verifier.chain.reader import ChainReader
from sapo_verifier.errors import SapoError

POLL_SECONDS = 0.02
SECONDS = 120.0  # for what takes one or two; the machine may be busy


@dataclass
class FormulaNetwork:
    """Rounds 0 … N were played to their end."""

    folder: Path
    chain: Chain
    deployment: Deployment
    reader: ChainReader
    nodes: list[FormulaNode]
    shared: Shared
    clock: Clock

    def play_to(self, round_: int) -> None:
        """Until all nodes are done with that round. Raises SapoError where they are not in time."""
        deadline = time.monotonic() + SECONDS
        while (now := self.clock.round()) < round_ or not self._all_done(round_):
            if now == round_:
                self.clock.serve()
            elif self.clock.tick(self._all_done):
                continue
            self.refuse_dead()
            if time.monotonic() > deadline:
                raise SapoError(f"not all formula nodes are done with round {now}; see {self.folder}")
            time.sleep(POLL_SECONDS)

    def _all_done(self, round_: int) -> bool:
        return all(node.done(round_) for node in self.nodes)

    def refuse_dead(self) -> None:
        """Raises SapoError, naming the node that has ended and why."""
        for node in self.nodes:
            if not node.alive:
                raise SapoError(f"{node.name} has ended: {node.failure or 'see standard error'}")


@contextmanager
def formula_network(folder: Path, *, nodes: int = 4, rounds: int = 10, slots: int = 1) -> Iterator[FormulaNetwork]:
    """Rounds 0 … `rounds` are played when the block begins; everything is stopped when it ends."""
    chain = Chain(folder / "anvil.log")
    reader: ChainReader | None = None
    try:
        deployment = chain.deploy(formula_spec(), room=32 + 4 * nodes)
        reader = ChainReader(chain.url, deployment)
        with Shared(folder / "formula", deployment) as shared:
            made = [
                FormulaNode(f"formula{i}", folder / f"formula{i}", shared, chain.url, slots=slots) for i in range(nodes)
            ]
            clock = Clock(chain, deployment, limit_seconds=SECONDS)
            network = FormulaNetwork(folder, chain, deployment, reader, made, shared, clock)
            try:
                for node in made:
                    chain.fund(node.address)
                    node.start()
                clock.start(lambda: all(node.ready() for node in made))
                network.play_to(rounds)
                yield network
            finally:
                for node in made:
                    node.ask_to_stop()
                for node in made:
                    node.stop()
    finally:
        if reader is not None:
            reader.close()
        chain.stop()
