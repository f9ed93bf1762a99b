"""`sapo-verify round`: a round: what is found of each batch beside what the network decided, and its pay."""

import argparse
from typing import TYPE_CHECKING

from sapo_verifier.commands.options import add_audit_options, add_strict_option, number
from sapo_verifier.commands.program import Commands, add_parser

if TYPE_CHECKING:
    from sapo_verifier.chain.audits import Votes
    from sapo_verifier.rounds import BatchReport, RoundReport

WORDS = "every batch of a round: what the checks say beside what the network decided, and pay"
HEADS = ("index", "node", "score", "checks", "stage 1", "stage 2", "state", "", "producer", "auditor")


def add_command(commands: Commands) -> None:
    """Give `sapo-verify` the command."""
    parser = add_parser(commands, "round", WORDS, run)
    add_audit_options(parser)
    add_strict_option(parser)
    parser.add_argument("round", type=number, help="its number")
    parser.add_argument("--no-fetch", action="store_true", help="only what the chain says: fetch and check nothing")


def run(options: argparse.Namespace) -> int:
    """Exit status 0 the network decided as the checks here, 1 it did not or pays otherwise, 3 unknown or not final.

    Without checks nothing is unknown: 0 once the round is final and its pay is right.
    """
    from sapo_verifier.commands.tools import pinned_chain_of, verifier_of
    from sapo_verifier.documents import to_json
    from sapo_verifier.errors import UNABLE
    from sapo_verifier.rounds import report_on_round

    with pinned_chain_of(options) as reader:
        if options.no_fetch:
            report = report_on_round(reader, options.round, None)
        else:
            with verifier_of(options, reader) as verifier:
                report = report_on_round(reader, options.round, verifier)
    print(to_json(report)) if options.json else _print(report)
    if options.no_fetch and report.batches:
        wrong = any(batch.pay is not None and batch.pay.differs for batch in report.batches)
        return 1 if wrong else 0 if report.final else UNABLE
    return report.exit_status(strict=options.strict)


def _print(report: "RoundReport") -> None:
    from sapo_verifier.chain.errors import coins
    from sapo_verifier.commands.tools import source_in_words
    from sapo_verifier.pay import pay_in_words

    totals = report.totals
    when = "final" if report.final else f"final in round {report.final_in}, now {report.current}"
    print(f"round {report.round} ({when}): {totals.batches} batches")
    if not report.batches:
        return
    lines = [HEADS, *(_cells(batch) for batch in report.batches)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(HEADS))]
    for line in lines:
        print("  " + "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())
    for batch in report.batches:
        if batch.outcomes or batch.why_void:
            print(f"  batch {batch.index}: {batch.agreed}: {batch.words}{_why(batch)}")
    print("votes: accepts/rejects/voids of all revealed")
    states = ", ".join(f"{count} {state}" for state, count in totals.states.items())
    if not report.final:
        print(f"totals: {states}")
    else:
        print(f"totals: {states}; {totals.claimed} ones claimed, paid verdicts {totals.paid_verdicts}")
        for batch in report.batches:
            if batch.pay is not None:
                print(f"  pay of {batch.node}: {pay_in_words(batch.pay)}")
        print(
            f"pay: {coins(totals.producers)} to producers and {coins(totals.auditors)} to auditors, "
            f"of {coins(totals.pool)} at most; {coins(totals.locked)} stay locked"
        )
    print(source_in_words(report.source))


def _why(batch: "BatchReport") -> str:
    decisive = next((result for result in reversed(batch.outcomes) if result.status != "pass"), None)
    return f"; {decisive.check}: {decisive.reason}" if decisive else ""


def _cells(batch: "BatchReport") -> tuple[str, ...]:
    from sapo_verifier.chain.errors import coins

    return (
        str(batch.index),
        batch.node,
        str(batch.score),
        batch.checks or "-",
        _votes(batch.stage_1),
        _votes(batch.stage_2) if batch.in_stage_2 else "-",
        batch.state,
        batch.agreed if batch.outcomes else "-",
        coins(batch.pay.producer) if batch.pay else "-",
        coins(batch.pay.auditor) if batch.pay else "-",
    )


def _votes(votes: "Votes") -> str:
    return f"{votes.accepts}/{votes.rejects}/{votes.voids} of {votes.revealed}"
