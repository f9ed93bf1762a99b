"""The contract's rules, on arrays: windows, stage 1, stage 2, outcomes, penalties, fees, pay.

What `contracts/src/libraries/Tallies.sol` and `Windows.sol` say about one batch, here for all batches of a round at
once. tests/unit/test_simulation.py compares the two.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from sapo_lab.simulation.choices import Rules

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
Floats = npt.NDArray[np.floating[Any]]

ABSTAIN, ACCEPT, REJECT, VOID = range(4)
ENDS_VOID, ENDS_ACCEPTED, ENDS_REJECTED, ENDS_PROVEN_FALSE = range(4)  # Tallies.Outcome

PROVERS_SHARE = 0.1  # of a bond that a fraud proof slashes
BOUNTY = 0.1  # of a bond that votes slash
CALLERS_SHARE = 0.1  # of a fee or penalty, to who settles it


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


def accepted_in_stage_1(votes: Ints, rules: Rules) -> Bools:
    """No reject, min_accepts accepts, and twice as many accepts as voids and abstentions. votes: (batches, 4)."""
    accepts = votes[:, ACCEPT]
    enough: Bools = (accepts >= rules.min_accepts) & (accepts >= 2 * (votes[:, VOID] + votes[:, ABSTAIN]))
    undoubted: Bools = enough & (votes[:, REJECT] == 0)
    return undoubted


def accepted_in_stage_2(votes: Ints, rules: Rules) -> Bools:
    """min_accepts accepts, and two thirds of all revealed."""
    accepts = votes[:, ACCEPT]
    enough: Bools = (accepts >= rules.min_accepts) & (3 * accepts >= 2 * votes.sum(axis=1))
    return enough


def condemned(against: Ints, revealed: Ints, count: int, rules: Rules) -> Bools:
    """Whether stage 2's votes against a batch are min_rejects, two thirds of all revealed, and half of all dealt.

    against: rejects, for a bond; rejects and voids, for the fee of who withheld it. count: batches of the round.
    """
    dealt = min(rules.window_size(2), count - 1)
    enough: Bools = (against >= rules.min_rejects) & (3 * against >= 2 * revealed) & (2 * against >= dealt)
    return enough


@dataclass(frozen=True)
class Cases:
    """What stage 2 is about, of each batch, (batches,). itself: it judges the batch, and not only its node's answers.

    accepted: by stage 1. A batch that was proven false is in stage 2 only if the proof came when it had begun.
    """

    accepted: Bools
    in_stage_2: Bools
    itself: Bools
    proven: Bools


def outcomes(cases: Cases, votes_2: Ints, rules: Rules) -> Ints:
    """How each batch ends: ENDS_… (batches,)."""
    rejected = condemned(votes_2[:, REJECT], votes_2.sum(axis=1), len(votes_2), rules)
    stands = ~cases.in_stage_2 | (cases.accepted & ~cases.itself)
    ends = np.where(stands | accepted_in_stage_2(votes_2, rules), ENDS_ACCEPTED, ENDS_VOID)
    ends = np.where(cases.in_stage_2 & rejected, ENDS_REJECTED, ends)
    return np.where(cases.proven, ENDS_PROVEN_FALSE, ends)


def withheld(cases: Cases, ends: Ints, votes_2: Ints, rules: Rules) -> Bools:
    """Which batches cost their producers the fee: void, not accepted in stage 1, rejects and voids condemn it."""
    against = votes_2[:, REJECT] + votes_2[:, VOID]
    owed: Bools = (ends == ENDS_VOID) & cases.in_stage_2 & ~cases.accepted
    owes: Bools = owed & condemned(against, votes_2.sum(axis=1), len(votes_2), rules)
    return owes


def doubted(votes_2: Ints) -> Bools:
    """Whether rejects and voids are a third of what stage 2 revealed: a dispute's bond comes back then."""
    doubts = votes_2[:, REJECT] + votes_2[:, VOID]
    enough: Bools = (doubts > 0) & (3 * doubts >= votes_2.sum(axis=1))
    return enough


def punished(verdicts: Ints, ends: Ints, carried: Bools, stage: int) -> Bools:
    """Whether verdicts cost their voters a penalty; all of one shape, each about the batch that ends so.

    carried: whether stage 2's accepts carry it, and it does not only stand as too few rejected what its node answered.
    """
    unjust: Bools = (verdicts == REJECT) & (ends == ENDS_ACCEPTED) & carried
    blind: Bools = (ends == ENDS_PROVEN_FALSE) | ((ends == ENDS_REJECTED) & (stage == 2))
    wrong: Bools = unjust | ((verdicts == ACCEPT) & blind)
    return wrong


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
    """ends: ENDS_… of each batch; fee: whether it costs the withheld_fee; claims: whether its ones divide the pool.

    These are (batches,). right: how many verdicts of each voter are paid, (voters,). wrong_in: how many are punished,
    by stage, (2, voters).
    """

    ends: Ints
    fee: Bools
    claims: Bools
    wrong_in: Ints
    right: Ints

    @property
    def wrong(self) -> Ints:
        """In both stages, (voters,)."""
        both: Ints = self.wrong_in.sum(axis=0)
        return both


def judge(one: Ballots, two: Ballots, cases: Cases, rules: Rules) -> Judged:
    """What both stages' votes come to."""
    count = len(cases.proven)
    votes_1, votes_2 = one.tally(count), two.tally(count)
    ends, carried = outcomes(cases, votes_2, rules), accepted_in_stage_2(votes_2, rules)
    voters = len(one.positions)
    wrong_in, right_ones = np.zeros((2, voters), dtype=np.int64), np.zeros(voters, dtype=np.int64)
    for stage, ballots, in_last in ((1, one, ~cases.in_stage_2), (2, two, cases.in_stage_2)):
        its = ends[ballots.positions]
        wrong_in[stage - 1] = (
            punished(ballots.verdicts, its, carried[ballots.positions], stage) & ballots.counted
        ).sum(axis=1)
        right_ones += (right(ballots.verdicts, its) & in_last[ballots.positions] & ballots.counted).sum(axis=1)
    claims = np.maximum(votes_1[:, ACCEPT], votes_2[:, ACCEPT]) >= rules.min_accepts
    return Judged(ends, withheld(cases, ends, votes_2, rules), claims, wrong_in, right_ones)


def pay(
    units: Ints, claims: Bools, right_ones: Ints, has_batch: Bools, is_accepted: Bools, rules: Rules
) -> tuple[Floats, Floats]:
    """Tokens to each node as producer and as auditor (Rewards._payoutOf, but in tokens that can be divided).

    units: ones in each node's claim; claims: whether they divide the producers' part. Right verdicts of all who have a
    batch divide the auditors' part; those whose batch was not accepted get nothing. All (nodes,).
    """
    auditors = rules.pool * rules.auditors_share
    per_unit = min((rules.pool - auditors) / max(int(units[claims].sum()), 1), rules.max_per_unit)
    per_verdict = min(auditors / max(int(right_ones[has_batch].sum()), 1), rules.max_per_verdict)
    return np.where(is_accepted, units, 0) * per_unit, np.where(is_accepted, right_ones, 0) * per_verdict
