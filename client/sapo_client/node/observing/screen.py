"""What `sapo top` shows on a terminal: one page of lines, from a condition and the rounds' reports."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sapo_client.node.observing.figures import reward, sparkline
from sapo_client.node.observing.metrics import STEPS
from sapo_client.node.observing.prospects import UNKNOWN, few_digits

NAME = 14  # characters


@dataclass(frozen=True)
class Seen:
    """One look. condition: as `sapo status --json` has it; numbers: Told.numbers."""

    condition: Mapping[str, Any]
    numbers: Mapping[str, Any]
    reports: Sequence[Mapping[str, Any]]


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
    yield "round ends in", facts["round_ends_in"]


def _money(seen: Seen) -> Iterator[tuple[str, str]]:
    numbers = seen.numbers
    yield "pay", seen.condition["pay_earned"]
    yield "pay to come", seen.condition["pay_to_come"]
    if "balance" not in numbers:
        yield "runway", UNKNOWN
        return
    rounds = numbers["runway"]
    lasts = "gas costs nothing" if rounds is None else f"{rounds} rounds"
    yield (
        "runway",
        f"{lasts}; the account holds {few_digits(numbers['balance'])} coins, the bond is {few_digits(numbers['bond'])}",
    )


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
