"""`sapo-verify check`: the checks of a batch from a bundle, without the network."""

import argparse
import json
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sapo_verifier.commands.program import Commands, add_parser
from sapo_verifier.errors import SapoError

if TYPE_CHECKING:
    from sapo_verifier.audit import CheckResult
    from sapo_verifier.bundles.bundle import Bundle

WORDS = "run the checks of a batch that `export` wrote into a file; needs no network and trusts one block hash"


def add_command(commands: Commands) -> None:
    """Give `sapo-verify` the command."""
    parser = add_parser(commands, "check", WORDS, run)
    parser.add_argument("bundle", type=Path, metavar="FILE", help="what `sapo-verify export` wrote")
    words = "of the block that proves it, from a source that you trust; refused if it is another (shown)"
    parser.add_argument("--block-hash", type=_hash, metavar="0x…", help=words)
    words = "the deployment file of the network that you mean; refused if the bundle is another's (shown)"
    parser.add_argument("--deployment", type=Path, metavar="FILE", help=words)
    words = "a base's files, for its tokenizer; may be given several times"
    parser.add_argument("--base-folder", type=Path, action="append", default=[], metavar="FOLDER", help=words)
    words = "recompute the producer's probabilities from the weights in the bundle; needs torch and --base-folder"
    parser.add_argument("--model", action="store_true", help=words)
    parser.add_argument("--json", action="store_true", help="for programs")


def run(options: argparse.Namespace) -> int:
    """Exit status 1 if a check failed or was void, or the bundle proves nothing; 0 otherwise."""
    from sapo_verifier.bundles.bundle import open_bundle

    with open_bundle(options.bundle) as bundle:
        _refuse_other(bundle, options)
        results = _check(bundle, options)
        _print_json(bundle, results, options) if options.json else _print(bundle, results, options)
    return 1 if any(result.status in ("fail", "void") for result in results) else 0


def _refuse_other(bundle: "Bundle", options: argparse.Namespace) -> None:
    found = bundle.proven.block_hash
    if options.block_hash not in (None, found):
        raise SapoError(
            f"the bundle is proven by the block 0x{found.hex()}, not by the one that you trust: it is of "
            "another block, of another chain, or made up"
        )
    if options.deployment is None:
        return
    from sapo_verifier.chain.deployment import Deployment

    meant, facts = Deployment.load(options.deployment), bundle.facts
    if (meant.chain_id, meant.contracts.rounds) != (facts.chain_id, facts.rounds):
        raise SapoError(
            f"the bundle is of chain {facts.chain_id} and Rounds at {facts.rounds}; your network's are "
            f"{meant.chain_id} and {meant.contracts.rounds}"
        )


def _check(bundle: "Bundle", options: argparse.Namespace) -> "list[CheckResult]":
    from sapo_verifier.audit import Audit
    from sapo_verifier.bases import Bases
    from sapo_verifier.bundles.offline import NoTasks
    from sapo_verifier.checks import check_batch
    from sapo_verifier.errors import TaskError, UnableError
    from sapo_verifier.model import policy_model
    from sapo_verifier.tasks import TaskWorker, check_versions

    bases, weights = Bases(options.base_folder), options.model and bundle.has_weights()
    model = policy_model(bases) if weights else None
    with TaskWorker() as worker:
        try:
            check_versions(bundle.spec, worker)
        except (UnableError, TaskError) as error:
            worker = NoTasks(str(error))
        blocks = bundle.blocks(weights=model is not None and model.runs)
        return check_batch(Audit(bundle.facts, bundle.spec, blocks, worker, bases.tokenizer, model))


def _trust(bundle: "Bundle", options: argparse.Namespace) -> list[str]:
    """What has to be believed, in words."""
    proven = bundle.proven
    time = datetime.fromtimestamp(proven.time, UTC) if proven.time < 1 << 37 else None
    at = f" of {time:%Y-%m-%d %H:%M:%S} UTC" if time else ""
    named = "the one that you gave" if options.block_hash else "compare it with a source that you trust"
    meant = "those that you meant" if options.deployment else "compare them with your network's"
    return [
        f"the hash of block {proven.block}{at}: 0x{proven.block_hash.hex()}; {named}",
        f"chain {proven.facts.chain_id}, Rounds at {proven.facts.rounds}: {meant}",
    ]


def _print(bundle: "Bundle", results: "list[CheckResult]", options: argparse.Namespace) -> None:
    facts = bundle.facts
    print(f"batch {facts.index}: round {facts.round}, node {facts.node}")
    for result in results:
        places = (("slot", result.slot), ("completion", result.k), ("position", result.t))
        where = ", ".join(f"{name} {value}" for name, value in places if value is not None)
        print(f"  {result.check:10} {result.status:8} {result.reason}{' at ' + where if where else ''}")
        for name, value in result.evidence.items():
            print(f"  {'':19} {name}: {value}")
    if options.model and not bundle.has_weights():
        print("  the bundle has no weights: make it with `sapo-verify export --weights`")
    print("this trusts:", *_trust(bundle, options), sep="\n  ")


def _print_json(bundle: "Bundle", results: "list[CheckResult]", options: argparse.Namespace) -> None:
    proven, facts = bundle.proven, bundle.facts
    document: dict[str, Any] = {
        "index": facts.index,
        "round": facts.round,
        "node": facts.node,
        "chain": facts.chain_id,
        "rounds": facts.rounds,
        "spec": "0x" + proven.spec_digest.hex(),
        "block": proven.block,
        "block_hash": "0x" + proven.block_hash.hex(),
        "outcomes": list(map(asdict, results)),
        "trusts": _trust(bundle, options),
    }
    print(json.dumps(document, indent=1))


def _hash(text: str) -> bytes:
    digits = text.removeprefix("0x").lower()
    if len(digits) != 64 or set(digits) - set("0123456789abcdef"):
        raise argparse.ArgumentTypeError(f"{text} is no block hash: 0x and 64 hex digits")
    return bytes.fromhex(digits)
