"""`sapo run`: the node, until it is told to stop."""

import argparse
import gc
from pathlib import Path
from typing import Any

from sapo_client.commands.options import (
    POLICY_HELP,
    base_option,
    engine_option,
    home_option,
    lora_option,
    node_extra_missing,
    password_option,
    set_option,
)
from sapo_verifier.commands.program import Commands, add_parser


def add_command(commands: Commands) -> None:
    """Give `sapo` the command."""
    parser = add_parser(commands, "run", "run the node until it is told to stop", run)
    home_option(parser)
    password_option(parser)
    parser.add_argument("--register", action="store_true", help="lock the bond if the node is not registered yet")
    words = "do not wait a round where the key sent something without this home: nothing else uses it"
    parser.add_argument("--i-know", action="store_true", help=words)
    parser.add_argument("--policy", metavar="MODEL", help="instead of the settings' one: " + POLICY_HELP)
    base_option(parser, "its id in the network's spec (as the settings say; with --policy by the files' digest)")
    lora_option(parser, None)
    engine_option(parser, None, "what generates, instead of the settings' choice")
    words = "log to this file instead of standard error; it is rotated by size ([log] megabytes, files)"
    parser.add_argument("--log-file", type=Path, metavar="FILE", help=words)
    words = "how a line of the log looks: for people, as key=value, or a JSON object (as the settings say)"
    parser.add_argument("--log-format", choices=("text", "logfmt", "json"), help=words)
    words = "POST there when the node's health changes (as the settings say)"
    parser.add_argument("--webhook", metavar="URL", help=words)
    set_option(parser, "any other setting of node.toml, for this run alone; may be given several times")


def run(options: argparse.Namespace) -> int:
    """Raises SapoError with what to do where the node cannot run."""
    from sapo_client.node.preflight import ready

    home, changes = options.home.expanduser(), _changes(options)
    register, i_know = options.register, options.i_know
    with ready(home, options.password_file, register=register, i_know=i_know, changes=changes) as checked:
        try:
            from sapo_client.node.start import run as run_node  # torch takes its seconds only now
        except ModuleNotFoundError as error:
            raise node_extra_missing(error) from error
        run_node(checked)
    gc.freeze()  # or the interpreter looks through all that torch brought before it ends: seconds
    return 0


def _changes(options: argparse.Namespace) -> dict[str, Any]:
    """What holds in this run instead of the home's settings."""
    from sapo_client.policy.hub import model_folder
    from sapo_client.state.assignments import assigned, merged

    policy: dict[str, Any] = {}
    if options.policy is not None:
        policy |= {"folder": model_folder(options.policy), "base": None}
    if options.base is not None:
        policy["base"] = options.base
    if options.lora_rank is not None:
        policy["lora_rank"] = options.lora_rank
    generation = {} if options.engine is None else {"engine": options.engine}
    log: dict[str, Any] = {}
    if options.log_file is not None:
        log["file"] = options.log_file.expanduser().absolute()
    if options.log_format is not None:
        log["format"] = options.log_format
    alerts = {} if options.webhook is None else {"webhook": options.webhook, "webhook_file": None}
    changed = {"policy": policy, "generation": generation, "log": log, "alerts": alerts}
    return merged(changed, assigned(options.set), "the options")
