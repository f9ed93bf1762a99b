"""The contract's rules, on arrays: windows, stage 1, stage 2, outcomes, penalties.

What `contracts/src/libraries/Tallies.sol` and `Windows.sol` say about one batch, here for all batches of a round at
once. tests/unit/test_simulation.py compares the two.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from sapo_lab.simulation.choices import Rules
from sapo_verifier.schedule import SURE_ACCEPTS

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
Floats = npt.NDArray[np.floating[Any]]

ABSTAIN, ACCEPT, REJECT, VOID = range(4)
ENDS_VOID, ENDS_ACCEPTED, ENDS_REJECTED, ENDS_PROVEN_FALSE = range(4)  # Tallies.Outcome

PROVERS_SHARE = 0.25  # AuditsBase.PROVERS_SHARE
CALLERS_SHARE = 0.1  # AuditsBase.CALLERS_SHARE


def windows(starts: Ints, count: int, own: Ints, size: int) -> tuple[Ints, Bools]:
    """The windows of all voters at once: positions of batches, (voters, steps), and which of these steps count.

    own: the voter's own batch, or `count` if it has none. protocol.window is the same for one voter.
    """
    positions = (starts[:, None] + np.arange(min(count, size + 1))) % count
    others = positions != own[:, None]
    return positions, others & (np.cumsum(others, axis=1) <= size)


def tally(positions: Ints, verdicts: Ints, counted: Bools, count: int) -> Ints:
    """How many verdicts of each kind each batch got: (count, 4). All arguments but `count`: (voters, steps)."""
    words = positions[counted] * 4 + verdicts[counted]
    return np.bincount(words, minlength=4 * count).reshape(count, 4)


def carried(votes: Ints, verdict: int, least: int) -> Bools:
    """Whether a verdict has enough votes, and two thirds of all revealed ones. votes: (batches, 4)."""
    given = votes[:, verdict]
    enough: Bools = (given >= least) & (given * 3 >= votes.sum(axis=1) * 2)
    return enough


def accepted_in_stage_1(votes: Ints, rules: Rules) -> Bools:
    """No reject, no void, min_accepts accepts, two thirds of all revealed."""
    undoubted: Bools = (votes[:, REJECT] == 0) & (votes[:, VOID] == 0)
    return undoubted & carried(votes, ACCEPT, rules.min_accepts)


def outcomes(votes_2: Ints, in_stage_2: Bools, proven: Bools, rules: Rules) -> Ints:
    """How each batch ends: ENDS_… (batches,)."""
    ends = np.where(carried(votes_2, REJECT, rules.min_rejects), ENDS_REJECTED, ENDS_VOID)
    ends = np.where(~in_stage_2 | carried(votes_2, ACCEPT, rules.min_accepts), ENDS_ACCEPTED, ends)
    return np.where(proven, ENDS_PROVEN_FALSE, ends)


def punished(verdicts: Ints, ends: Ints, accepts_of_last_stage: Ints) -> Bools:
    """Whether verdicts cost their voters a penalty; all of one shape, each about the batch that ends so."""
    unjust: Bools = (verdicts == REJECT) & (ends == ENDS_ACCEPTED) & (accepts_of_last_stage >= SURE_ACCEPTS)
    blind: Bools = (verdicts == ACCEPT) & ((ends == ENDS_REJECTED) | (ends == ENDS_PROVEN_FALSE))
    return unjust | blind


def right(verdicts: Ints, ends: Ints) -> Bools:
    """Whether verdicts are paid, if given in the batch's last stage."""
    accept: Bools = (verdicts == ACCEPT) & (ends == ENDS_ACCEPTED)
    reject: Bools = (verdicts == REJECT) & ((ends == ENDS_REJECTED) | (ends == ENDS_PROVEN_FALSE))
    return accept | reject


@dataclass
class Ballots:
    """One stage's verdicts; all (voters, steps). counted: revealed, within the window, and (stage 2) disputed."""

    positions: Ints
    verdicts: Ints
    counted: Bools

    def tally(self, count: int) -> Ints:
        return tally(self.positions, self.verdicts, self.counted, count)


@dataclass(frozen=True)
class Judged:
    """ends: ENDS_… of each batch (batches,). How many verdicts of each voter are paid, are punished.

    right: (voters,). wrong_in: by stage, (2, voters).
    """

    ends: Ints
    wrong_in: Ints
    right: Ints

    @property
    def wrong(self) -> Ints:
        """In both stages, (voters,)."""
        both: Ints = self.wrong_in.sum(axis=0)
        return both


def judge(one: Ballots, two: Ballots, in_stage_2: Bools, proven: Bools, rules: Rules) -> Judged:
    """What both stages' votes come to. in_stage_2, proven: of each batch."""
    count = len(in_stage_2)
    votes_1, votes_2 = one.tally(count), two.tally(count)
    ends = outcomes(votes_2, in_stage_2, proven, rules)
    accepts = np.where(in_stage_2, votes_2[:, ACCEPT], votes_1[:, ACCEPT])
    voters = len(one.positions)
    wrong_in, right_ones = np.zeros((2, voters), dtype=np.int64), np.zeros(voters, dtype=np.int64)
    for stage, (ballots, in_last) in enumerate(((one, ~in_stage_2), (two, in_stage_2))):
        its = ends[ballots.positions]
        wrong_in[stage] = (punished(ballots.verdicts, its, accepts[ballots.positions]) & ballots.counted).sum(axis=1)
        right_ones += (right(ballots.verdicts, its) & in_last[ballots.positions] & ballots.counted).sum(axis=1)
    return Judged(ends, wrong_in, right_ones)


def pay(units: Ints, right_ones: Ints, has_batch: Bools, is_accepted: Bools, rules: Rules) -> tuple[Floats, Floats]:
    """Tokens to each node as producer and as auditor (Rewards._payoutOf, but in tokens that can be divided).

    Right verdicts of all who have a batch divide the auditors' part; those whose batch was not accepted get nothing.
    """
    auditors = rules.pool * rules.auditors_share
    paid_units = np.where(is_accepted, units, 0)
    per_unit = min((rules.pool - auditors) / max(int(paid_units.sum()), 1), rules.max_per_unit)
    per_verdict = auditors / max(int(right_ones[has_batch].sum()), 1)
    return paid_units * per_unit, np.where(is_accepted, right_ones, 0) * per_verdict
