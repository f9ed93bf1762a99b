"""`sapo-verify batch`: every check of one batch with its evidence, beside what the network decided."""

import argparse
from typing import TYPE_CHECKING

from sapo_verifier.commands.options import add_audit_options, add_strict_option, number
from sapo_verifier.commands.program import Commands, add_parser

if TYPE_CHECKING:
    from sapo_verifier.rounds import OneBatch

WORDS = "fetch one batch by its on-chain index, run the checks, and say whether the network decided as they do"


def add_command(commands: Commands) -> None:
    """Give `sapo-verify` the command."""
    parser = add_parser(commands, "batch", WORDS, run)
    add_audit_options(parser)
    add_strict_option(parser)
    parser.add_argument("index", type=number, help="the batch's position in the chain's list of all batches")


def run(options: argparse.Namespace) -> int:
    """Exit status 0 the network decided as the checks here, 1 it did not, 3 unknown or not final yet."""
    from sapo_verifier.commands.tools import pinned_chain_of, verifier_of
    from sapo_verifier.documents import to_json
    from sapo_verifier.rounds import report_on_batch

    with pinned_chain_of(options) as reader, verifier_of(options, reader) as verifier:
        report = report_on_batch(verifier, options.index)
    print(to_json(report)) if options.json else _print(report)
    return report.exit_status(strict=options.strict)


def _print(report: "OneBatch") -> None:
    from sapo_verifier.commands.tools import source_in_words
    from sapo_verifier.pay import pay_in_words
    from sapo_verifier.showing import slot_lines

    print(f"batch {report.index}: round {report.round}, node {report.node}")
    for result in report.outcomes:
        places = (("slot", result.slot), ("completion", result.k), ("position", result.t))
        where = ", ".join(f"{name} {value}" for name, value in places if value is not None)
        print(f"  {result.check:10} {result.status:8} {result.reason}{' at ' + where if where else ''}")
        for name, value in result.evidence.items():
            print(f"  {'':19} {name}: {value}")
    print("verdict:", report.verdict)
    print(f"{report.agreed}: {report.words}")
    votes = f"stage 1 {_votes(report, 1)}" + (f", stage 2 {_votes(report, 2)}" if report.in_stage_2 else "")
    print(f"votes: {votes} (accepts/rejects/voids of all revealed)")
    if report.pay is not None:
        print(f"pay: {pay_in_words(report.pay)}")
    if report.transaction:
        print(f"submitted: block {report.block}, transaction {report.transaction}")
    print(f"manifest: {report.manifest}\npolicy: {report.policy}")
    for slot in report.slots:
        print("\n".join(slot_lines(slot)))
    print(source_in_words(report.source))


def _votes(report: "OneBatch", stage: int) -> str:
    votes = report.stage_1 if stage == 1 else report.stage_2
    return f"{votes.accepts}/{votes.rejects}/{votes.voids} of {votes.revealed}"
