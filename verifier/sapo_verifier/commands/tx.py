"""`sapo-verify tx`: a transaction, as an explorer shows it, in words."""

import argparse

from sapo_verifier.commands.options import add_chain_options
from sapo_verifier.commands.program import Commands, add_parser

WORDS = "a transaction in words: which call it was, and what the contracts announced in it"


def add_command(commands: Commands) -> None:
    """Give `sapo-verify` the command."""
    parser = add_parser(commands, "tx", WORDS, run)
    add_chain_options(parser)
    parser.add_argument("hash", help="0x and 64 hex digits")


def run(options: argparse.Namespace) -> int:
    """Exit status 0 if the chain knows it."""
    from sapo_verifier.commands.tools import pinned_chain_of, source_in_words
    from sapo_verifier.documents import to_json
    from sapo_verifier.explaining import parse_hash, tell_transaction, transaction_in_words

    hash_ = parse_hash(options.hash)
    with pinned_chain_of(options) as reader:
        told = tell_transaction(reader, hash_)
    print(to_json(told) if options.json else "\n".join([*transaction_in_words(told), source_in_words(told.source)]))
    return 0
