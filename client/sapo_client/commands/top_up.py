"""`sapo top-up`: pay in again what a fine took from the bond. A running node does so itself where its account can."""

import argparse

from sapo_client.commands.asking import add_step, ask
from sapo_client.commands.options import coins
from sapo_verifier.commands.program import Commands


def add_command(commands: Commands) -> None:
    """Give `sapo` the command."""
    parser = add_step(commands, "top-up", "fill the bond up after a fine, from the key's account", run)
    words = "how many; the contract takes exactly what is missing (that)"
    parser.add_argument("--coins", type=coins, metavar="N", help=words)


def run(options: argparse.Namespace) -> int:
    """See asking.ask."""
    from sapo_client.duties.steps import missing_bond, top_up
    from sapo_verifier.chain.reader import NodeState

    return ask(
        options,
        lambda asking, reader, info: (
            None
            if options.coins is None and info.state is NodeState.REGISTERED and not missing_bond(reader, info)
            else top_up(asking.node, missing_bond(reader, info) if options.coins is None else options.coins)
        ),
    )
