"""What it brings to accept unseen where every accept shows answers, and every voter looks at some of another's.

Each node picks one of the pairs (voter, batch) that others accepted on its own window, and recomputes that voter's
answers about that batch. If one is false it disputes the voter's batch about them, and stage 2 rejects that batch, if
enough vote. But for who hands out answers no producer cheats here: where they do, who accepts unseen loses more. Who
votes and which guesses are right is drawn; given that, chances are exact. Windows are those of a large network, without
the places of voters' own batches. Amounts are in units, as in `spots`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from sapo_lab.simulation.choices import Rules
from sapo_lab.simulation.exact import stage_2, voting
from sapo_lab.simulation.odds import TURNOUTS
from sapo_lab.simulation.outage import BOND
from sapo_lab.simulation.rules import BOUNTY, Floats
from sapo_lab.simulation.spots import ROUND, SPECS, missed, units
from sapo_lab.simulation.text import markdown, members, percent, whole

GUESSES = (0.0, 0.3, 0.5, 0.7, 0.85)  # how often a guess is right; the last for the sharpest policies
SHARES = (0.0, 0.2, 1 / 3)
PASS = 0.5  # what recomputing a completion costs, of what generating it does
DRAWS = 20_000
SHARPEST = GUESSES[-1]
FALSE_ONES = 0.25  # of a false author's completions that hands out answers


@dataclass(frozen=True)
class Faker:
    """batches: how many of its window it accepts unseen. right: how likely all its answers about one of them are.

    shielded: a friend disputes its batch first, about a batch that it looked at, and pays for that.
    """

    batches: int
    right: float
    shielded: bool = False


@dataclass(frozen=True)
class Others:
    """The rest of the network. turnout: of the honest that vote.

    share: of all nodes, the faker and its friends. These vote, look at nobody, and accept its batch in stage 2; their
    fines for that are left out.
    """

    nodes: int
    turnout: float
    share: float = 0.0

    @property
    def friends(self) -> int:
        return max(0, members(self.nodes, self.share) - 1)

    @property
    def honest(self) -> int:
        """How many honest nodes vote."""
        return voting(self.nodes - 1 - self.friends, self.turnout)


@dataclass(frozen=True)
class Costs:
    """generating: of generating a batch, in a round's pay; 1 is the most at which anybody still would.

    a_pass: of recomputing a completion, in what generating it costs.
    """

    generating: float = 1.0
    a_pass: float = PASS

    def audit(self, rules: Rules, spots: int) -> float:
        """Of the stage-1 audit of a whole window, in a round's pay."""
        return self.generating * self.a_pass * rules.draws * min(spots, rules.completions) / rules.completions


def caught(faker: Faker, others: Others, rules: Rules, rng: np.random.Generator, draws: int = DRAWS) -> Floats:
    """How likely somebody finds a false answer, for each of some draws of who votes and which answers are false.

    The faker's window begins at position 0; who begins at d has K − |d| of its batches. Who looks has drawn one of the
    pairs that others accepted on its own window, and finds something if the faker's false answers are in it.
    """
    size = rules.draws
    reach = 2 * (size - 1)  # whose accepts a looker's choice depends on
    starts = np.arange(-reach, reach + 1)
    here = rng.random((draws, len(starts)))
    honest_share, friends_share = (number / (others.nodes - 1) for number in (others.honest, others.friends))
    honest = here < honest_share
    votes = here < honest_share + friends_share
    votes[:, reach] = True  # the faker itself
    false = np.zeros((draws, size), dtype=np.bool_)
    false[:, : faker.batches] = rng.random((draws, faker.batches)) >= faker.right
    false = rng.permuted(false, axis=1)
    lookers = np.array([d for d in range(1 - size, size) if d != 0])
    overlaps = np.clip(size - np.abs(starts[:, None] - lookers), 0, None)
    overlaps[lookers + reach, np.arange(len(lookers))] = 0  # nobody looks at its own accepts
    pairs = votes.astype(np.float32) @ overlaps.astype(np.float32)
    shared = (np.arange(size)[:, None] >= lookers) & (np.arange(size)[:, None] < lookers + size)
    seen = false.astype(np.float32) @ shared.astype(np.float32)
    escapes = np.where(honest[:, lookers + reach], 1 - seen / pairs, 1.0)
    found: Floats = 1 - escapes.prod(axis=1)
    return found


@dataclass(frozen=True)
class Worth:
    """Of faking, against honest auditing, in units per round. error: of `value`, one standard error.

    caught: how likely a false answer is found; slashed: how likely stage 2 rejects the faker's batch for it.
    """

    caught: float
    slashed: float
    saved: float
    lost: float
    error: float

    @property
    def value(self) -> float:
        return self.saved - self.lost


