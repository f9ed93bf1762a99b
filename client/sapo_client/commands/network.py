"""`sapo network`: a network, from the rules of its spec to its contracts on a chain, and what its file says."""

import argparse
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sapo_client.commands.options import json_option, number_from
from sapo_verifier.commands.options import add_rpc_options
from sapo_verifier.commands.program import Commands, add_parser
from sapo_verifier.errors import UsageError

if TYPE_CHECKING:
    from sapo_verifier.chain.deploying_on import Cost
    from sapo_verifier.chain.deployment import Deployment
    from sapo_verifier.drand import Drand
    from sapo_verifier.spec import Spec

STYLES = ("chatml", "llama3", "gemma", "plain")  # those of sapo_verifier.templates
ANSWERS = ("tag", "brackets", "whole")  # those of sapo_verifier.spec
SPEC = """Write a network's rules for language models that follow an instruction, as JSON.

Each base is measured from its folder: digest, vocabulary, ends, context. Its prompts are in ChatML (SmolLM2, Qwen and
others) unless --template says otherwise. Edit the rest to taste; then `sapo network deploy --spec` takes the file, and
names the digest to write where the tasks are others. A base's digest is over the files that a model needs: say with
the spec where they are from.
"""
DEPLOY = """Deploy the contracts for a spec; write the deployment file, and the network file for everybody who joins.

With --keystore the key signs here: what it costs is said first, and what breaks off goes on when the same command is
run again; OUT.transactions.json then has the transactions and constructor arguments. With --unlocked a devnet's RPC
signs itself.
"""


def add_command(commands: Commands) -> None:
    """Give `sapo` the command, with its steps."""
    words = "make a new network, or show what a network's file says"
    network = commands.add_parser("network", help=words, description=words[0].upper() + words[1:] + ".")
    steps = network.add_subparsers(title="steps", metavar="STEP", required=True)
    _add_spec(steps)
    _add_deploy(steps)
    _add_pocket(steps)
    show = add_parser(steps, "show", "what a network's file says", run_show)
    show.add_argument("file", type=Path, metavar="FILE", help="the network's file")
    json_option(show)


def _add_spec(steps: Commands) -> None:
    parser = add_parser(steps, "spec", "write a network's rules for bases of yours", run_spec)
    parser.description, parser.formatter_class = SPEC, argparse.RawDescriptionHelpFormatter
    words = "a base's id in the spec, and its folder or its name on the hub; repeat"
    parser.add_argument("--base", type=_base, action="append", required=True, metavar="ID=MODEL", help=words)
    parser.add_argument("--examples", action="store_true", help="show right answers first: for models below 1 B")
    words = "how prompts are written, for all bases; plain: without a chat's marks (%(default)s)"
    parser.add_argument("--template", choices=STYLES, default=STYLES[0], help=words)
    words = "where a completion has its answer: inside a tag, inside brackets, or the whole text is it (%(default)s)"
    parser.add_argument("--answer", choices=ANSWERS, default=ANSWERS[0], help=words)
    parser.add_argument("--round-blocks", type=int, default=64, metavar="N", help="a round's length (%(default)s)")
    parser.add_argument("--max-new-tokens", type=int, default=256, metavar="N", help="of a completion (%(default)s)")
    words = "how many nodes you expect: that sets draws, spot, min_accepts and min_rejects (%(default)s)"
    parser.add_argument("--nodes", type=number_from(2), default=30, metavar="N", help=words)
    words = "completions of a batch that each voter recomputes; 256: all (4 of 128 with 30 nodes)"
    parser.add_argument("--spot", type=number_from(1), metavar="N", help=words)
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
    words = "where the rounds' randomness is from: the chain's block hashes, or drand's network quicknet (%(default)s)"
    parser.add_argument("--beacon", choices=("blockhash", "drand"), default="blockhash", help=words)
    words = "with drand: between a block and the signature that it asks for; above reorganizations and drift (36)"
    parser.add_argument("--drand-margin", type=number_from(1), metavar="SECONDS", help=words)
    words = "for the network file, with drand: an HTTP relay that has its signatures; repeat"
    parser.add_argument("--drand-relay", action="append", default=[], metavar="URL", help=words)
    parser.add_argument("--first-block", type=int, metavar="N", help="first block of round 0 (default: shortly after)")
    words = "forge's output folder, for contracts that you compiled (default: those of this installation)"
    parser.add_argument("--artifacts", type=Path, metavar="DIR", help=words)
    parser.add_argument("--replace", action="store_true", help="overwrite what an earlier deployment wrote")
    parser.add_argument("--yes", action="store_true", help="pay what it costs, without being asked")
    words = "blocks to wait for after the last transaction (%(default)s)"
    parser.add_argument("--confirmations", type=number_from(0), default=5, metavar="N", help=words)
    parser.add_argument("--name", metavar="NAME", help="the network's name (sapo- and the chain's id)")
    parser.add_argument("--network", type=Path, metavar="FILE", help="the network file to write (NAME.toml beside OUT)")
    words = "for the network file: an RPC that anybody may use; repeat"
    parser.add_argument("--public-rpc", action="append", default=[], metavar="URL", help=words)
    words = "for the network file: where blocks are to be had; repeat"
    parser.add_argument("--gateway", action="append", default=[], metavar="MULTIADDR", help=words)
    words = "for the network file: where a base is from, such as qwen=Qwen/Qwen2.5-0.5B-Instruct@REVISION; repeat"
    parser.add_argument("--base-from", type=_base, action="append", default=[], metavar="ID=MODEL", help=words)


