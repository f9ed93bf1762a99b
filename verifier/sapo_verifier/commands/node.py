"""`sapo-verify node`: a node's whole history, with its pay written out, and for one's books."""

import argparse
from pathlib import Path

from sapo_verifier.commands.options import add_chain_options, number
from sapo_verifier.commands.program import Commands, add_parser

WORDS = (
    "a node's history: batches and how they ended, verdicts given and received, bond, fees and fines, pay written out"
)


def add_command(commands: Commands) -> None:
    """Give `sapo-verify` the command."""
    parser = add_parser(commands, "node", WORDS, run)
    add_chain_options(parser)
    parser.add_argument("node", help="the owner's address, 0x and 40 hex digits")
    parser.add_argument("--since", type=number, default=0, metavar="ROUND", help="leave out what was before (0)")
    parser.add_argument(
        "--csv", type=Path, metavar="FILE", help="write its pay there, too: a line per round, in tokens"
    )


def run(options: argparse.Namespace) -> int:
    """Exit status 1 where the contract pays something else than the rules, 0 otherwise."""
    from sapo_verifier.commands.tools import pinned_chain_of, source_in_words
    from sapo_verifier.documents import to_json
    from sapo_verifier.files import write_file
    from sapo_verifier.history import history_in, in_words, parse_address
    from sapo_verifier.pay import pay_in_words

    parse_address(options.node)
    with pinned_chain_of(options) as reader:
        history = history_in(reader, options.node, options.since)
    if options.csv is not None:
        write_file(options.csv, history.csv().encode())
    if options.json:
        print(to_json(history))
        return history.exit_status()
    print("\n".join(in_words(history)))
    for pay in history.pays:
        print(f"  pay of round {pay.round}: {pay_in_words(pay)}")
    print(source_in_words(history.source))
    return history.exit_status()
