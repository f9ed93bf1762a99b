"""A policy that dies: it answers every task alike, so no group has an advantage and nothing is left to learn from."""

from collections.abc import Mapping, Sequence
from typing import Any

SHARE = 0.9  # of all completions are the same one
ROUNDS = 3  # in which it was so, one after the other
LEAST_COMPLETIONS = 8  # of a round that tells anything


def collapse_reasons(reports: Sequence[Mapping[str, Any]]) -> list[str]:
    """reports: rounds.jsonl's. By the last rounds with completions; one whose answer is always right is not dead."""
    told = [report for report in reports if report.get("commonest") is not None]
    last = [report for report in told if report["completions"] >= LEAST_COMPLETIONS][-ROUNDS:]
    if len(last) < ROUNDS or any(report["commonest"] < SHARE for report in last):
        return []
    if all(report["reward"] == report["completions"] for report in last):
        return []
    return [
        f"the policy answers every task alike: in each of its last {ROUNDS} rounds at least {SHARE:.0%} of the "
        "completions are the same one, so it learns nothing any more; stop the node, move its newest checkpoints away, "
        "and start it again with a lower [sapo] learning_rate"
    ]
