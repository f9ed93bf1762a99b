"""`sapo-verify round`: every batch of a round, what the checks say of it, how it was voted on, and what it is paid."""

import argparse
import json
from collections import Counter
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from sapo_verifier.commands.options import add_audit_options, number
from sapo_verifier.commands.program import Commands, add_parser
from sapo_verifier.errors import UnableError
from sapo_verifier.schedule import FINAL_AFTER

if TYPE_CHECKING:
    from sapo_verifier.chain.audits import BatchOutcome, Payout
    from sapo_verifier.chain.reader import ChainReader
    from sapo_verifier.facts import BatchInfo
    from sapo_verifier.verify import Verified

WORDS = "every batch of a round: what the checks say, verdicts, outcome, pay"


def add_command(commands: Commands) -> None:
    """Give `sapo-verify` the command."""
    parser = add_parser(commands, "round", WORDS, run)
    add_audit_options(parser)
    parser.add_argument("round", type=number, help="its number")
    parser.add_argument("--no-fetch", action="store_true", help="only what the chain says: fetch and check nothing")


def run(options: argparse.Namespace) -> int:
    """Exit status 1 if a check failed or was void, where the checks were run; 0 otherwise."""
    from sapo_verifier.checks import Verdict
    from sapo_verifier.commands.tools import chain_of, verifier_of

    with chain_of(options) as reader:
        current = reader.current_round()
        if options.round > current:
            raise UnableError(f"round {options.round} has not begun: the chain is in round {current}")
        batches = reader.batches_of(options.round)
        found: dict[int, Verified] = {}
        if batches and not options.no_fetch:
            with verifier_of(options, reader) as verifier:
                found = {batch.index: verifier.verify(batch) for batch in batches}
        document = _document(reader, options.round, current, batches, found)
    print(json.dumps(document, indent=1)) if options.json else _print(document)
    return 1 if any(each.verdict in (Verdict.REJECT, Verdict.VOID) for each in found.values()) else 0


def _document(
    reader: "ChainReader",
    round_: int,
    current: int,
    batches: "list[BatchInfo]",
    found: "dict[int, Verified]",
) -> dict[str, Any]:
    """Amounts are in the token's smallest unit."""
    from sapo_verifier.chain.audits import AuditsReader

    audits = AuditsReader(reader)
    fares = audits.outcomes_of([batch.index for batch in batches])
    payouts = audits.payouts_in(round_, [batch.node for batch in batches])
    totals, pool = audits.totals(round_), audits.reward_pool(round_)
    paid = sum(pay.amount for pay in payouts)
    rows = [
        _row(batch, fare, pay, found.get(batch.index)) for batch, fare, pay in zip(batches, fares, payouts, strict=True)
    ]
    return {
        "round": round_,
        "current": current,
        "final": totals.is_final,
        "final_in": round_ + FINAL_AFTER,
        "batches": rows,
        "totals": {
            "batches": len(rows),
            "states": dict(Counter(row["state"] for row in rows)),
            "claimed": totals.claimed,
            "paid_verdicts": totals.paid_verdicts,
            "pool": pool,
            "producers": sum(pay.producer for pay in payouts),
            "auditors": sum(pay.auditor for pay in payouts),
            "locked": pool - paid if totals.is_final else 0,
        },
    }


def _row(batch: "BatchInfo", fare: "BatchOutcome", pay: "Payout", verified: "Verified | None") -> dict[str, Any]:
    row: dict[str, Any] = {
        "index": batch.index,
        "node": batch.node,
        "score": batch.claim.bit_count(),
        "state": fare.state.value,
        "stage_1": asdict(fare.stage_1),
        "in_stage_2": fare.in_stage_2,
        "stage_2": asdict(fare.stage_2),
        "disputer": fare.disputer or "",
        "producer": pay.producer,
        "auditor": pay.auditor,
        "paid_verdicts": pay.verdicts,
        "claimed": pay.claimed,
    }
    if verified is not None:
        decisive = next((result for result in reversed(verified.results) if result.status != "pass"), None)
        row["checks"] = verified.verdict.name.lower()
        row["why"] = f"{decisive.check}: {decisive.reason}" if decisive else ""
    return row


def _print(document: dict[str, Any]) -> None:
    from sapo_verifier.chain.errors import coins

    totals = document["totals"]
    when = "final" if document["final"] else f"final in round {document['final_in']}, now {document['current']}"
    print(f"round {document['round']} ({when}): {totals['batches']} batches")
    if not document["batches"]:
        return
    heads = ("index", "node", "score", "checks", "stage 1", "stage 2", "state", "producer", "auditor")
    lines = [heads, *(_cells(row) for row in document["batches"])]
    widths = [max(len(line[i]) for line in lines) for i in range(len(heads))]
    for line in lines:
        print("  " + "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())
    for row in document["batches"]:
        if row.get("why"):
            print(f"  batch {row['index']}: {row['why']}")
    print("votes: accepts/rejects/voids of all revealed")
    states = ", ".join(f"{count} {state}" for state, count in totals["states"].items())
    print(f"totals: {states}; {totals['claimed']} ones claimed, paid verdicts {totals['paid_verdicts']}")
    if document["final"]:
        print(
            f"pay: {coins(totals['producers'])} to producers and {coins(totals['auditors'])} to auditors, "
            f"of {coins(totals['pool'])} at most; {coins(totals['locked'])} stay locked"
        )


def _cells(row: dict[str, Any]) -> tuple[str, ...]:
    from sapo_verifier.chain.errors import coins

    return (
        str(row["index"]),
        row["node"],
        str(row["score"]),
        row.get("checks", "-"),
        _votes(row["stage_1"]),
        _votes(row["stage_2"]) if row["in_stage_2"] else "-",
        row["state"],
        coins(row["producer"]),
        coins(row["auditor"]),
    )


def _votes(votes: dict[str, int]) -> str:
    return f"{votes['accepts']}/{votes['rejects']}/{votes['voids']} of {votes['revealed']}"
