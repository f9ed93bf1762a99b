"""What a node has earned, what is to come, and when its round ends, in words: for `sapo status` and `sapo top`."""

from collections.abc import Mapping
from typing import Any

from sapo_client.duties.leaving import rough
from sapo_client.duties.metrics import COIN

UNKNOWN = "not known: the chain did not tell"


def prospects(numbers: Mapping[str, Any], round_seconds: object, round_blocks: int) -> dict[str, str]:
    """numbers: Told.numbers, of which any may be missing. round_seconds: as the node measured it, if it did."""
    return {
        "round_ends_in": _left(numbers, round_seconds, round_blocks),
        "pay_earned": _earned(numbers),
        "pay_to_come": _to_come(numbers),
    }


def few_digits(wei: int) -> str:
    """Coins, or tokens, for people."""
    return f"{wei / COIN:.6g}"


def _left(numbers: Mapping[str, Any], round_seconds: object, round_blocks: int) -> str:
    blocks = numbers.get("blocks_left")
    if blocks is None:
        return UNKNOWN
    if not isinstance(round_seconds, int | float):
        return f"{blocks} blocks; how long a block takes is not known yet"
    return f"{rough(blocks * round_seconds / round_blocks)} ({blocks} blocks)"


def _earned(numbers: Mapping[str, Any]) -> str:
    if "tokens" not in numbers:
        return UNKNOWN
    ready = f"{few_digits(numbers['tokens'])} tokens held, {few_digits(numbers['pay_ready'])} ready to be claimed"
    paid = numbers.get("pay")
    return ready + (f", {few_digits(sum(paid.values()))} in the last {len(paid)} final rounds" if paid else "")


def _to_come(numbers: Mapping[str, Any]) -> str:
    if "pay_open" not in numbers:
        return UNKNOWN
    open_, paid = numbers["pay_open"], numbers.get("pay")
    if not paid:
        return f"{open_} batches are not final; what they pay is not known, since no round was final yet"
    mean = sum(paid.values()) // len(paid)
    return f"{open_} batches are not final: about {few_digits(open_ * mean)} tokens, if they are paid as the last ones"
