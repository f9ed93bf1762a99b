"""`sapo status`: what the node says, what the chain says of it, and whether that is well."""

import argparse
import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sapo_client.commands.options import chain_options, home_option, json_option, rpcs_of
from sapo_verifier.commands.program import Commands, add_parser

WORDS = "what the node is doing; exit status 1 if it is unhealthy"


def add_command(commands: Commands) -> None:
    """Give `sapo` the command."""
    parser = add_parser(commands, "status", WORDS, run)
    home_option(parser)
    words = "a gateway of somebody else, which is asked for a block of this node: is it reached from outside?"
    parser.add_argument("--probe", metavar="URL", help=words + " (as [ipfs] probe_url says)")
    chain_options(parser)
    json_option(parser)


def run(options: argparse.Namespace) -> int:
    """See `show`."""
    return show(options.home.expanduser(), as_json=options.json, rpcs=rpcs_of(options), probe=options.probe)


def show(home: Path, *, as_json: bool, rpcs: Sequence[str] | None = None, probe: str | None = None) -> int:
    """Print the status, within ten seconds whatever the chain's RPC does; exit status 0 if the node is healthy, 1 with
    the reasons if not. rpcs: instead of the home's. Raises UnableError where nothing can be told: the node never ran.
    """
    started = time.monotonic()
    from sapo_client.node.observing.condition import Look
    from sapo_client.state.moved import refuse_moved
    from sapo_client.state.settings import Settings
    from sapo_verifier import net

    settings = Settings.load(home)
    refuse_moved(home)
    look = Look(home, settings, rpcs, probe, leave=net.abort_all)  # nobody waits for what is late
    try:
        facts = look.condition(started)
    finally:
        look.close()
    _print(facts, as_json=as_json)
    return 0 if facts["healthy"] else 1


def _print(facts: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        print(json.dumps(facts, indent=1))
        return
    for name, value in facts.items():
        if name == "pay":
            for round_, words in value.items():
                print(f"{f'pay of round {round_}':20} {words}")
        elif name != "reasons":
            print(f"{name:20} {value}")
    for reason in facts["reasons"]:
        print(f"unhealthy: {reason}")