def _add_pocket(steps: Commands) -> None:
    words = "build the tiny policy that devnets train: for a network to try things with, on any machine"
    parser = add_parser(steps, "pocket", words, run_pocket)
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="where the Hugging Face folder goes")
    parser.add_argument("--seed", type=int, default=0, help="other seeds make other policies (%(default)s)")
    words = "of training on right answers; 150 take seconds and know less (those of a devnet, some minutes)"
    parser.add_argument("--steps", type=number_from(1), metavar="N", help=words)
    parser.add_argument("--spec", type=Path, metavar="FILE", help="write a network's rules for it, too")


def run_pocket(options: argparse.Namespace) -> int:
    """Raises UsageError where something is there already."""
    from sapo_client import pocket
    from sapo_verifier.networks import pocket_spec

    for path in (options.folder, options.spec):
        if path is not None and path.exists():
            raise UsageError(f"{path} exists already; name another one")
    pocket.build_pocket(options.folder, options.seed, steps=options.steps or pocket.STEPS, log=_say)
    if options.spec is not None:
        text = json.dumps(pocket_spec(options.folder).to_json(), indent=2, ensure_ascii=False)
        options.spec.write_text(text + "\n", encoding="utf-8")
    print(options.folder)
    return 0


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
        bases.append(chat_base(folder, name, answer=options.answer, examples=options.examples, style=options.template))
    try:
        spec = models_spec(
            bases,
            answer=options.answer,
            round_blocks=options.round_blocks,
            max_new_tokens=options.max_new_tokens,
            nodes=options.nodes,
            spot=options.spot,
        )
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
    """Raises SapoError, in words; no deployment file is written then."""
    from sapo_verifier.chain.deploy_journal import journal_of
    from sapo_verifier.chain.errors import coins
    from sapo_verifier.chain.reader import open_chain
    from sapo_verifier.chain.urls import rpc_urls
    from sapo_verifier.network_file import NetworkFile
    from sapo_verifier.networks import read_spec

    if options.out.exists() and not options.replace:
        raise UsageError(f"{options.out} exists already; name another file, or pass --replace")
    if not options.rpc and not options.rpc_file:
        raise UsageError("name the chain's RPC with --rpc URL or --rpc-file FILE")
    url = rpc_urls(options.rpc, options.rpc_file)[0]  # no other: a chain is chosen here, and not looked for
    spec = read_spec(options.spec)
    _check_tasks(options.spec, spec)
    if options.out.exists():
        journal_of(options.out).unlink(missing_ok=True)  # of what is replaced, and was finished
    path, public = options.network, _public(options, spec)  # nothing is paid for before these can be
    if path is None and options.name is not None:
        path = options.out.with_name(f"{options.name}.toml")
    if path is not None and path.exists() and not options.replace:
        raise UsageError(f"{path} exists already; name another file with --network, or pass --replace")
    deployment = _deployed(options, url, spec)
    with open_chain(deployment, url):
        pass  # it is the chain that the file describes
    network = NetworkFile.checked(
        public | {"name": options.name or f"sapo-{deployment.chain_id}", **_of(deployment)}, "the options"
    )
    path = path or options.out.with_name(f"{network.name}.toml")
    network.save(path)
    deployment.save(options.out)

    print(f"chain {deployment.chain_id}, block {deployment.block}; round 0 begins at block {deployment.first_block}")
    for name, address in deployment.contracts.model_dump().items():
        print(f"  {name:7} {address}")
    print(f"bond {coins(int(spec.chain.bond, 16))} coins; spec 0x{deployment.spec_digest.hex()}")
    print(f"written to {options.out}, and for everybody who takes part: {path}")
    return 0


def _check_tasks(file: Path, spec: "Spec") -> None:
    """Whoever edits the tasks has to write their new digest, too: no node would start otherwise. Raises SapoError."""
    from sapo_verifier.objects import hex_digest
    from sapo_verifier.tasks import OtherTasksError, TaskWorker, check_versions

    try:
        with TaskWorker() as worker:
            check_versions(spec, worker)
    except OtherTasksError as error:
        raise UsageError(
            f"{file} says that the digest of its tasks is {hex_digest(spec.versions.digest)}, and here it is "
            f"{hex_digest(error.digest)}: if you edited the tasks, write that as `digest` of `versions`"
        ) from error


