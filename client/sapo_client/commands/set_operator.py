"""`sapo set-operator`: another key is to publish and vote for the node; its owner stays the owner."""

import argparse
from typing import TYPE_CHECKING

from sapo_client.commands.asking import Asking, add_step, ask
from sapo_client.commands.options import address
from sapo_verifier.commands.program import Commands

if TYPE_CHECKING:
    from sapo_client.duties.steps import Step
    from sapo_verifier.chain.reader import ChainReader, NodeInfo


def add_command(commands: Commands) -> None:
    """Give `sapo` the command."""
    parser = add_step(commands, "set-operator", "let another key act for the node", run)
    parser.add_argument("operator", type=address, metavar="ADDRESS", help="of the key; it cannot withdraw")


def run(options: argparse.Namespace) -> int:
    """See asking.ask."""

    def step(asking: Asking, reader: "ChainReader", info: "NodeInfo") -> "Step | None":
        from sapo_client.duties.steps import SET_OPERATOR, is_done, set_operator

        return None if is_done(info, SET_OPERATOR, options.operator) else set_operator(options.operator)

    return ask(options, step)
