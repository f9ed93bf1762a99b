"""`sapo init`: a node's home, with its settings and an encrypted key."""

import argparse
import sys
from pathlib import Path

from sapo_client.commands.options import (
    POLICY_HELP,
    base_option,
    device_option,
    engine_option,
    home_option,
    lora_option,
    password_option,
    set_option,
)
from sapo_client.training.rules import DEFAULT_EXTERNAL, EXTERNAL_RULES
from sapo_verifier.commands.options import add_rpc_options
from sapo_verifier.commands.program import Commands, add_parser


def add_command(commands: Commands) -> None:
    """Give `sapo` the command."""
    parser = add_parser(commands, "init", "make a node's home: settings and an encrypted key", run)
    home_option(parser)
    password_option(parser)
    words = "an existing key, which is copied, instead of a new one; its password is asked for, to check it"
    parser.add_argument("--keystore", type=Path, metavar="FILE", help=words)
    parser.add_argument("--deployment", type=Path, required=True, metavar="FILE", help="the network's deployment.json")
    parser.add_argument("--policy", required=True, metavar="MODEL", help=POLICY_HELP)
    base_option(parser)
    lora_option(parser)
    device_option(parser)
    words = "of a base that peers use, to check"
    parser.add_argument("--base-folder", type=Path, action="append", default=[], metavar="FOLDER", help=words)
    add_rpc_options(parser)
    parser.add_argument("--owner", help="the node's address, where this key is only its operator")
    parser.add_argument("--ipfs-api", default="/ip4/127.0.0.1/tcp/5001/http", metavar="MULTIADDR", help="(%(default)s)")
    parser.add_argument(
        "--ipfs-gateway", default="/ip4/127.0.0.1/tcp/8080/http", metavar="MULTIADDR", help="(%(default)s)"
    )
    parser.add_argument("--endpoint", metavar="MULTIADDR", help="where peers reach this node's blocks (the gateway)")
    parser.add_argument("--allow-private", action="store_true", help="peers may be on private addresses (devnets)")
    parser.add_argument("--i", type=int, default=4, help="own groups per round (%(default)s)")
    parser.add_argument("--j", type=int, default=4, help="external groups per round (%(default)s)")
    words = "what other nodes' tokens count (%(default)s)"
    parser.add_argument("--external", choices=EXTERNAL_RULES, default=DEFAULT_EXTERNAL, help=words)
    parser.add_argument("--seed", type=int, default=0, help="of the node's own choices (%(default)s)")
    parser.add_argument("--threads", type=int, default=0, help="CPU threads; 0: torch's own choice (%(default)s)")
    parser.add_argument("--poll-seconds", type=float, default=2.0, help="how often to ask the chain (%(default)s)")
    engine_option(parser)
    set_option(parser, "any other setting of node.toml, written into it; may be given several times")
    parser.add_argument("--light-key", action="store_true", help="fast and weak key derivation: devnets only")


def run(options: argparse.Namespace) -> int:
    """Prints the node's address."""
    from sapo_client.policy.hub import model_folder
    from sapo_client.state import home
    from sapo_client.state.assignments import assigned, merged
    from sapo_client.state.settings import Settings
    from sapo_verifier import keystore
    from sapo_verifier.chain.urls import RPC, rpc_urls

    rpc_urls(options.rpc, options.rpc_file)  # a file that cannot be is told before anything is made
    document = {
        "chain": {
            "rpc": options.rpc if options.rpc or options.rpc_file else [RPC],
            "rpc_file": options.rpc_file.resolve() if options.rpc_file else None,
            "deployment": options.deployment.resolve(),
            "poll_seconds": options.poll_seconds,
            "owner": options.owner.lower() if options.owner else None,
        },
        "policy": {
            "folder": model_folder(options.policy),
            "base": options.base,
            "lora_rank": options.lora_rank,
            "device": options.device,
        },
        "audit": {"bases": [folder.resolve() for folder in options.base_folder]},
        "ipfs": {
            "api": options.ipfs_api,
            "gateway": options.ipfs_gateway,
            "endpoint": options.endpoint,
            "allow_private": options.allow_private,
        },
        "sapo": {
            "own_groups": options.i,
            "external_groups": options.j,
            "external": options.external,
            "seed": options.seed,
        },
        "generation": {"engine": options.engine},
        "threads": options.threads,
    }
    settings = Settings.checked(merged(document, assigned(options.set), "the options"), "the options")
    folder, key = options.home.expanduser(), options.keystore
    address = home.init(folder, settings, options.password_file, light=options.light_key, key=key)
    print(keystore.BACKUP, file=sys.stderr)
    print(address)
    return 0
