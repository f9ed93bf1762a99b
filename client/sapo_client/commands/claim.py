"""`sapo claim`: pull the pay of rounds that are final, for a node that is not running. A running one does so itself."""

import argparse
import json
from typing import Any

from sapo_client.commands.options import chain_options, home_option, json_option, password_option, rpcs_of
from sapo_verifier.commands.program import Commands, add_parser
from sapo_verifier.errors import UnableError

WORDS = "pull the pay of rounds that are final; for a node that is stopped: a running one does so itself"


def add_command(commands: Commands) -> None:
    """Give `sapo` the command."""
    parser = add_parser(commands, "claim", WORDS, run)
    home_option(parser)
    password_option(parser)
    words = "search from here on (registration, or 5000 rounds)"
    parser.add_argument("--since", type=_round, metavar="ROUND", help=words)
    chain_options(parser)
    json_option(parser, "for programs; amounts in the token's smallest unit")


def run(options: argparse.Namespace) -> int:
    """Claims everything and prints it. Raises SapoError, with what to do, where it cannot."""
    document = _claimed(options)
    print(json.dumps(document, indent=1)) if options.json else _print(document)
    return 0


def _claimed(options: argparse.Namespace) -> dict[str, Any]:
    from sapo_client.commands.hand import in_hand
    from sapo_client.duties.claiming import claim_all
    from sapo_client.state.home import is_held
    from sapo_client.state.settings import Settings

    home = options.home.expanduser()
    settings = Settings.load(home)
    if is_held(home):
        raise UnableError(
            f"the node in {home} is running, and claims by itself as soon as a round is final; `sapo status` says what "
            "is ready. Wait, or stop it first"
        )
    with in_hand(home, settings, options.password_file, rpcs_of(options)) as hand:
        return claim_all(hand.reader, hand.outbox, hand.node, options.since)


def _print(document: dict[str, Any]) -> None:
    from sapo_verifier.chain.errors import coins

    for debt in document["settled"]:
        print(f"settled what the node missed in round {debt['round']}: {coins(debt['fee'])} coins from its bond")
    for row in document["rounds"]:
        print(f"round {row['round']:6}: producer {coins(row['producer'])}, auditor {coins(row['auditor'])}")
    if document["rounds"]:
        print(f"claimed {coins(document['total'])} tokens for {document['node']}")
    else:
        print(f"nothing to claim: no final and unclaimed pay since round {document['searched_from']}")


def _round(text: str) -> int:
    if not text.isdecimal() or int(text) >= 1 << 56:
        raise argparse.ArgumentTypeError(f"{text} is no round: a number from 0 on")
    return int(text)
