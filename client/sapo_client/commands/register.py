"""`sapo register`: lock the bond, without running the node yet."""

import argparse
from typing import TYPE_CHECKING

from sapo_client.commands.asking import Asking, add_step, ask
from sapo_verifier.commands.program import Commands

if TYPE_CHECKING:
    from sapo_client.duties.steps import Step
    from sapo_verifier.chain.reader import ChainReader, NodeInfo


def add_command(commands: Commands) -> None:
    """Give `sapo` the command."""
    add_step(commands, "register", "lock the bond and register the node, as `sapo run --register` does", run)


def run(options: argparse.Namespace) -> int:
    """See asking.ask."""
    return ask(options, _step)


def _step(asking: Asking, reader: "ChainReader", info: "NodeInfo") -> "Step":
    from sapo_client.duties.steps import register
    from sapo_client.state.home import public_endpoint

    endpoint = public_endpoint(asking.settings.ipfs, f"{asking.home / 'node.toml'}: [ipfs] endpoint")
    return register(info, asking.key, endpoint, int(reader.deployment.spec.chain.bond, 16))
