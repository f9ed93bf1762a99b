"""The `sapo-verify` command: audit what is on chain, trusting nobody. No key, no account; torch only for --model."""

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from sapo_verifier import __version__
from sapo_verifier.errors import SapoError

if TYPE_CHECKING:
    from sapo_verifier.evidence import Outcome


def main(argv: Sequence[str] | None = None) -> int:
    """Exit status: 0 no check failed, 1 one did or the audit could not be made (in words), 2 wrong usage."""
    options = _parser().parse_args(argv)
    try:
        return int(options.command(options))
    except SapoError as error:
        print(f"sapo-verify: {error}", file=sys.stderr)
        return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="sapo-verify", description="Audit a SAPO network. Needs no key and no account."
    )
    parser.add_argument("--version", action="version", version=f"sapo-verify {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    words = "fetch one batch by its on-chain index, run the checks, print each with its evidence"
    batch = commands.add_parser("batch", help=words, description=words[0].upper() + words[1:] + ".")
    batch.set_defaults(command=_batch)
    batch.add_argument("index", type=_index, help="the batch's position in the chain's list of all batches")
    batch.add_argument("--deployment", type=Path, default=Path("deployment.json"), metavar="FILE", help="(%(default)s)")
    batch.add_argument("--rpc", default="http://127.0.0.1:8545", help="the chain's RPC URL (%(default)s)")
    batch.add_argument(
        "--gateway", action="append", default=[], metavar="MULTIADDR", help="ask here too, after the producer"
    )
    batch.add_argument(
        "--base", type=Path, action="append", default=[], metavar="FOLDER", help="a base's files, for its tokenizer"
    )
    words = "recompute the producer's probabilities from its weights, which are fetched; needs torch and --base"
    batch.add_argument("--model", action="store_true", help=words)
    batch.add_argument("--allow-private", action="store_true", help="endpoints may be on private addresses (devnets)")
    batch.add_argument("--json", action="store_true", help="for programs")
    return parser


def _index(text: str) -> int:
    if not text.isdecimal() or int(text) >= 1 << 64:
        raise argparse.ArgumentTypeError(f"{text} is no batch's index: a number from 0 on")
    return int(text)


def _batch(options: argparse.Namespace) -> int:
    from sapo_verifier.bases import Bases
    from sapo_verifier.chain.deployment import Deployment
    from sapo_verifier.chain.reader import ChainReader
    from sapo_verifier.checks import check_batch
    from sapo_verifier.evidence import Audit, facts_of, fetch_batch
    from sapo_verifier.ipfs import GatewayReader, parse_endpoint
    from sapo_verifier.model import policy_model
    from sapo_verifier.tasks import TaskWorker

    for gateway in options.gateway:
        parse_endpoint(gateway, allow_private=options.allow_private)  # its fault is better told than passed over
    bases = Bases(options.base)
    model = policy_model(bases) if options.model else None
    deployment = Deployment.load(options.deployment)
    reader = ChainReader(options.rpc, deployment)
    with GatewayReader(options.gateway, allow_private=options.allow_private) as store, TaskWorker() as worker:
        reader.check()
        batch = reader.batch_at(options.index)
        beacon = reader.beacon(batch.round)
        if beacon is None:
            raise SapoError(f"round {batch.round} has no beacon although it has batches: the RPC contradicts itself")
        worker.check_versions(deployment.spec)
        facts = facts_of(deployment, batch, beacon)
        peers, weights = [reader.node_of(batch.node).endpoint], model is not None and model.runs
        blocks = fetch_batch(store, deployment.spec, facts, peers, weights=weights)
        audit = Audit(facts, deployment.spec, blocks, worker, bases.tokenizer, model)
        outcomes = check_batch(audit)
    reader.close()
    _print_json(options.index, outcomes) if options.json else _print(options.index, facts.node, facts.round, outcomes)
    return 1 if any(outcome.status in ("fail", "void") for outcome in outcomes) else 0


def _print(index: int, node: str, round_: int, outcomes: "Sequence[Outcome]") -> None:
    print(f"batch {index}: round {round_}, node {node}")
    for outcome in outcomes:
        places = (("slot", outcome.slot), ("completion", outcome.k), ("position", outcome.t))
        where = ", ".join(f"{name} {value}" for name, value in places if value is not None)
        print(f"  {outcome.check:10} {outcome.status:8} {outcome.reason}{' at ' + where if where else ''}")
        for name, value in outcome.evidence.items():
            print(f"  {'':19} {name}: {value}")
    print("verdict:", verdict(outcomes))


def _print_json(index: int, outcomes: "Sequence[Outcome]") -> None:
    print(json.dumps({"index": index, "outcomes": list(map(asdict, outcomes)), "verdict": verdict(outcomes)}, indent=1))


def verdict(outcomes: "Sequence[Outcome]") -> str:
    """In words, what the outcomes come to."""
    statuses = [outcome.status for outcome in outcomes]
    if "fail" in statuses:
        return f"the check {outcomes[-1].check} failed"
    if "void" in statuses:
        return f"nothing can be said: {outcomes[-1].reason}"
    unknown = [outcome.check for outcome in outcomes if outcome.status == "unknown"]
    return "nothing failed" + (f"; not checked here: {', '.join(unknown)}" if unknown else "")
