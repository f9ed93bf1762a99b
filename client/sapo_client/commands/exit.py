"""`sapo exit`: leave the network. The node promises nothing new, does what it owes, and can withdraw later."""

import argparse
from typing import TYPE_CHECKING

from sapo_client.commands.asking import Asking, add_step, ask
from sapo_verifier.commands.program import Commands

if TYPE_CHECKING:
    from sapo_client.duties.steps import Step
    from sapo_verifier.chain.reader import ChainReader, NodeInfo


def add_command(commands: Commands) -> None:
    """Give `sapo` the command."""
    add_step(commands, "exit", "ask to leave; cannot be taken back, and the bond stays locked for some rounds", run)


def run(options: argparse.Namespace) -> int:
    """See asking.ask."""
    return ask(options, _step)


def _step(asking: Asking, reader: "ChainReader", info: "NodeInfo") -> "Step":
    from sapo_client.duties.steps import leave

    return leave()
