"""`sapo resume`: end a pause before its time."""

import argparse
import json

from sapo_client.commands.options import chain_options, home_option, json_option
from sapo_client.commands.pause import open_pause
from sapo_verifier.commands.program import Commands, add_parser


def add_command(commands: Commands) -> None:
    """Give `sapo` the command."""
    parser = add_parser(commands, "resume", "end a pause; the node promises again in the round that goes on", run)
    home_option(parser)
    chain_options(parser)
    json_option(parser)


def run(options: argparse.Namespace) -> int:
    """Fine, too, where there is no pause."""
    with open_pause(options) as (book, current):
        ended = book.resume(current)
    words = f"the pause ended in round {current}" if ended else f"there is no pause in round {current}"
    print(json.dumps({"round": current, "ended": ended, "words": words}, indent=1) if options.json else words)
    return 0
