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
    from sapo_verifier.verify import Verified

WORDS = "fetch one batch by its on-chain index, run the checks, print each with its evidence"


def add_command(commands: Commands) -> None:
    """Give `sapo-verify` the command."""
    parser = add_parser(commands, "batch", WORDS, run)
    add_audit_options(parser)
    parser.add_argument("index", type=number, help="the batch's position in the chain's list of all batches")


def run(options: argparse.Namespace) -> int:
    """Exit status 1 if a check failed or was void, 0 otherwise."""
    from sapo_verifier.commands.tools import chain_of, verifier_of

    with chain_of(options) as reader, verifier_of(options, reader) as verifier:
        verified = verifier.verify(verifier.batch(options.index))
    _print_json(verified) if options.json else _print(verified)
    return 1 if any(result.status in ("fail", "void") for result in verified.results) else 0


def _print(verified: "Verified") -> None:
    print(f"batch {verified.batch.index}: round {verified.batch.round}, node {verified.batch.node}")
    for result in verified.results:
        places = (("slot", result.slot), ("completion", result.k), ("position", result.t))
        where = ", ".join(f"{name} {value}" for name, value in places if value is not None)
        print(f"  {result.check:10} {result.status:8} {result.reason}{' at ' + where if where else ''}")
        for name, value in result.evidence.items():
            print(f"  {'':19} {name}: {value}")
    print("verdict:", in_words(verified.results))


def _print_json(verified: "Verified") -> None:
    results = verified.results
    document = {"index": verified.batch.index, "outcomes": list(map(asdict, results)), "verdict": in_words(results)}
    print(json.dumps(document, indent=1))


def in_words(results: "Sequence[CheckResult]") -> str:
    """What the results come to."""
    statuses = [result.status for result in results]
    if "fail" in statuses:
        return f"the check {results[-1].check} failed"
    if "void" in statuses:
        return f"nothing can be said: {results[-1].reason}"
    unknown = [result.check for result in results if result.status == "unknown"]
    return "nothing failed" + (f"; not checked here: {', '.join(unknown)}" if unknown else "")
