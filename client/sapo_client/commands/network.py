"""`sapo network`: a new network, from the rules of its spec to its contracts on a chain."""

import argparse
import json
from pathlib import Path

from sapo_verifier.commands.options import add_rpc_options
from sapo_verifier.commands.program import Commands, add_parser
from sapo_verifier.errors import UsageError

STYLES = ("chatml", "llama3", "gemma", "plain")  # those of sapo_verifier.templates
SPEC = """Write a network's rules for language models that follow an instruction, as JSON.

Each base is measured from its folder: digest, vocabulary, ends, context. Its prompts are in ChatML (SmolLM2, Qwen and
others) unless --template says otherwise. Edit the rest to taste; then
`sapo network deploy --spec` takes the file. A digest is over all files of a folder: say with the spec where it is from.
"""
DEPLOY = """Deploy the contracts for a spec and write the deployment file that everybody who takes part needs.

With --keystore the key signs here; with --unlocked a devnet's RPC signs itself.
"""


def add_command(commands: Commands) -> None:
    """Give `sapo` the command, with its two steps."""
    network = commands.add_parser("network", help="make a new network", description="Make a new network.")
    steps = network.add_subparsers(title="steps", metavar="STEP", required=True)
    _add_spec(steps)
    _add_deploy(steps)


def _add_spec(steps: Commands) -> None:
    parser = add_parser(steps, "spec", "write a network's rules for bases of yours", run_spec)
    parser.description, parser.formatter_class = SPEC, argparse.RawDescriptionHelpFormatter
    words = "a base's id in the spec, and its folder or its name on the hub; repeat"
    parser.add_argument("--base", type=_base, action="append", required=True, metavar="ID=MODEL", help=words)
    parser.add_argument("--examples", action="store_true", help="show right answers first: for models below 1 B")
    words = "how prompts are written, for all bases; plain: without a chat's marks (%(default)s)"
    parser.add_argument("--template", choices=STYLES, default=STYLES[0], help=words)
    parser.add_argument("--round-blocks", type=int, default=64, metavar="N", help="a round's length (%(default)s)")
    parser.add_argument("--max-new-tokens", type=int, default=256, metavar="N", help="of a completion (%(default)s)")
    parser.add_argument("--out", type=Path, metavar="FILE", help="where to write it (standard output)")


def _add_deploy(steps: Commands) -> None:
    parser = add_parser(steps, "deploy", "deploy the contracts for a spec", run_deploy)
    parser.description, parser.formatter_class = DEPLOY, argparse.RawDescriptionHelpFormatter
    add_rpc_options(parser, "no default; to deploy only the first is used")
    parser.add_argument("--spec", required=True, type=Path, metavar="FILE", help="the network's rules, JSON")
    parser.add_argument("--out", required=True, type=Path, metavar="FILE", help="the deployment file to write")
    key = parser.add_mutually_exclusive_group(required=True)
    key.add_argument("--keystore", type=Path, metavar="FILE", help="the deployer's key")
    key.add_argument("--unlocked", metavar="ADDRESS", help="an account whose key the RPC holds (devnets only)")
    parser.add_argument("--password-file", type=Path, metavar="FILE", help="the keystore's password; else asked for")
    parser.add_argument("--first-block", type=int, metavar="N", help="first block of round 0 (default: shortly after)")
    words = "forge's output folder, for contracts that you compiled (default: those of this installation)"
    parser.add_argument("--artifacts", type=Path, metavar="DIR", help=words)
    parser.add_argument("--replace", action="store_true", help="overwrite --out if it exists")


def run_spec(options: argparse.Namespace) -> int:
    """Raises SapoError for a model that is not there or that no node could run, for a template that its tokenizer has
    no marks for, and for rules that no network can have."""
    from sapo_client.policy.hub import model_folder
    from sapo_verifier.bases import Tokenizer
    from sapo_verifier.folders import check_folder
    from sapo_verifier.networks import chat_base, models_spec
    from sapo_verifier.templates import check_style

    bases = []
    for name, model in options.base:
        folder = model_folder(model)
        check_folder(folder)
        check_style(Tokenizer(folder), options.template, name)
        bases.append(chat_base(folder, name, examples=options.examples, style=options.template))
    try:
        spec = models_spec(bases, round_blocks=options.round_blocks, max_new_tokens=options.max_new_tokens)
    except ValueError as error:
        raise UsageError(f"no network can have these rules: {error}") from error
    text = json.dumps(spec.to_json(), indent=2, ensure_ascii=False)
    if options.out is None:
        print(text)
        return 0
    if options.out.exists():
        raise UsageError(f"{options.out} exists already; name another file")
    options.out.write_text(text + "\n", encoding="utf-8")
    return 0


def run_deploy(options: argparse.Namespace) -> int:
    """Raises SapoError, in words; nothing is written then."""
    from sapo_verifier import keystore
    from sapo_verifier.chain import rpc
    from sapo_verifier.chain.deploying import deploy
    from sapo_verifier.chain.errors import coins
    from sapo_verifier.chain.reader import open_chain
    from sapo_verifier.chain.urls import rpc_urls
    from sapo_verifier.networks import read_spec

    if options.out.exists() and not options.replace:
        raise UsageError(f"{options.out} exists already; name another file, or pass --replace")
    if not options.rpc and not options.rpc_file:
        raise UsageError("name the chain's RPC with --rpc URL or --rpc-file FILE")
    url = rpc_urls(options.rpc, options.rpc_file)[0]  # no other: a chain is chosen here, and not looked for
    spec = read_spec(options.spec)
    account = options.unlocked
    if options.keystore is not None:
        account = keystore.load(options.keystore, keystore.read_password(options.password_file))

    w3 = rpc.connect_for_sending(url)
    with rpc.transport(url):
        deployment = deploy(w3, account, spec, artifacts=options.artifacts, first_block=options.first_block)
    rpc.close(w3)
    deployment.save(options.out)
    with open_chain(deployment, url):
        pass  # it is the chain that the file describes

    print(f"chain {deployment.chain_id}, block {deployment.block}; round 0 begins at block {deployment.first_block}")
    for name, address in deployment.contracts.model_dump().items():
        print(f"  {name:7} {address}")
    print(f"bond {coins(int(spec.chain.bond, 16))} coins; spec 0x{deployment.spec_digest.hex()}")
    print(f"written to {options.out}. Hand it to everybody who takes part.")
    return 0


def _base(text: str) -> tuple[str, str]:
    name, _, model = text.partition("=")
    if not name or not model:
        raise argparse.ArgumentTypeError(f"{text}: give a name for the spec and a model, such as qwen=./qwen")
    return name, model
