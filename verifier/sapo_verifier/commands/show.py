"""`sapo-verify show`: a batch, a slot, a completion or one token, as a person can judge it."""

import argparse

from sapo_verifier.commands.options import add_audit_options
from sapo_verifier.commands.program import Commands, add_parser

WORDS = "question, right answer, text, rewards and tokens; at a position its interval and the number that forces it"


def add_command(commands: Commands) -> None:
    """Give `sapo-verify` the command."""
    parser = add_parser(commands, "show", WORDS, run)
    add_audit_options(parser)
    parser.add_argument("path", help="batch/slot/completion/position, such as 17/3/0/2, or its first parts")


def run(options: argparse.Namespace) -> int:
    """Exit status 0 where there is something to show."""
    from sapo_verifier.commands.tools import pinned_chain_of, source_in_words, verifier_of
    from sapo_verifier.documents import to_json
    from sapo_verifier.showing import in_words, parse_path, show_in

    parse_path(options.path)
    with pinned_chain_of(options) as reader, verifier_of(options, reader) as verifier:
        shown = show_in(verifier, options.path)
    print(to_json(shown) if options.json else "\n".join([*in_words(shown), source_in_words(shown.source)]))
    return 0
