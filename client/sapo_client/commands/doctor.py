"""`sapo doctor`: everything that a node needs, tried from here: a line for each, with what to do about it."""

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from sapo_client.commands.options import chain_options, home_option, json_option, rpcs_of
from sapo_verifier.commands.program import Commands, add_parser
from sapo_verifier.errors import BAD, UNABLE

if TYPE_CHECKING:
    from sapo_client.node.checkup import Line
    from sapo_client.state.settings import Settings
    from sapo_verifier.chain.deployment import Deployment

WORDS = "try all that a node needs; exit status 1 if something is bad, 3 if something could not be told"


def add_command(commands: Commands) -> None:
    """Give `sapo` the command."""
    parser = add_parser(commands, "doctor", WORDS, run)
    home_option(parser)
    chain_options(parser)
    words = "a gateway of somebody else, which is asked for a block of this node: is it reached from outside?"
    parser.add_argument("--probe", metavar="URL", help=words + " (as [ipfs] probe_url says)")
    parser.add_argument("--quick", action="store_true", help="without the trial of this machine's speed (a minute)")
    json_option(parser)


def run(options: argparse.Namespace) -> int:
    """Prints a line for each thing as it is known. Raises SapoError where there is no home, or no deployment."""
    lines = []
    for line in _lines(options):
        lines.append(line)
        if not options.json:
            print(f"{line.level:8} {line.what:22} {line.words}", flush=True)
    if options.json:
        found = [{"what": line.what, "level": line.level, "words": line.words} for line in lines]
        print(json.dumps({"status": status_of(lines), "lines": found}, indent=1))
    return status_of(lines)


def status_of(lines: "list[Line]") -> int:
    """0 where nothing is bad; UNABLE where all that is bad could only not be told."""
    bad = [line for line in lines if line.level == "bad"]
    return 0 if not bad else UNABLE if all(line.unable for line in bad) else BAD


def _lines(options: argparse.Namespace) -> "Iterator[Line]":
    from sapo_client.node.checkup import chain_lines, rpc_lines, version_lines
    from sapo_client.node.checkup_beacon import beacon_lines
    from sapo_client.node.checkup_machine import disk_line, home_lines, serving_lines
    from sapo_client.state.home import is_held
    from sapo_client.state.settings import Settings
    from sapo_verifier.chain.deployment import Deployment

    home = options.home.expanduser()
    settings = Settings.load(home)
    deployment = Deployment.load(settings.chain.deployment)
    urls, running = rpcs_of(options) or settings.chain.rpc_urls(home), is_held(home)
    yield from home_lines(settings, home, deployment)
    yield from version_lines(deployment.spec)
    yield from rpc_lines(urls, deployment.chain_id)
    seen: list[float] = []  # seconds of a round, once the chain told
    yield from chain_lines(settings, home, deployment, urls, seen.append)
    pace = seen[0] / deployment.spec.chain.round_blocks if seen else None
    yield from beacon_lines(settings.chain.drand_relays, deployment, pace)
    yield from serving_lines(
        settings, home, deployment, urls, running=running, probe_url=options.probe or settings.ipfs.probe_url
    )
    yield disk_line(settings, home, deployment.spec)
    if not options.quick and not running:
        yield _speed(settings, deployment, home, seen[0] if seen else None)


def _speed(settings: "Settings", deployment: "Deployment", home: Path, round_seconds: float | None) -> "Line":
    from sapo_client.node.trial import speed_line

    return speed_line(settings, deployment.spec, home, round_seconds)
