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
    joins = parser.add_mutually_exclusive_group(required=True)
    joins.add_argument("--network", type=Path, metavar="FILE", help="the network's file: contracts, RPCs, bases")
    joins.add_argument("--deployment", type=Path, metavar="FILE", help="or its deployment.json alone, where it lies")
    words = POLICY_HELP + "; or, with --network, the id of a base that the file says where to get"
    parser.add_argument("--policy", required=True, metavar="MODEL", help=words)
    words = "an existing key, which is copied, instead of a new one; its password is asked for, to check it"
    parser.add_argument("--keystore", type=Path, metavar="FILE", help=words)
    base_option(parser)
    lora_option(parser)
    device_option(parser)
    words = "of a base that peers use, to check"
    parser.add_argument("--base-folder", type=Path, action="append", default=[], metavar="FOLDER", help=words)
    add_rpc_options(parser, "http://127.0.0.1:8545; with --network that file's, which are asked last in any case")
    parser.add_argument("--offline", action="store_true", help="ask no chain: what to send is not said then")
    parser.add_argument("--owner", help="the node's address, where this key is only its operator")
    words = "the node's own IPFS daemon, or one that it waits for, such as Kubo (%(default)s)"
    parser.add_argument("--ipfs-daemon", choices=("embedded", "external"), default="embedded", help=words)
    words = "the daemon's RPC (embedded: a free port of loopback; external: /ip4/127.0.0.1/tcp/5001/http)"
    parser.add_argument("--ipfs-api", metavar="MULTIADDR", help=words)
    words = "where the embedded daemon serves blocks (a free port of loopback)"
    parser.add_argument("--ipfs-gateway", metavar="MULTIADDR", help=words)
    words = "with `user:password` or `bearer TOKEN` for an RPC that asks for it; readable by you only"
    parser.add_argument("--ipfs-auth-file", type=Path, metavar="FILE", help=words)
    parser.add_argument("--endpoint", metavar="MULTIADDR", help="where peers reach this node's blocks (the gateway)")
    parser.add_argument("--allow-private", action="store_true", help="peers may be on private addresses (devnets)")
    parser.add_argument("--i", type=int, help="own groups per round (4, or as many as the network's rules allow)")
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
    """Prints the node's address; and, on standard error, what to do next."""
    from sapo_client.commands.first_steps import chain_if_there, next_steps
    from sapo_client.policy.hub import model_folder
    from sapo_client.state import home
    from sapo_client.state.assignments import assigned, merged
    from sapo_client.state.joining import chain_settings, own_groups, policy_of
    from sapo_client.state.ports import own_addresses
    from sapo_client.state.settings import Settings
    from sapo_verifier import keystore
    from sapo_verifier.chain.deployment import Deployment
    from sapo_verifier.chain.urls import RPC, rpc_urls
    from sapo_verifier.network_file import NetworkFile

    home_folder, network = options.home.expanduser(), NetworkFile.load(options.network) if options.network else None
    folder = model_folder(policy_of(network, options.policy))
    deployment = network.deployment if network else Deployment.load(options.deployment)
    # A file of RPCs that cannot be is told before anything is made.
    urls = rpc_urls(options.rpc, options.rpc_file, network.rpc if network else ())
    place = chain_settings(network) if network else {"deployment": options.deployment.resolve()}
    named = options.rpc or options.rpc_file or (network and network.rpc)
    document = {
        "chain": {
            "rpc": options.rpc if named else [RPC],
            "rpc_file": options.rpc_file.resolve() if options.rpc_file else None,
            **place,
            "poll_seconds": options.poll_seconds,
            "owner": options.owner.lower() if options.owner else None,
        },
        "policy": {
            "folder": folder,
            "base": options.base,
            "lora_rank": options.lora_rank,
            "device": options.device,
        },
        "audit": {"bases": [folder.resolve() for folder in options.base_folder]},
        "ipfs": {
            "daemon": options.ipfs_daemon,
            "api_auth_file": options.ipfs_auth_file.resolve() if options.ipfs_auth_file else None,
            "endpoint": options.endpoint,
            "allow_private": options.allow_private,
        }
        | {name: given for name in ("api", "gateway") if (given := getattr(options, f"ipfs_{name}"))},
        "sapo": {
            "own_groups": own_groups(options.i, deployment.spec),
            "external_groups": options.j,
            "external": options.external,
            "seed": options.seed,
        },
        "generation": {"engine": options.engine},
        "threads": options.threads,
    }
    document = merged(document, assigned(options.set), "the options")
    if document["ipfs"]["daemon"] == "embedded":
        document["ipfs"] = dict(zip(("api", "gateway"), own_addresses(), strict=True)) | document["ipfs"]
    settings = Settings.checked(document, "the options")
    settings.ipfs.credentials(home_folder)

    def make() -> str:
        light, password = options.light_key, options.password_file
        return home.init(home_folder, settings, password, light=light, network=network, key=options.keystore)

    if options.offline:
        address, steps = make(), [keystore.BACKUP]
    else:
        with chain_if_there(deployment, urls) as (reader, said):
            address = make()
            steps = next_steps(reader, said, home_folder, settings, address)
    print("\n".join(steps), file=sys.stderr)
    print(address)
    return 0
