"""The `sapo` command. Everything heavy is imported by the command that needs it, so that --help is instant."""

import argparse
import logging
import sqlite3
import sys
from collections.abc import Sequence
from pathlib import Path

from sapo_client.commands import bench
from sapo_client.state.sqlite import disk_failure
from sapo_client.training.rules import DEFAULT_EXTERNAL, EXTERNAL_RULES
from sapo_verifier import __version__
from sapo_verifier.errors import SapoError

DEFAULT_HOME = Path("~/.sapo")
POLICY_HELP = "the model to train: a folder, or a name on the Hugging Face hub, which is downloaded then"


def main(argv: Sequence[str] | None = None) -> int:
    """Exit status: 0 done, 1 a SapoError or a full disk (in words), 2 wrong usage."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    if arguments[:1] == ["ipfs"]:
        from sapo_verifier.ipfs.daemon.serve import main as ipfs

        return ipfs(arguments[1:])
    options = _parser().parse_args(arguments)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s level=%(levelname)s %(message)s", stream=sys.stderr)
    try:
        return int(options.command(options))
    except SapoError as error:
        words = str(error)
    except (OSError, sqlite3.Error) as error:
        found = disk_failure(error)
        if found is None:
            raise
        words = found
    print(f"sapo: {words}", file=sys.stderr)
    return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="sapo", description="Run a node of a SAPO network.")
    parser.add_argument("--version", action="version", version=f"sapo {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    _add_init(commands)
    run = _add(commands, "run", "run the node until it is told to stop", _run)
    _password_option(run)
    run.add_argument("--register", action="store_true", help="lock the bond if the node is not registered yet")
    run.add_argument("--policy", metavar="MODEL", help="instead of the settings' one: " + POLICY_HELP)
    _lora_option(run, None)
    _engine_option(run, None, "what generates, instead of the settings' choice")
    _add_train(commands)
    bench.add_command(commands)
    status = _add(commands, "status", "what the node is doing; exit status 1 if it is unhealthy", _status)
    status.add_argument("--json", action="store_true", help="for programs")
    words = "pull the pay of rounds that are final; for a node that is stopped: a running one does so itself"
    claim = _add(commands, "claim", words, _claim)
    _password_option(claim)
    claim.add_argument(
        "--since", type=_round, metavar="ROUND", help="search from here on (registration, or 5000 rounds)"
    )
    claim.add_argument("--json", action="store_true", help="for programs; amounts in the token's smallest unit")
    commands.add_parser("ipfs", help="the embedded IPFS daemon by itself", add_help=False)
    return parser


def _add_init(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    init = _add(commands, "init", "make a node's home: settings and an encrypted key", _init)
    _password_option(init)
    init.add_argument("--deployment", type=Path, required=True, metavar="FILE", help="the network's deployment.json")
    init.add_argument("--policy", required=True, metavar="MODEL", help=POLICY_HELP)
    init.add_argument("--base", default="pocket", help="the model's id in the network's spec (%(default)s)")
    _lora_option(init)
    _device_option(init)
    init.add_argument(
        "--other-base",
        type=Path,
        action="append",
        default=[],
        metavar="FOLDER",
        help="of a base that peers use, to check",
    )
    init.add_argument("--rpc", default="http://127.0.0.1:8545", help="the chain's RPC URL (%(default)s)")
    init.add_argument("--owner", help="the node's address, where this key is only its operator")
    init.add_argument("--ipfs-api", default="/ip4/127.0.0.1/tcp/5001/http", metavar="MULTIADDR", help="(%(default)s)")
    init.add_argument(
        "--ipfs-gateway", default="/ip4/127.0.0.1/tcp/8080/http", metavar="MULTIADDR", help="(%(default)s)"
    )
    init.add_argument("--endpoint", metavar="MULTIADDR", help="where peers reach this node's blocks (the gateway)")
    init.add_argument("--allow-private", action="store_true", help="peers may be on private addresses (devnets)")
    init.add_argument("--i", type=int, default=4, help="own groups per round (%(default)s)")
    init.add_argument("--j", type=int, default=4, help="external groups per round (%(default)s)")
    words = "what other nodes' tokens count (%(default)s)"
    init.add_argument("--external", choices=EXTERNAL_RULES, default=DEFAULT_EXTERNAL, help=words)
    init.add_argument("--seed", type=int, default=0, help="of the node's own choices (%(default)s)")
    init.add_argument("--threads", type=int, default=0, help="CPU threads; 0: torch's own choice (%(default)s)")
    init.add_argument("--poll-seconds", type=float, default=2.0, help="how often to ask the chain (%(default)s)")
    _engine_option(init, "torch", "what generates (%(default)s)")
    init.add_argument("--light-key", action="store_true", help="fast and weak key derivation: devnets only")


def _add_train(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    train = _add(commands, "train", "train alone: no chain, no IPFS, no peers", _train)
    train.add_argument("--silo", action="store_true", required=True, help="say that you mean it")
    train.add_argument("--policy", required=True, metavar="MODEL", help=POLICY_HELP)
    _lora_option(train)
    _device_option(train)
    train.add_argument("--spec", type=Path, metavar="FILE", help="a network's rules (those of the pocket policy)")
    train.add_argument("--base", default="pocket", help="the model's id in the spec (%(default)s)")
    train.add_argument("--rounds", type=int, default=100, help="in all, earlier runs included (%(default)s)")
    train.add_argument("--i", type=int, default=8, help="groups per round (%(default)s)")
    train.add_argument("--seed", type=int, default=0, help="(%(default)s)")
    train.add_argument("--threads", type=int, default=0, help="CPU threads; 0: torch's own choice (%(default)s)")
    _engine_option(train, "torch", "what generates (%(default)s)")


def _add(
    commands: "argparse._SubParsersAction[argparse.ArgumentParser]", name: str, words: str, command: object
) -> argparse.ArgumentParser:
    parser = commands.add_parser(name, help=words, description=words[0].upper() + words[1:] + ".")
    parser.add_argument("--home", type=Path, default=DEFAULT_HOME, help="the node's folder (%(default)s)")
    parser.set_defaults(command=command)
    return parser


def _lora_option(parser: argparse.ArgumentParser, default: int | None = 0) -> None:
    words = "train adapters of this rank instead of all weights; 0: all weights"
    words += ", as is the default" if default == 0 else " (as the settings say)"
    parser.add_argument("--lora-rank", type=int, default=default, metavar="N", help=words)


def _device_option(parser: argparse.ArgumentParser) -> None:
    words = "where training, records and checks run: cpu, cuda or cuda:N (%(default)s)"
    parser.add_argument("--device", default="cpu", help=words)


def _engine_option(parser: argparse.ArgumentParser, default: str | None, words: str) -> None:
    parser.add_argument("--engine", choices=("torch", "vllm"), default=default, help=words)


def _password_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--password-file", type=Path, metavar="FILE", help="of the key; readable by you only. Without: asked for"
    )


def _init(options: argparse.Namespace) -> int:
    from sapo_client.policy.hub import model_folder
    from sapo_client.state import home
    from sapo_client.state.settings import Settings
    from sapo_verifier import keystore

    document = {
        "chain": {
            "rpc": options.rpc,
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
        "audit": {"bases": [folder.resolve() for folder in options.other_base]},
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
    settings = Settings.checked(document, "the options")
    address = home.init(options.home.expanduser(), settings, options.password_file, light=options.light_key)
    print(keystore.BACKUP, file=sys.stderr)
    print(address)
    return 0


def _run(options: argparse.Namespace) -> int:
    from sapo_client.node.preflight import ready
    from sapo_client.policy.hub import model_folder

    policy: dict[str, object] = {} if options.lora_rank is None else {"lora_rank": options.lora_rank}
    if options.policy is not None:
        policy["folder"] = model_folder(options.policy)
    home, engine = options.home.expanduser(), options.engine
    with ready(home, options.password_file, register=options.register, policy=policy, engine=engine) as checked:
        try:
            from sapo_client.node.start import run  # torch takes its seconds only now
        except ModuleNotFoundError as error:
            raise _node_extra_missing(error) from error
        run(checked)
    return 0


def _train(options: argparse.Namespace) -> int:
    from sapo_client.policy.hub import model_folder
    from sapo_client.state.settings import GenerationSettings

    try:
        from sapo_client.node.silo import train_command
    except ModuleNotFoundError as error:
        raise _node_extra_missing(error) from error
    train_command(
        options.home.expanduser(),
        model_folder(options.policy),
        options.spec,
        options.base,
        rounds=options.rounds,
        own_groups=options.i,
        seed=options.seed,
        threads=options.threads,
        lora_rank=options.lora_rank,
        device=options.device,
        generation=GenerationSettings(engine=options.engine),
    )
    return 0


def _node_extra_missing(error: ModuleNotFoundError) -> SapoError:
    return SapoError(f"this installation has no {error.name}: a node needs `pip install sapo-network[node]`")


def _status(options: argparse.Namespace) -> int:
    from sapo_client.commands.status import show

    return show(options.home.expanduser(), as_json=options.json)


def _round(text: str) -> int:
    if not text.isdecimal() or int(text) >= 1 << 56:
        raise argparse.ArgumentTypeError(f"{text} is no round: a number from 0 on")
    return int(text)


def _claim(options: argparse.Namespace) -> int:
    from sapo_client.duties.claiming import claim

    return claim(options.home.expanduser(), options.password_file, since=options.since, as_json=options.json)
