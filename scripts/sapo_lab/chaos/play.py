"""One fault: played, then rounds until everybody is well again, and what was said and lost meanwhile."""

import re
import time
from collections.abc import Sequence
from dataclasses import dataclass

from sapo_lab.chaos.faults import Fault
from sapo_lab.chaos.net import Net

MOST_ROUNDS = 2  # after the one in which the fault ended
GIVE_UP = 8
MOST_LINES = 60  # of warnings a node says about one fault, and two more for each round that passes meanwhile

WARNING = re.compile(r"WARNING|ERROR")

# What nodes say only where it is so.
FALSE = {
    "a second program": r"second program|used elsewhere|another program",
    "a reset chain": r"was (it )?reset|has not reached block",
    "another chain": r"is chain \d+",
    "a reorganization": r"reorganization|does not show its transaction",
    "an end of the round": r"ended before$",
    "a slashing": r"was slashed",
    "a traceback": r"Traceback",
}


@dataclass(frozen=True)
class Outcome:
    """Of one fault. rounds: after the one in which it ended, until all published and promised; None: never.

    lost: wei that the nodes have less than quiet rounds would have cost them; fined: of it from bonds. lines: warnings
    of the node that said most.
    """

    words: str
    seconds: float
    rounds: int | None
    lost: int
    fined: int
    lines: int
    faults: tuple[str, ...]

    def row(self) -> str:
        rounds = "never" if self.rounds is None else str(self.rounds)
        sums = f"{max(0, self.lost) / 10**18:.4f} | {self.fined / 10**18:.2f}"
        return f"| {self.words} | {self.seconds:.0f} | {rounds} | {sums} | {self.lines} | {'; '.join(self.faults)} |"


def quiet_cost(net: Net) -> int:
    """Wei that a round without faults costs all nodes together."""
    net.play_round()
    before, first = net.worth(), net.round
    for _ in range(2):
        net.play_round()
    return (before - net.worth()) // (net.round - first)


def play(net: Net, fault: Fault, quiet: int) -> Outcome:
    """In the round that has just begun. quiet: as `quiet_cost` says."""
    net.mark()
    before, here, first, began = net.worth(), net.here(), net.round, time.monotonic()
    for _ in fault.play(net):
        net.step()
    net.heal()
    seconds, ended = time.monotonic() - began, net.round
    rounds = _recover(net, ended)
    lost = before - net.worth() - quiet * (net.round - first)
    false = false_claims([line for lines in net.said().values() for line in lines], fault.may_say)
    warned = {
        name: sum(bool(re.search(r"WARNING|ERROR", line)) for line in lines) for name, lines in net.said().items()
    }
    most = MOST_LINES + 2 * (net.round - first)
    too_late = rounds is None or rounds > MOST_ROUNDS
    faults = [
        *(["too late"] if too_late else []),
        *false,
        *(f"{name} said {count} lines" for name, count in warned.items() if count > most),
        *(f"{node.name} has ended" for node in net.nodes if not node.alive),
    ]
    fined = net.fined(here)
    return Outcome(fault.words, seconds, rounds, lost, fined, max(warned.values()), tuple(faults))


def false_claims(lines: Sequence[str], may_say: str) -> list[str]:
    """Lines that claim what is not so, one of each kind. may_say: a pattern of what is so this time."""
    found = []
    for what, pattern in FALSE.items():
        bad = [line for line in lines if re.search(pattern, line) and not re.search(may_say, line)]
        found += [f"{what} is claimed: {line[-160:]}" for line in bad[:1]]
    return found


def _recover(net: Net, ended: int) -> int | None:
    """Rounds after the one in which the fault ended until one is well; the next one has begun then."""
    while net.round - ended <= GIVE_UP:
        round_ = net.round
        net.play_round()
        if net.is_well(round_):
            return round_ - ended
    return None
