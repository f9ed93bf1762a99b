"""What nodes do: which batch a strategy produces, and what it says about others' batches."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from sapo_lab.simulation.choices import Rules, Strategy
from sapo_lab.simulation.rules import ABSTAIN, ACCEPT, REJECT, VOID, Bools, Ints, condemned


class Truth(IntEnum):
    """What a batch is."""

    HONEST = 0
    FALSE = 1  # intervals made up: only the check with the model finds it
    PROVABLE = 2  # a fault that anybody who reads can prove on chain
    WITHHELD = 3  # nobody can fetch it
    MISSING = 4  # a policy was committed, and nothing submitted


PRODUCES = {
    Strategy.FALSE: Truth.FALSE,
    Strategy.PROVABLE: Truth.PROVABLE,
    Strategy.HIDER: Truth.WITHHELD,
    Strategy.WITHHOLDER: Truth.FALSE,
    Strategy.CARTEL: Truth.FALSE,
    Strategy.QUIET: Truth.FALSE,
    Strategy.JUNK: Truth.WITHHELD,
    Strategy.SHIELD: Truth.WITHHELD,
    Strategy.SELF_SLASHERS: Truth.PROVABLE,
}
VOIDERS = (Strategy.CENSORS, Strategy.BEST_CENSORS, Strategy.SLASHERS)
COALITIONS = (Strategy.STARVER, Strategy.CARTEL, Strategy.QUIET, Strategy.JUNK, Strategy.SHIELD,
              Strategy.SELF_SLASHERS, *VOIDERS)  # fmt: skip
BLIND = (Strategy.LAZY, Strategy.DODGER, Strategy.LIAR)  # never look
SAYS = {Strategy.LAZY: ACCEPT, Strategy.DODGER: ACCEPT, Strategy.LIAR: REJECT, Strategy.CARTEL: REJECT}


@dataclass(frozen=True)
class Swarm:
    """strategy: of each node, (nodes,). with_model: whether it can run the check that needs the model, (nodes,).

    diligent: whether it votes in every round, whatever the turnout, (nodes,).
    """

    strategy: Ints
    with_model: Bools
    diligent: Bools

    @property
    def nodes(self) -> int:
        return len(self.strategy)


def swarm(
    nodes: int,
    bad: int,
    strategy: Strategy,
    *,
    also: Sequence[tuple[Strategy, int]] = (),
    without_model: float = 0.0,
) -> Swarm:
    """`bad` nodes of one strategy, then `also` some of others, the rest honest; of these a share runs no model.

    The `bad` and the `also` are diligent, even if their strategy is to be honest.
    """
    strategies = np.full(nodes, int(Strategy.HONEST))
    start = 0
    for kind, number in ((strategy, bad), *also):
        strategies[start : start + number] = int(kind)
        start += number
    with_model = np.ones(nodes, dtype=np.bool_)
    with_model[nodes - round(without_model * (nodes - start)) :] = False
    return Swarm(strategies, with_model, np.arange(nodes) < start)


def verdicts(voters: Swarm, truth: Ints, friend: Bools, stage: int) -> Ints:
    """What each voter says of each batch of its window before any plan: (voters, steps).

    truth, friend: of the batches in the windows, (voters, steps); friend: it is the voter's own coalition's.
    """
    honest = np.array([ACCEPT, REJECT, REJECT, VOID])[truth]
    # Without the model a batch cannot pass every check, and lies about intervals are not seen: abstain.
    unsure = ~voters.with_model[:, None] & ((truth == Truth.HONEST) | (truth == Truth.FALSE))
    said = np.where(unsure, ABSTAIN, honest)
    for strategy, verdict in (SAYS | ({Strategy.DOZER: ACCEPT} if stage == 1 else {})).items():
        said[voters.strategy == strategy] = verdict
    return np.where(friend, ACCEPT, said)


def planned(
    said: Ints, voters: Swarm, positions: Ints, counted: Bools, friend: Bools, wanted: Bools, stage: int, rules: Rules
) -> Ints:
    """What censors and slashers say: the draw is public, so they know before they commit where they can win.

    There they void (reject, in stage 2), elsewhere they accept, and are paid for it. They know who will vote, too: more
    than anybody does. wanted: what best_censors are after, (batches,).
    """
    count = len(wanted)
    for strategy in VOIDERS:
        theirs = (voters.strategy == strategy)[:, None] & counted
        if not theirs.any():
            continue
        all_ = np.bincount(positions[counted], minlength=count)
        ours = np.bincount(positions[theirs & ~friend], minlength=count)
        rest = all_ - ours
        wins = (rest < rules.min_accepts) | (rest < 2 * ours if stage == 1 else 3 * rest < 2 * all_)
        if strategy is Strategy.BEST_CENSORS:
            wins &= wanted
        says = np.where(wins, VOID, ACCEPT)
        if strategy is Strategy.SLASHERS and stage == 2:
            says = np.where(condemned(ours, all_, count, rules), REJECT, says)
        said = np.where(theirs & ~friend, says[positions], said)
    return said
