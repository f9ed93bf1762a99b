"""`sapo withdraw`: take the bond back once the exit's time is over."""

import argparse

from sapo_client.commands.asking import add_step, ask
from sapo_client.commands.options import address
from sapo_verifier.commands.program import Commands


def add_command(commands: Commands) -> None:
    """Give `sapo` the command."""
    parser = add_step(commands, "withdraw", "take the bond back after `sapo exit`; a running node ends then", run)
    parser.add_argument("--to", type=address, required=True, metavar="ADDRESS", help="who receives the bond")


def run(options: argparse.Namespace) -> int:
    """See asking.ask."""
    from sapo_client.duties.steps import withdraw

    return ask(options, lambda *_: withdraw(options.to))
