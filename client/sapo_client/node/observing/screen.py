"""What `sapo top` shows on a terminal: one page of lines, from a condition and the rounds' reports."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sapo_client.node.observing.figures import reward, sparkline
from sapo_client.node.observing.metrics import STEPS

COIN = 10**18
UNKNOWN = "not known: the chain did not tell"
NAME = 14  # characters


@dataclass(frozen=True)
class Seen:
    """One look. condition: as `sapo status --json` has it; numbers: Told.numbers; status: status.json; round_blocks: of
    the network."""

    condition: Mapping[str, Any]
    numbers: Mapping[str, Any]
    status: Mapping[str, Any]
    reports: Sequence[Mapping[str, Any]]
    round_blocks: int


def screen(seen: Seen, width: int = 100) -> list[str]:
    """Lines of at most `width` characters."""
    named = [*_node(seen), *_money(seen), *_rounds(seen, width - NAME - 22)]
    lines = [f"{name:{NAME}}{words}" for name, words in named]
    lines += [f"{'unhealthy':{NAME}}{reason}" for reason in seen.condition.get("reasons", ())]
    return [_fit(line, width) for line in lines]


def _fit(line: str, width: int) -> str:
    """Words of others are in it: nothing that a terminal would obey."""
    plain = "".join(character if character.isprintable() else "?" for character in line)
    return plain if len(plain) <= width else plain[: width - 1] + "…"


def _node(seen: Seen) -> Iterator[tuple[str, str]]:
    facts = seen.condition
    yield "node", f"{facts.get('node') or 'no address yet'}, {'healthy' if facts['healthy'] else 'UNHEALTHY'}"
    yield "phase", f"{facts.get('phase')} (for {facts.get('phase_seconds', 0):.0f} s)"
    yield "round", f"{facts.get('round')}, the chain is in {facts.get('chain_round', 'a round that it did not tell')}"
    yield "round ends in", left(seen)


def left(seen: Seen) -> str:
    """Of the round, in time and blocks."""
    blocks, pace = seen.numbers.get("blocks_left"), seen.status.get("round_seconds")
    if blocks is None:
        return UNKNOWN
    if not isinstance(pace, int | float):
        return f"{blocks} blocks; how long a block takes is not known yet"
    return f"{_duration(blocks * pace / seen.round_blocks)} ({blocks} blocks)"


def _money(seen: Seen) -> Iterator[tuple[str, str]]:
    numbers = seen.numbers
    yield "pay", pay_earned(numbers)
    yield "pay to come", pay_to_come(numbers)
    if "balance" not in numbers:
        yield "runway", UNKNOWN
        return
    rounds = numbers["runway"]
    lasts = "gas costs nothing" if rounds is None else f"{rounds} rounds"
    yield (
        "runway",
        f"{lasts}; the account holds {_coins(numbers['balance'])} coins, the bond is {_coins(numbers['bond'])}",
    )


def pay_earned(numbers: Mapping[str, Any]) -> str:
    """Tokens that the owner holds, and what is ready."""
    if "tokens" not in numbers:
        return UNKNOWN
    ready = f"{_coins(numbers['tokens'])} tokens held, {_coins(numbers['pay_ready'])} ready to be claimed"
    paid = numbers.get("pay")
    return ready + (f", {_coins(sum(paid.values()))} in the last {len(paid)} final rounds" if paid else "")


def pay_to_come(numbers: Mapping[str, Any]) -> str:
    """Of own batches that are not final yet."""
    if "pay_open" not in numbers:
        return UNKNOWN
    open_, paid = numbers["pay_open"], numbers.get("pay")
    if not paid:
        return f"{open_} batches are not final; what they pay is not known, since no round was final yet"
    mean = sum(paid.values()) // len(paid)
    return f"{open_} batches are not final: about {_coins(open_ * mean)} tokens, if they are paid as the last ones"


def _rounds(seen: Seen, width: int) -> Iterator[tuple[str, str]]:
    reports = seen.reports[-max(8, width) :]
    if not reports:
        yield "rounds", "none was played yet"
        return
    last = reports[-1]
    for name, values, most in (
        ("reward", [reward(report) for report in reports], 1.0),
        ("advantage", [report.get("own_with_advantage") for report in reports], None),
        ("external", [report.get("external_used") for report in reports], None),
        ("entropy", [report.get("entropy") for report in reports], None),
    ):
        known = [value for value in values if value is not None]
        words = "not known yet" if not known else f"{known[-1]:.3g}, of {max(known):.3g} at most"
        yield name, f"{sparkline(values, most)} {words}"
    yield "seconds", ", ".join(f"{step} {last.get(f'seconds_{step}', 0.0):.1f}" for step in STEPS)
    yield "peers", f"{last.get('peers_reached', 0)} of {last.get('peers_asked', 0)} reached in round {last['round']}"
    if last.get("skipped"):
        yield "skipped", f"round {last['round']}: {last['skipped']}"


def _coins(wei: int) -> str:
    return f"{wei / COIN:.6g}"


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s" if minutes else f"{rest} s"
