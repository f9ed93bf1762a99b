"""`sapo devnet`: a network on this machine that goes on until it is told to end. The client finds it as an entry point.

What `--help` loads needs the standard library alone.
"""

import argparse
import json
import sys
from functools import partial
from pathlib import Path
from typing import Any

from sapo_verifier.commands.program import Commands, add_parser

ROUND_SECONDS = 30.0


def add_command(commands: Commands) -> None:
    """Give `sapo` the command, with its three steps."""
    devnet = commands.add_parser("devnet", help="a network on this machine", description="A network on this machine.")
    steps = devnet.add_subparsers(title="steps", metavar="STEP", required=True)
    up = add_parser(steps, "up", "start one, and keep it going until Ctrl-C", run_up)
    folder_option(up)
    up.add_argument("--detach", action="store_true", help="return once it is ready; `sapo devnet down` ends it")
    add_options(up)
    down = add_parser(steps, "down", "end the one that runs, and all that it started", run_down)
    folder_option(down)
    down.add_argument("--json", action="store_true", help="for programs")
    status = add_parser(steps, "status", "what it does; exit status 1 if it failed, 3 if none runs", run_status)
    folder_option(status)
    status.add_argument("--json", action="store_true", help="for programs")


def folder_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--folder", type=Path, help="for its logs, homes and state (the user's cache)")


def add_options(parser: argparse.ArgumentParser) -> None:
    """What `service.serve` reads."""
    parser.add_argument("--json", action="store_true", help="for programs")
    parser.add_argument("--nodes", type=int, metavar="N", help="with a model (2; with --formula 0)")
    parser.add_argument(
        "--formula", type=int, default=0, metavar="N", help="nodes without one, and faster (%(default)s)"
    )
    parser.add_argument("--rounds", type=int, metavar="N", help="the last round in which they publish (no end)")
    parser.add_argument(
        "--round-seconds", type=float, default=ROUND_SECONDS, metavar="S", help="how long each is (%(default)s)"
    )
    parser.add_argument("--policy", type=Path, metavar="FOLDER", help="what they train (a quick pocket policy)")
    parser.add_argument("--port", type=int, default=0, metavar="N", help="of the chain (any free one)")


def run_up(options: argparse.Namespace) -> int:
    """Raises SapoError, in words; nothing runs then."""
    from sapo_devnet.service import serve
    from sapo_devnet.state import detach, folder_of

    folder = folder_of(options.folder)
    if not options.detach:
        return serve(folder, options, partial(show, as_json=options.json))
    show(detach(folder, options), as_json=options.json)
    return 0


def run_down(options: argparse.Namespace) -> int:
    """Exit status 0 also where none runs: nothing does afterwards."""
    from sapo_devnet.state import folder_of, stop

    folder = folder_of(options.folder)
    stopped = stop(folder)
    if options.json:
        print(json.dumps({"folder": str(folder), "stopped": stopped}))
    else:
        print(f"the devnet in {folder} has ended" if stopped else f"no devnet ran in {folder}")
    return 0


def run_status(options: argparse.Namespace) -> int:
    """Exit status 0 if it runs, 1 if it failed; raises DevnetUnable (3) where there is none."""
    from sapo_devnet.state import folder_of, status

    found = status(folder_of(options.folder))
    show(found, as_json=options.json)
    return 0 if found["running"] else 1


def show(found: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        print(json.dumps(found, indent=1), flush=True)
        return
    for name, value in found.items():
        if name == "nodes":
            for node in value:
                print(f"{node['name']:12} {node['address']}, gateway {node['gateway']}, home {node['home']}")
        elif name == "accounts":
            print(f"{name:12} {len(value)} with 10,000 coins each; --json shows their keys")
        elif not isinstance(value, dict | list):
            print(f"{name:12} {value}")
    sys.stdout.flush()
