"""What false completions bring where a voter of stage 1 recomputes a few of each batch: the table of the worst f.

An author makes up f of its n completions. Each of its voters draws s of the n, and rejects the batch if a false one is
among them; one reject brings stage 2, which recomputes all. Everything here is a sum, no sample. Amounts are in units:
what one completion that counts as right is paid.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache

from sapo_lab.simulation.choices import Rules
from sapo_lab.simulation.exact import Fate, fate, voting
from sapo_lab.simulation.odds import TURNOUTS
from sapo_lab.simulation.outage import BOND
from sapo_lab.simulation.rules import BOUNTY
from sapo_lab.simulation.text import markdown, members, percent, whole

SPECS = ((128, 8, 4), (128, 16, 2), (32, 8, 1), (32, 8, 2), (32, 8, 4))  # completions, draws, spots
SHARES = (0.0, 0.1, 0.2, 1 / 3)
ROUND = 0.5  # ones of an honest batch, as a share of its completions: a bond is BOND times what they are paid


def missed(completions: int, false: int, spots: int) -> float:
    """How likely none of some spots, drawn without repetition, is one of the false completions."""
    chance = 1.0
    for drawn in range(min(spots, completions)):
        chance *= max(0, completions - false - drawn) / (completions - drawn)
    return chance


@dataclass(frozen=True)
class Author:
    """Who makes up completions, one batch a round.

    right: the share of its honest completions that are right; it makes up those that are not. friends: how many of the
    other nodes accept whatever it publishes; honest: how many others vote. hides: it serves the batch no longer once
    stage 1 has rejected it, and nobody else does, so that it owes the withheld_fee instead of a bond.
    """

    nodes: int
    friends: int
    honest: int
    right: float = ROUND
    hides: bool = False

    def fates(self, rules: Rules, spots: int) -> Iterator[tuple[int, Fate]]:
        """By the number of false completions, from 0 to all that would be wrong."""
        wrong = rules.completions - round(self.right * rules.completions)
        yield 0, fate(self.friends + self.honest, 0, self.nodes, rules)
        for false in range(1, wrong + 1):
            misses = missed(rules.completions, false, spots)
            yield false, fate(self.friends, self.honest, self.nodes, rules, misses)


@dataclass(frozen=True)
class Worth:
    """A number of false completions, against none. units: pay won, before losses. lost: bonds. slashed: how often."""

    false: int
    units: float
    lost: float
    slashed: float

    def gain(self, bond: float) -> float:
        """In units; bond: too."""
        return self.units - bond * self.lost


def worths(author: Author, rules: Rules, spots: int) -> list[Worth]:
    """Of every number of false completions above 0. Friends' fines for accepting it in stage 2 are the author's."""
    fates = dict(author.fates(rules, spots))
    right = round(author.right * rules.completions)
    honest = right * fates.pop(0).accepted
    found = []
    for false, its in fates.items():
        if author.hides:
            lost, slashed = rules.withheld_fee * its.rejected, 0.0
        else:
            lost, slashed = (1 - BOUNTY) * its.rejected + rules.wrong_verdict_penalty * its.fined, its.rejected
        found.append(Worth(false, (right + false) * its.accepted - honest, lost, slashed))
    return found


@dataclass(frozen=True)
class Worst:
    """worth: of the number that gains most at a bond of ten rounds' pay. gain: in units.

    bond: in rounds' pay, from which on no number gains; infinite if no bond does.
    """

    worth: Worth
    gain: float
    bond: float


def worst(author: Author, rules: Rules, spots: int) -> Worst:
    """Of all numbers of false completions above 0."""
    unit = ROUND * rules.completions
    found = worths(author, rules, spots)
    most = max(found, key=lambda one: one.gain(BOND * unit))
    bond = max(max(0.0, one.units) / max(one.lost, 1e-300) for one in found) / unit
    return Worst(most, most.gain(BOND * unit), bond)


@cache
def author_of(nodes: int, share: float, turnout: float, right: float = ROUND, hides: bool = False) -> Author:
    """One of a share of the nodes; the rest is honest, and so many of them vote. Without a share: one alone."""
    bad = max(1, members(nodes, share))
    return Author(nodes, bad - 1, voting(nodes - bad, turnout), right, hides)


def table(
    rules: Rules,
    nodes: int,
    right: float = ROUND,
    *,
    hides: bool = False,
    specs: Sequence[tuple[int, int, int]] = SPECS,
    shares: Sequence[float] = SHARES,
) -> str:
    """Worst numbers by spec, share of friends and turnout; bold is what a bond of ten rounds' pay does not deter."""
    rows = []
    for completions, draws, spots in specs:
        tried = replace(rules, completions=completions, draws=draws)
        for share in shares:
            row = [f"{completions}, {draws}, {spots}", whole(share) if share else "1 alone"]
            for turnout in TURNOUTS:
                found = worst(author_of(nodes, share, turnout, right, hides), tried, spots)
                row += [str(found.worth.false), units(found.gain), percent(found.worth.slashed), bonds(found.bond)]
            rows.append(row)
    head = ["n, K, s", "malicious"]
    for turnout in TURNOUTS:
        head += [f"{whole(turnout)} vote: worst f", "gain", "slashed", "bond"]
    return markdown(head, rows)


def units(value: float) -> str:
    """A gain in units; above zero bold."""
    text = f"{value:+.2f}" if abs(value) < 0.995 else f"{value:+.1f}" if abs(value) < 9.95 else f"{value:+,.0f}"
    return f"**{text}**" if value > 0 else text.replace("-", "−")


def bonds(bond: float) -> str:
    """The least bond that deters, in rounds' pay."""
    if bond <= 0:
        return "any"
    if bond > 1e6:
        return "**none**"
    text = f"{bond:.2g}" if bond < 99.5 else f"{bond:,.0f}"
    return text if bond <= BOND else f"**{text}**"
