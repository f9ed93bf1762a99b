"""`sapo-verify cid`: what a block is, by the rounds and batches that name it."""

import argparse

from sapo_verifier.commands.options import add_audit_options, number
from sapo_verifier.commands.program import Commands, add_parser

WORDS = "what a block is: which node's manifest, policy, report, group, records or weights, and of which round"


def add_command(commands: Commands) -> None:
    """Give `sapo-verify` the command."""
    parser = add_parser(commands, "cid", WORDS, run)
    add_audit_options(parser)
    parser.add_argument("cid", help="bafkrei…, or 0x and 64 hex digits as the chain has it")
    words = "the first round to look at (all announcements, and batches that peers have to serve)"
    parser.add_argument("--since", type=number, metavar="ROUND", help=words)


def run(options: argparse.Namespace) -> int:
    """Exit status 0 if something names it."""
    from sapo_verifier.commands.tools import pinned_chain_of, source_in_words, verifier_of
    from sapo_verifier.documents import to_json
    from sapo_verifier.explaining import cid_in_words, parse_cid, tell_cid

    digest = parse_cid(options.cid)
    with pinned_chain_of(options) as reader, verifier_of(options, reader) as verifier:
        told = tell_cid(verifier, digest, options.since)
    print(to_json(told) if options.json else "\n".join([*cid_in_words(told), source_in_words(told.source)]))
    return 0
