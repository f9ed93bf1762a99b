"""The `sapo-verify` command: audit what is on chain, trusting nobody. A key only to send; torch only for --model."""

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
    from sapo_verifier.audit import CheckResult


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
        prog="sapo-verify", description="Audit a SAPO network. Needs no key and no account, but to send a fraud proof."
    )
    parser.add_argument("--version", action="version", version=f"sapo-verify {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    words = "fetch one batch by its on-chain index, run the checks, print each with its evidence"
    batch = _add(commands, "batch", words, _batch)
    batch.add_argument("index", type=_number, help="the batch's position in the chain's list of all batches")
    words = "fetch one batch and print the proof of a fault that the contract can see; exit status 1 if there is none"
    prove = _add(commands, "prove", words, _prove)
    prove.add_argument("index", type=_number, help="the batch's position in the chain's list of all batches")
    prove.add_argument("--send", action="store_true", help="send it; a quarter of the node's bond goes to who does")
    prove.add_argument("--keystore", type=Path, metavar="FILE", help="the key that sends; of no node that is running")
    prove.add_argument("--password-file", type=Path, metavar="FILE", help="the keystore's password; else asked for")
    words = "every batch of a round: what the checks say, verdicts, outcome, pay"
    round_ = _add(commands, "round", words, _round)
    round_.add_argument("round", type=_number, help="its number")
    round_.add_argument("--no-fetch", action="store_true", help="only what the chain says: fetch and check nothing")
    return parser


def _add(
    commands: "argparse._SubParsersAction[argparse.ArgumentParser]", name: str, words: str, command: object
) -> argparse.ArgumentParser:
    """A command with the options of all that fetch and check."""
    parser = commands.add_parser(name, help=words, description=words[0].upper() + words[1:] + ".")
    parser.set_defaults(command=command)
    parser.add_argument(
        "--deployment", type=Path, default=Path("deployment.json"), metavar="FILE", help="(%(default)s)"
    )
    parser.add_argument("--rpc", default="http://127.0.0.1:8545", help="the chain's RPC URL (%(default)s)")
    parser.add_argument(
        "--gateway", action="append", default=[], metavar="MULTIADDR", help="ask here too, after the producer"
    )
    parser.add_argument(
        "--base", type=Path, action="append", default=[], metavar="FOLDER", help="a base's files, for its tokenizer"
    )
    words = "recompute the producer's probabilities from its weights, which are fetched; needs torch and --base"
    parser.add_argument("--model", action="store_true", help=words)
    parser.add_argument("--allow-private", action="store_true", help="endpoints may be on private addresses (devnets)")
    parser.add_argument("--json", action="store_true", help="for programs")
    return parser


def _number(text: str) -> int:
    if not text.isdecimal() or int(text) >= 1 << 64:
        raise argparse.ArgumentTypeError(f"{text} is no index and no round: a number from 0 on")
    return int(text)


def _batch(options: argparse.Namespace) -> int:
    from sapo_verifier.checks import check_batch
    from sapo_verifier.commands.tools import bench, chain_of

    with chain_of(options) as reader, bench(options, reader) as tools:
        batch = reader.batch_at(options.index)
        outcomes = check_batch(tools.audit(batch))
    _print_json(batch.index, outcomes) if options.json else _print(batch.index, batch.node, batch.round, outcomes)
    return 1 if any(outcome.status in ("fail", "void") for outcome in outcomes) else 0


def _prove(options: argparse.Namespace) -> int:
    from sapo_verifier.commands.prove import prove

    return prove(options)


def _round(options: argparse.Namespace) -> int:
    from sapo_verifier.commands.round import show_round

    return show_round(options)


def _print(index: int, node: str, round_: int, outcomes: "Sequence[CheckResult]") -> None:
    print(f"batch {index}: round {round_}, node {node}")
    for outcome in outcomes:
        places = (("slot", outcome.slot), ("completion", outcome.k), ("position", outcome.t))
        where = ", ".join(f"{name} {value}" for name, value in places if value is not None)
        print(f"  {outcome.check:10} {outcome.status:8} {outcome.reason}{' at ' + where if where else ''}")
        for name, value in outcome.evidence.items():
            print(f"  {'':19} {name}: {value}")
    print("verdict:", verdict(outcomes))


def _print_json(index: int, outcomes: "Sequence[CheckResult]") -> None:
    print(json.dumps({"index": index, "outcomes": list(map(asdict, outcomes)), "verdict": verdict(outcomes)}, indent=1))


def verdict(outcomes: "Sequence[CheckResult]") -> str:
    """In words, what the outcomes come to."""
    statuses = [outcome.status for outcome in outcomes]
    if "fail" in statuses:
        return f"the check {outcomes[-1].check} failed"
    if "void" in statuses:
        return f"nothing can be said: {outcomes[-1].reason}"
    unknown = [outcome.check for outcome in outcomes if outcome.status == "unknown"]
    return "nothing failed" + (f"; not checked here: {', '.join(unknown)}" if unknown else "")
