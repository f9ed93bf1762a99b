"""What a node's outbox holds, read beside the process that owns it; and what waits in it for too long."""

import sqlite3
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sapo_client.state.sqlite import beside

LEAST_SECONDS = 60.0
MOST_NAMED = 3


def read(path: Path, question: str, *values: Any) -> list[Any]:
    """The rows; [] where there is no outbox, or none that can be read (`sapo run` says what is wrong with it)."""
    if not path.exists():
        return []
    try:
        with beside(path) as db:
            return db.execute(question, values).fetchall()
    except sqlite3.Error:
        return []


def transactions(path: Path) -> dict[str, int]:
    """How many transactions of an outbox are in which state."""
    rows = read(path, "SELECT status, count(*) FROM entry WHERE call IS NOT NULL GROUP BY status")
    return {str(status): int(count) for status, count in sorted(rows)}


def held_up(path: Path) -> dict[str, str]:
    """What every transaction that is not mined yet waits for, by its key, in words; without those that just wait."""
    rows = read(path, "SELECT key, reason FROM entry WHERE status IN ('intent', 'sent') AND reason != '' ORDER BY id")
    return {str(key): str(reason) for key, reason in rows}


def waits(waiting: Any, now: float) -> dict[str, float]:
    """Seconds that each transaction has waited for, by its key. waiting: of status.json."""
    since = waiting if isinstance(waiting, dict) else {}
    return {str(key): max(0.0, now - float(at)) for key, at in since.items() if isinstance(at, int | float)}


def outbox_reasons(waits: Mapping[str, float], held_up: Mapping[str, str], round_seconds: float) -> list[str]:
    """Transactions that have waited for a whole round. What they wait for is said where it is known."""
    late = {key: seconds for key, seconds in waits.items() if seconds > max(LEAST_SECONDS, round_seconds)}
    wrong = [
        f"the transaction {key} waits for {seconds:.0f} s: "
        + (held_up.get(key) or "it is signed or about to be, and no block takes it; is the chain's RPC well?")
        for key, seconds in list(late.items())[:MOST_NAMED]
    ]
    if len(late) > MOST_NAMED:
        wrong.append(f"{len(late) - MOST_NAMED} more transactions wait as long")
    return wrong
