"""`sapo move`: a stopped node to another machine, with all that it owes and is owed."""

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from sapo_client.commands.options import (
    POLICY_HELP,
    chain_options,
    changes_of,
    home_option,
    json_option,
    rpcs_of,
    set_option,
)
from sapo_verifier.commands.program import Commands, add_parser


def add_command(commands: Commands) -> None:
    """Give `sapo` the command, with its steps."""
    words = "move a stopped node to another machine"
    move = commands.add_parser("move", help=words, description=words[0].upper() + words[1:] + ".")
    steps = move.add_subparsers(title="steps", metavar="STEP", required=True)
    export = add_parser(steps, "export", "all of a stopped node into one file; it runs here no more", run_export)
    export.add_argument("file", type=Path, metavar="FILE", help="to be written; keep it as you keep the key")
    home_option(export)
    chain_options(export)
    import_ = add_parser(steps, "import", "a node from such a file, once the old one is silent", run_import)
    import_.add_argument("file", type=Path, metavar="FILE", help="as `sapo move export` wrote it")
    home_option(import_)
    import_.add_argument("--policy", metavar="MODEL", help="instead of the settings' one: " + POLICY_HELP)
    set_option(import_, "any other setting that differs here, written into node.toml; may be given several times")
    chain_options(import_)
    words = "neither look nor wait whether the old one still acts: it is gone for certain"
    import_.add_argument("--i-know", action="store_true", help=words)
    undo = add_parser(steps, "undo", "the node runs here again: for a file that was imported nowhere", run_undo)
    home_option(undo)
    chain_options(undo)
    words = "whatever the key did since; what the node promised elsewhere is lost"
    undo.add_argument("--i-know", action="store_true", help=words)
    for step in (export, import_, undo):
        json_option(step)


def run_export(options: argparse.Namespace) -> int:
    """Raises SapoError in words; the node can go on then."""
    from sapo_client.node.moving import leave

    home = options.home.expanduser()
    left = leave(home, options.file, rpcs_of(options))
    about = left.about
    _tell(
        options,
        f"wrote {options.file} ({left.size} bytes): node {about.node} as of round {about.round}, block {about.block}, "
        f"with {left.blocks} blocks that it still owes",
        {"file": str(options.file), "bytes": left.size, "node": about.node, "round": about.round}
        | {"block": about.block, "blocks": left.blocks, "missing": about.missing},
    )
    if about.missing:
        print(
            f"sapo: {about.missing} blocks that it still owes are not in {home}: another IPFS daemon has them. "
            "Until their rounds are final, keep that daemon where peers find it, or move it, too",
            file=sys.stderr,
        )
    print(
        f"The node in {home} runs here no more. On the other machine: sapo move import FILE --home HOME, then sapo "
        "run; be there within this round if you can. The password of the key is not in the file. Until it ran there, "
        f"`sapo move undo --home {home}` takes all back",
        file=sys.stderr,
    )
    return 0


def run_import(options: argparse.Namespace) -> int:
    """Raises SapoError in words; nothing is made then."""
    from sapo_client.node.arriving import arrive

    def say(words: str) -> None:
        print(f"sapo: {words}", file=sys.stderr, flush=True)

    home = options.home.expanduser()
    about, blocks = arrive(options.file, home, changes_of(options), rpcs_of(options), i_know=options.i_know, say=say)
    _tell(
        options,
        f"made {home}: node {about.node} as of round {about.round}, with {blocks} blocks that it still owes",
        {"home": str(home), "node": about.node, "round": about.round, "blocks": blocks},
    )
    say(
        f"start it with `sapo run --home {home}`. Look first whether [ipfs] api, gateway and endpoint in node.toml are "
        "this machine's"
    )
    return 0


def run_undo(options: argparse.Namespace) -> int:
    """Raises SapoError where the node ran elsewhere."""
    from sapo_client.node.moving import stay

    home = options.home.expanduser()
    stay(home, rpcs_of(options), i_know=options.i_know)
    words = f"the node in {home} can run here again: never import the file that was written of it"
    _tell(options, words, {"home": str(home)})
    return 0


def _tell(options: argparse.Namespace, words: str, document: dict[str, Any]) -> None:
    print(json.dumps(document, indent=1) if options.json else words)