def _deployed(options: argparse.Namespace, url: str, spec: "Spec") -> "Deployment":
    from sapo_verifier import keystore
    from sapo_verifier.chain import rpc
    from sapo_verifier.chain.deploy_journal import journal_of
    from sapo_verifier.chain.deploying import deploy
    from sapo_verifier.chain.deploying_on import Deploying
    from sapo_verifier.chain.errors import ChainUnavailable

    key, first, artifacts = options.keystore, options.first_block, options.artifacts
    drand = _drand(options)
    account = None if key is None else keystore.load(key, keystore.read_password(options.password_file))
    w3 = rpc.connect_for_sending(url)
    try:
        with rpc.transport(url):
            if account is None:
                return deploy(w3, options.unlocked, spec, drand=drand, artifacts=artifacts, first_block=first)
            path, confirmations = journal_of(options.out), options.confirmations
            made = Deploying(w3, account, spec, path, drand, artifacts, confirmations, say=_say)
            return made.run(_agreeing(yes=options.yes), first)
    except ChainUnavailable as error:
        if account is None:
            raise
        again = "run the same command again: it goes on where it was, and deploys nothing twice"
        raise ChainUnavailable(f"{error}. Then {again}") from error
    finally:
        rpc.close(w3)


def _drand(options: argparse.Namespace) -> "Drand | None":
    """Raises UsageError for options of a beacon that was not chosen."""
    from sapo_verifier.drand import MARGIN, quicknet

    if options.beacon == "drand":
        return quicknet(options.drand_margin or MARGIN)
    if options.drand_margin is not None or options.drand_relay:
        raise UsageError("--drand-margin and --drand-relay go with --beacon drand")
    return None


def _say(words: str) -> None:
    print(words, file=sys.stderr, flush=True)


def _agreeing(*, yes: bool) -> "Callable[[Cost], None]":
    def agree(cost: "Cost") -> None:
        _say(f"deploying takes {cost.words}")
        if yes:
            return
        if not sys.stdin.isatty():
            raise UsageError("nobody is here to agree to that: pass --yes")
        if input("Send the transactions? [y/N] ").strip().lower() not in ("y", "yes"):
            raise UsageError("nothing was sent")

    return agree


def _public(options: argparse.Namespace, spec: "Spec") -> dict[str, Any]:
    """What the network file says beside the deployment. Raises UsageError for what cannot be."""
    from sapo_verifier.network_file import Public

    public = {"rpc": options.public_rpc, "gateways": options.gateway, "bases": dict(options.base_from)}
    public["drand_relays"] = options.drand_relay
    _drand(options)
    Public.checked(public | {"name": options.name or "sapo"}, "the options")
    if unknown := sorted(set(public["bases"]) - {base.id for base in spec.bases}):
        raise UsageError(f"--base-from names {', '.join(unknown)}, which the spec does not have")
    return public


def _of(deployment: "Deployment") -> dict[str, Any]:
    return {"chain_id": deployment.chain_id, "deployment": deployment}


def run_show(options: argparse.Namespace) -> int:
    """Raises NetworkFileError for a file that cannot be."""
    from sapo_verifier.chain.errors import coins
    from sapo_verifier.network_file import NetworkFile
    from sapo_verifier.objects import hex_digest

    network = NetworkFile.load(options.file)
    deployment = network.deployment
    spec, chain = deployment.spec, deployment.spec.chain
    facts = {
        "name": network.name,
        "chain": network.chain_id,
        "deployment": hex_digest(deployment.digest()),
        "spec": hex_digest(deployment.spec_digest),
        "round": f"{chain.round_blocks} blocks; round 0 begins at block {deployment.first_block}",
        "batch": f"{spec.max_slots} groups of {spec.group_size} completions at most",
        "bond": f"{coins(int(chain.bond, 16))} coins",
        "beacon": "block hashes" if deployment.drand is None else f"drand, {deployment.drand.margin} s after a poke",
        "tasks": f"reasoning-gym {spec.versions.reasoning_gym}, items {hex_digest(spec.versions.digest)}",
        "contracts": deployment.contracts.model_dump(),
        "bases": {base.id: network.bases.get(base.id) or hex_digest(base.digest) for base in spec.bases},
        "rpc": network.rpc,
        "gateways": network.gateways,
        "drand relays": network.drand_relays,
    }
    if options.json:
        print(json.dumps(facts, indent=1))
        return 0
    for name, value in facts.items():
        rows = [f"{key:8} {each}" for key, each in value.items()] if isinstance(value, dict) else value
        for row in rows if isinstance(rows, list) else [rows]:
            print(f"{name:12} {row}")
    return 0


def _base(text: str) -> tuple[str, str]:
    name, _, model = text.partition("=")
    if not name or not model:
        raise argparse.ArgumentTypeError(f"{text}: give a name for the spec and a model, such as qwen=./qwen")
    return name, model