def worth(
    faker: Faker, others: Others, rules: Rules, spots: int, rng: np.random.Generator, costs: Costs, draws: int = DRAWS
) -> Worth:
    """What a slash takes: the bond, of which who sees it coming saves a tenth, and the pay of that round's batch.

    The batches of the six rounds after it, which are void too, are left out. Who fakes all looks at nobody either.
    """
    unit = ROUND * rules.completions
    looked = caught(faker, others, rules, rng, draws)
    condemned = stage_2(others.friends, others.honest, others.nodes, rules)[1]
    audit = costs.audit(rules, spots)
    saved = audit * faker.batches / rules.draws + (audit / rules.draws if faker.batches == rules.draws else 0.0)
    each = condemned * ((1 - BOUNTY) * BOND + 1)  # rounds' pay
    shield = rules.dispute_bond * BOND if faker.shielded else 0.0
    found = float(looked.mean())
    # The friend's bond comes back where the batch is rejected; where it is not, it is lost.
    lost = found * each + shield * (1 - found * condemned)
    error = float(looked.std()) / len(looked) ** 0.5 * (each + shield * condemned)
    return Worth(found, found * condemned, unit * saved, unit * lost, unit * error)


def fakers(rules: Rules, spots: int) -> list[tuple[str, Faker]]:
    """What is tried, by name."""
    all_ = rules.draws
    made = [(f"all {all_}, right with {guess:g}", Faker(all_, guess**spots)) for guess in GUESSES]
    made += [(f"one of {all_}, right with {guess:g}", Faker(1, guess**spots)) for guess in GUESSES]
    found = missed(rules.completions, round(FALSE_ONES * rules.completions), spots)
    return [
        *made,
        (f"all {all_}, right with {SHARPEST:g}, and a friend disputes first", Faker(all_, SHARPEST**spots, True)),
        ("one, answers from the author of a valid batch", Faker(1, 1.0)),
        (f"one, answers from the author of {percent(FALSE_ONES)} false ones", Faker(1, found)),
    ]


def table(rules: Rules, spots: int, nodes: int, seed: int, costs: Costs, draws: int = DRAWS) -> str:
    """Kinds of faking by turnout, where all others are honest."""
    rng = np.random.default_rng(seed)
    errors, rows = [], []
    for name, faker in fakers(rules, spots):
        row = [name]
        for turnout in TURNOUTS:
            found = worth(faker, Others(nodes, turnout), rules, spots, rng, costs, draws)
            row += [percent(found.caught), percent(found.slashed), *_amounts(found)]
            errors.append(found.error)
        rows.append(row)
    head = ["accepts unseen"]
    for turnout in TURNOUTS:
        head += [f"{whole(turnout)} vote: found", "slashed", "saved", "lost", "value"]
    unit = ROUND * rules.completions
    audit = unit * costs.audit(rules, spots)
    return markdown(head, rows) + (
        f"\n\nn = {rules.completions}, K = {rules.draws}, s = {spots}: a round's pay is {unit:g} units, a bond "
        f"{BOND * unit:g}, an honest window {audit:.1f} and one look {audit / rules.draws:.1f}.\n"
        f"Standard error of a value: at most {max(errors):.2f}."
    )


def by_spec(
    rules: Rules,
    nodes: int,
    seed: int,
    costs: Costs,
    draws: int = DRAWS,
    specs: Sequence[tuple[int, int, int]] = SPECS,
) -> str:
    """Faking everything by the best guessers, by spec, share of friends and turnout."""
    rng = np.random.default_rng(seed)
    errors, rows = [], []
    for completions, size, spots in specs:
        tried = replace(rules, completions=completions, draws=size)
        for share in SHARES:
            row = [f"{completions}, {size}, {spots}", whole(share) if share else "1 alone"]
            for turnout in TURNOUTS:
                faker = Faker(size, SHARPEST**spots)
                found = worth(faker, Others(nodes, turnout, share), tried, spots, rng, costs, draws)
                row += _amounts(found)
                errors.append(found.error / (ROUND * completions))
            rows.append(row)
    head = ["n, K, s", "of the nodes"]
    for turnout in TURNOUTS:
        head += [f"{whole(turnout)} vote: saved", "lost", "value"]
    return markdown(head, rows) + f"\n\nStandard error of a value: at most {percent(max(errors))} of a round's pay."


def _amounts(of: Worth) -> list[str]:
    return [f"{of.saved:.1f}", f"{of.lost:.0f}" if of.lost >= 10 else f"{of.lost:.2f}", units(of.value)]
