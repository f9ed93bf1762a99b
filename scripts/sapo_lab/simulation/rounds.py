"""One round of a swarm, from submission to pay.

Rounds are independent samples: every node begins each with its full bond, and a slash counts where it falls. That gives
what a strategy wins and loses per round while it lasts; what a slash ends (six rounds of other batches are void) is
left out, in the attacker's favour.
"""

from dataclasses import dataclass, fields

import numpy as np

from sapo_lab.simulation import rules as r
from sapo_lab.simulation.choices import Rules, Strategy
from sapo_lab.simulation.rules import Bools, Floats, Ints
from sapo_lab.simulation.strategies import COALITIONS, PRODUCES, Swarm, Truth, planned, verdicts

MEAN_SCORE = 0.5  # of an honest batch, as a share of its completions


@dataclass(frozen=True)
class Played:
    """What a round did. Per node (nodes,): truth and end of its batch, tokens earned, bonds lost and won."""

    truth: Ints
    ends: Ints  # r.ENDS_…; of a missing batch: void
    disputed: Bools  # stage 2 was about it
    seen: Ints  # verdicts revealed on it in stage 1
    seen_again: Ints  # in stage 2
    producer: Floats  # tokens
    auditor: Floats  # tokens
    fees: Floats  # bonds: missed batch and reveals, penalties, burned dispute bonds
    slashed: Bools
    won: Floats  # bonds: provers' quarters
    settled: Floats  # bonds, (1,): what all who settle together get
    looked: Ints  # batches that a voter was dealt, both stages


def play(swarm: Swarm, rules: Rules, rng: np.random.Generator, *, mean_score: float = MEAN_SCORE) -> Played:
    """One round. Draws are uniform, as a hash's are."""
    nodes = swarm.nodes
    score = rng.binomial(rules.completions, mean_score, nodes)
    truth = _truths(swarm, score, rules, mean_score)
    score[(truth == Truth.FALSE) | (truth == Truth.PROVABLE)] = rules.completions
    submitted = truth != Truth.MISSING
    producers = rng.permutation(np.flatnonzero(submitted))  # by position
    count = len(producers)
    own = np.full(nodes, count)
    own[producers] = np.arange(count)
    fees = np.where(submitted, 0.0, rules.missed_batch_fee)
    if count == 0:
        raise ValueError("no node submits a batch: a round without batches has nothing to simulate")

    def look(stage: int) -> "_Stage":
        return _Stage.dealt(swarm, rules, stage, truth[producers], producers, own, rng)

    one = look(1)
    proven = one.provers(count) > 0
    standing = r.accepted_in_stage_1(one.ballots().tally(count), rules) & ~proven
    disputers = _disputes(swarm, producers, standing, rng)
    two = look(2)
    window_2 = two.counted

    def decide() -> tuple[Ints, Ints, Bools, Bools, r.Judged]:
        votes_1 = one.ballots().tally(count)
        in_stage_2 = ~r.accepted_in_stage_1(votes_1, rules) & ~proven
        in_stage_2[disputers >= 0] = True
        two.counted = window_2 & in_stage_2[two.positions]
        two.plan(count, rules)
        late = (two.provers(count) > 0) & ~proven
        judged = r.judge(one.ballots(), two.ballots(), in_stage_2, proven | late, rules)
        return votes_1, two.ballots().tally(count), in_stage_2, late, judged

    votes_1, votes_2, in_stage_2, late, judged = decide()
    if (swarm.strategy == Strategy.DODGER).any():
        one.dodge(judged.wrong_in[0], rules)
        two.dodge(judged.wrong_in[1], rules)
        votes_1, votes_2, in_stage_2, late, judged = decide()
    ends = judged.ends

    fees += rules.wrong_verdict_penalty * judged.wrong
    for stage in (one, two):
        fees += rules.missed_reveal_fee * (~stage.revealed[:, 0] & stage.counted.any(axis=1))
    won = one.quarters(proven) + two.quarters(late)
    settled = np.array([r.CALLERS_SHARE * fees.sum()])
    fees += _burned(swarm, disputers, ends, votes_2, rules)

    is_accepted = np.zeros(nodes, dtype=np.bool_)
    is_accepted[producers] = ends == r.ENDS_ACCEPTED
    producer, auditor = r.pay(score, judged.right, submitted, is_accepted, rules)
    return Played(
        truth=truth,
        ends=_per_node(ends, producers, nodes),
        disputed=_per_node(in_stage_2, producers, nodes).astype(np.bool_),
        seen=_per_node(votes_1.sum(axis=1), producers, nodes),
        seen_again=_per_node(votes_2.sum(axis=1), producers, nodes),
        producer=producer,
        auditor=auditor,
        fees=np.minimum(fees, 1.0),
        slashed=_per_node((ends == r.ENDS_REJECTED) | (ends == r.ENDS_PROVEN_FALSE), producers, nodes).astype(np.bool_),
        won=won,
        settled=settled,
        looked=one.counted.sum(axis=1) + two.counted.sum(axis=1),
    )


