"""Who plays in a `Devnet`: nodes with a model, attackers, formula nodes; and who joins later."""

import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

from sapo_devnet.adversaries.names import node_names
from sapo_devnet.formula.shared import Shared
from sapo_devnet.formula_nodes import FormulaNode
from sapo_devnet.network import Network
from sapo_devnet.nodes import DevnetNode, Member, NodeOptions
from sapo_verifier.errors import UsageError

START_SECONDS = 600.0  # for all nodes to have loaded and registered, on a slow machine
INITS_AT_A_TIME = 2


class Crew:
    """Its nodes are the network's, which stops them; `close` afterwards."""

    def __init__(self, network: Network, options: NodeOptions) -> None:
        """options: without policies where no node has a model."""
        self._network = network
        self._options = options
        self._stack = ExitStack()
        self._shared: Shared | None = None  # by formula nodes

    @property
    def model(self) -> Path | None:
        """The folder of what they train; None if no node has a model."""
        return self._options.policies[0].folder if self._options.policies else None

    def start(self, nodes: int, attacks: Sequence[str], formula: int) -> None:
        """Until round 0 has begun. What was started is the network's already where this fails."""
        network = self._network
        if formula:
            self._shared = self._stack.enter_context(Shared(network.folder / "formula", network.deployment))
        for name in [*(f"node{i}" for i in range(nodes)), *node_names(attacks)]:
            network.nodes.append(self._with_model(name, None if name.startswith("node") else name.partition("-")[0]))
        for i in range(formula):
            network.nodes.append(self._of_formula(f"formula{i}"))
        with ThreadPoolExecutor(INITS_AT_A_TIME) as pool:
            list(pool.map(lambda node: network.init(node, self._options), network.nodes))
        for node in network.nodes:
            node.start()
        deadline = time.monotonic() + START_SECONDS
        with network.told():
            network.clock.start(lambda: network.all_ready(deadline))

    def another(self, attack: str | None) -> Member:
        """One more, with a home and a key, not funded yet. Raises UsageError for an attacker without a model."""
        if self.model is None and attack is not None:
            raise UsageError(f"{attack} needs a model, and formula nodes have none: give Devnet a policy")
        kind = "formula" if self.model is None else "node" if attack is None else attack
        names = {node.name for node in self._network.nodes}
        counted = (f"{kind}{i}" if attack is None else f"{kind}-{i + 1}" if i else kind for i in range(len(names) + 1))
        name = next(name for name in counted if name not in names)
        node = self._of_formula(name) if self.model is None else self._with_model(name, attack)
        node.init(self._options)
        return node

    def _with_model(self, name: str, attack: str | None) -> Member:
        network = self._network
        knows = self._shared is not None
        return DevnetNode(name, network.folder / name, len(network.nodes), attack, knows_formula=knows)

    def _of_formula(self, name: str) -> Member:
        assert self._shared is not None, "where there is no model, formula nodes were asked for"
        return FormulaNode(name, self._network.folder / name, self._shared)

    def close(self) -> None:
        """What formula nodes share."""
        self._stack.close()
