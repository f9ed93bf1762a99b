"""What nodes do: which batch a strategy produces, and what it says about others' batches."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from sapo_lab.simulation.choices import Strategy
from sapo_lab.simulation.rules import ABSTAIN, ACCEPT, REJECT, VOID, Bools, Ints


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
    Strategy.WITHHOLDER: Truth.WITHHELD,
    Strategy.CARTEL: Truth.FALSE,
}
COALITIONS = (Strategy.CARTEL, Strategy.CENSORS, Strategy.SLASHERS)


@dataclass(frozen=True)
class Swarm:
    """strategy: of each node, (nodes,). with_model: whether it can run the check that needs the model, (nodes,)."""

    strategy: Ints
    with_model: Bools

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
    """`bad` nodes of one strategy, then `also` some of others, the rest honest; of these a share runs no model."""
    strategies = np.full(nodes, int(Strategy.HONEST))
    start = 0
    for kind, number in ((strategy, bad), *also):
        strategies[start : start + number] = int(kind)
        start += number
    with_model = np.ones(nodes, dtype=np.bool_)
    with_model[nodes - round(without_model * (nodes - start)) :] = False
    return Swarm(strategies, with_model)


def verdicts(voters: Swarm, truth: Ints, friend: Bools) -> Ints:
    """What each voter says of each batch of its window before any plan: (voters, steps).

    truth, friend: of the batches in the windows, (voters, steps); friend: it is the voter's own coalition's.
    """
    honest = np.array([ACCEPT, REJECT, REJECT, VOID])[truth]
    # Without the model a batch cannot pass every check, and lies about intervals are not seen: abstain.
    unsure = ~voters.with_model[:, None] & ((truth == Truth.HONEST) | (truth == Truth.FALSE))
    honest = np.where(unsure, ABSTAIN, honest)
    against = {Strategy.LAZY: ACCEPT, Strategy.DODGER: ACCEPT, Strategy.LIAR: REJECT, Strategy.CARTEL: REJECT}
    against |= {Strategy.CENSORS: VOID, Strategy.SLASHERS: VOID}
    said = honest
    for strategy, verdict in against.items():
        theirs = (voters.strategy == strategy)[:, None]
        said = np.where(theirs, np.where(friend, ACCEPT, verdict), said)
    return said


def planned(said: Ints, voters: Swarm, positions: Ints, counted: Bools, friend: Bools, count: int, least: int) -> Ints:
    """Stage 2 of censors and slashers: the draw is public, so they know before they commit where they can win.

    There they void (reject), elsewhere they accept, and are paid for it. `least`: min_rejects.
    """
    for strategy in (Strategy.CENSORS, Strategy.SLASHERS):
        theirs = (voters.strategy == strategy)[:, None] & counted
        if not theirs.any():
            continue
        all_ = np.bincount(positions[counted], minlength=count)
        ours = np.bincount(positions[theirs & ~friend], minlength=count)
        wins = 3 * (all_ - ours) < 2 * all_
        says = np.where(wins, VOID, ACCEPT)
        if strategy is Strategy.SLASHERS:
            says = np.where((3 * ours >= 2 * all_) & (ours >= least), REJECT, says)
        said = np.where(theirs & ~friend, says[positions], said)
    return said
