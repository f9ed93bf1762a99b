"""`sapo pause`: promise nothing new for some rounds, and do what is owed."""

import argparse
import json
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

from sapo_client.commands.options import chain_options, home_option, json_option, number_from, rpcs_of
from sapo_verifier.commands.program import Commands, add_parser

if TYPE_CHECKING:
    from sapo_client.state.requests import RequestBook


def add_command(commands: Commands) -> None:
    """Give `sapo` the command."""
    words = "promise nothing new for some rounds, and do what is owed; a restart changes nothing"
    parser = add_parser(commands, "pause", words, run)
    home_option(parser)
    parser.add_argument("--rounds", type=number_from(1), required=True, metavar="N", help="with the one that goes on")
    chain_options(parser)
    json_option(parser)


def run(options: argparse.Namespace) -> int:
    """Whether the node runs or not: it reads the pause itself."""
    with open_pause(options) as (book, current):
        pause = book.pause(current, options.rounds)
    words = (
        f"paused until round {pause.until} (this is round {current}): nothing new is promised until then. What is "
        f"promised already is kept; the first new batch is that of round {pause.until + 1}"
    )
    print(json.dumps({"round": current, "until": pause.until, "words": words}, indent=1) if options.json else words)
    return 0


@contextmanager
def open_pause(options: argparse.Namespace) -> "Iterator[tuple[RequestBook, int]]":
    """Where pauses are stored, and the chain's round. Raises SapoError where the chain does not say it."""
    from sapo_client.commands.asking import open_book
    from sapo_client.state.settings import Settings
    from sapo_verifier.chain.deployment import Deployment
    from sapo_verifier.chain.reader import open_chain

    home = options.home.expanduser()
    settings = Settings.load(home)
    urls = rpcs_of(options) or settings.chain.rpc_urls(home)
    with open_chain(Deployment.load(settings.chain.deployment), urls) as reader:
        current = reader.current_round()
    with closing(open_book(home)) as book:
        yield book, current