def play_many(swarm: Swarm, rules: Rules, rng: np.random.Generator, rounds: int) -> Played:
    """Many rounds, end to end: arrays of (rounds · nodes,)."""
    played = [play(swarm, rules, rng) for _ in range(rounds)]
    return Played(**{f.name: np.concatenate([getattr(one, f.name) for one in played]) for f in fields(Played)})


@dataclass
class _Stage:
    """The windows of one stage and what their voters say; all (voters, steps)."""

    swarm: Swarm
    positions: Ints
    counted: Bools
    truth: Ints
    friend: Bools
    said: Ints
    revealed: Bools  # (voters, 1)

    @classmethod
    def dealt(
        cls, swarm: Swarm, rules: Rules, stage: int, truths: Ints, producers: Ints, own: Ints, rng: np.random.Generator
    ) -> "_Stage":
        count = len(producers)
        starts = rng.integers(0, count, swarm.nodes)
        positions, counted = r.windows(starts, count, own, rules.window_size(stage))
        allied = np.isin(swarm.strategy, COALITIONS)
        friend = allied[producers][positions] & allied[:, None]
        truth = truths[positions]
        revealed = (swarm.strategy != Strategy.SILENT)[:, None]
        return cls(swarm, positions, counted, truth, friend, verdicts(swarm, truth, friend), revealed)

    def plan(self, count: int, rules: Rules) -> None:
        self.said = planned(self.said, self.swarm, self.positions, self.counted, self.friend, count, rules.min_rejects)

    def dodge(self, wrong: Ints, rules: Rules) -> None:
        """Dodgers see what the others reveal, and say nothing where `wrong` verdicts would cost them more than that."""
        dear = rules.wrong_verdict_penalty * wrong > rules.missed_reveal_fee
        self.revealed &= ~(dear & (self.swarm.strategy == Strategy.DODGER))[:, None]

    def ballots(self) -> r.Ballots:
        return r.Ballots(self.positions, self.said, self.counted & self.revealed)

    @property
    def proves(self) -> Bools:
        """Who finds a provable fault: all who look and are no accomplices."""
        looks = ~np.isin(self.swarm.strategy, (Strategy.LAZY, Strategy.DODGER, Strategy.LIAR))[:, None]
        found: Bools = self.counted & looks & (self.truth == Truth.PROVABLE) & ~self.friend
        return found

    def provers(self, count: int) -> Ints:
        return np.bincount(self.positions[self.proves], minlength=count)

    def quarters(self, proven: Bools) -> Floats:
        """What each voter gets for proofs, in bonds: which of a batch's finders is first is a matter of luck."""
        share = np.where(proven, r.PROVERS_SHARE / np.maximum(self.provers(len(proven)), 1), 0.0)
        won: Floats = (self.proves * share[self.positions]).sum(axis=1)
        return won


def _truths(swarm: Swarm, score: Ints, rules: Rules, mean_score: float) -> Ints:
    truth = np.full(swarm.nodes, int(Truth.HONEST))
    for strategy, made in PRODUCES.items():
        truth[swarm.strategy == strategy] = int(made)
    truth[(swarm.strategy == Strategy.ABORTER) & (score < mean_score * rules.completions)] = int(Truth.MISSING)
    return truth


def _disputes(swarm: Swarm, producers: Ints, standing: Bools, rng: np.random.Generator) -> Ints:
    """Who disputes each batch, −1 if nobody: (batches,). One batch each; the first one to come has it."""
    disputers = np.full(len(producers), -1)
    for node in np.flatnonzero(swarm.strategy == Strategy.DISPUTER):
        open_ = np.flatnonzero(standing & (disputers < 0) & (producers != node))
        if len(open_):
            disputers[rng.choice(open_)] = node
    return disputers


def _burned(swarm: Swarm, disputers: Ints, ends: Ints, votes_2: Ints, rules: Rules) -> Floats:
    """The dispute bonds that are not paid back, per node."""
    doubts = votes_2[:, r.REJECT] + votes_2[:, r.VOID] >= 2
    back = (ends == r.ENDS_REJECTED) | (ends == r.ENDS_PROVEN_FALSE) | ((ends == r.ENDS_VOID) & doubts)
    lost = disputers[(disputers >= 0) & ~back]
    return rules.dispute_bond * np.bincount(lost, minlength=swarm.nodes)


def _per_node(values: Ints | Bools, producers: Ints, nodes: int) -> Ints:
    spread = np.zeros(nodes, dtype=np.int64)
    spread[producers] = values
    return spread
