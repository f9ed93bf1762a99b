"""`sapo-verify batch`: one batch by its on-chain index, every check with its evidence."""

import argparse
import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

from sapo_verifier.commands.options import add_audit_options, number
from sapo_verifier.commands.program import Commands, add_parser

if TYPE_CHECKING:
    from sapo_verifier.audit import CheckResult

WORDS = "fetch one batch by its on-chain index, run the checks, print each with its evidence"


def add_command(commands: Commands) -> None:
    """Give `sapo-verify` the command."""
    parser = add_parser(commands, "batch", WORDS, run)
    add_audit_options(parser)
    parser.add_argument("index", type=number, help="the batch's position in the chain's list of all batches")


def run(options: argparse.Namespace) -> int:
    """Exit status 1 if a check failed or was void, 0 otherwise."""
    from sapo_verifier.checks import check_batch
    from sapo_verifier.commands.tools import batch_of, chain_of, open_tools

    with chain_of(options) as reader, open_tools(options, reader) as tools:
        batch = batch_of(reader, options.index)
        outcomes = check_batch(tools.audit(batch))
    _print_json(batch.index, outcomes) if options.json else _print(batch.index, batch.node, batch.round, outcomes)
    return 1 if any(outcome.status in ("fail", "void") for outcome in outcomes) else 0


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
