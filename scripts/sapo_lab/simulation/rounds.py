"""One round of a swarm, from submission to pay.

Rounds are independent samples: every node begins each with its full bond, and a slash counts where it falls. That gives
what a strategy wins and loses per round while it lasts; what a slash ends (six rounds of other batches are void) is
left out, in the attacker's favour.
"""

from dataclasses import dataclass, fields

import numpy as np

from sapo_lab.simulation import rules as r
from sapo_lab.simulation.choices import USUAL, Rules, Scores, Setting, Strategy
from sapo_lab.simulation.rules import Bools, Floats, Ints
from sapo_lab.simulation.stages import Stage
from sapo_lab.simulation.strategies import PRODUCES, Swarm, Truth


@dataclass(frozen=True)
class Played:
    """What a round did. Per node (nodes,): truth and end of its batch, tokens earned, bonds lost and won."""

    truth: Ints
    ends: Ints  # r.ENDS_…; of a missing batch: void
    disputed: Bools  # stage 2 was about it
    seen: Ints  # verdicts revealed on it in stage 1
    seen_again: Ints  # in stage 2
    units: Ints  # ones in its claim
    producer: Floats  # tokens
    auditor: Floats  # tokens
    by_accepted: Floats  # tokens as producer, if the pool were divided by what is accepted instead of what is claimed
    fees: Floats  # bonds: missed batch and reveals, what was withheld, penalties, burned dispute bonds
    slashed: Bools
    won: Floats  # bonds: provers' shares and bounties
    settled: Floats  # bonds, (1,): what all who settle together get
    looked: Ints  # batches that a voter had to look at, both stages


def play(swarm: Swarm, rules: Rules, rng: np.random.Generator, setting: Setting = USUAL) -> Played:
    """One round. Draws are uniform, as a hash's are."""
    nodes = swarm.nodes
    score = _scores(swarm, rules, setting, rng)
    truth = _truths(swarm, score, setting.mean_score * rules.completions)
    score[(truth != Truth.HONEST) & (truth != Truth.MISSING)] = rules.completions
    submitted = truth != Truth.MISSING
    producers = rng.permutation(np.flatnonzero(submitted))  # by position
    count = len(producers)
    if count == 0:
        raise ValueError("no node submits a batch: a round without batches has nothing to simulate")
    own = np.full(nodes, count)
    own[producers] = np.arange(count)
    fees = np.where(submitted, 0.0, rules.missed_batch_fee)
    wanted = score[producers] > np.median(score[producers])

    def dealt(stage: int, truths: Ints) -> Stage:
        return Stage.dealt(swarm, rules, stage, truths, producers, own, setting.turnout, rng)

    one = dealt(1, truth[producers])
    one.starve(producers, rng)
    one.plan(wanted, rules)
    proven = one.provers(count) > 0
    accepted = r.accepted_in_stage_1(one.ballots().tally(count), rules)
    itself, about = _disputes(one, producers, accepted & ~proven, rng)
    withdrawn = (swarm.strategy == Strategy.WITHHOLDER)[producers]
    two = dealt(2, np.where(withdrawn, Truth.WITHHELD, truth[producers]))
    two.remember(one, withdrawn)
    window_2 = two.counted

    def decide() -> tuple[Ints, Ints, Bools, r.Cases, r.Judged]:
        votes_1 = one.ballots().tally(count)
        accepted = r.accepted_in_stage_1(votes_1, rules)
        in_stage_2 = (~accepted & ~proven) | (itself >= 0) | (about >= 0)
        two.counted = window_2 & in_stage_2[two.positions]
        two.plan(wanted, rules)
        late = (two.provers(count) > 0) & ~proven
        cases = r.Cases(accepted, in_stage_2, ~accepted | (itself >= 0), proven | late)
        return votes_1, two.ballots().tally(count), late, cases, r.judge(one.ballots(), two.ballots(), cases, rules)

    votes_1, votes_2, late, cases, judged = decide()
    if (swarm.strategy == Strategy.DODGER).any():
        one.dodge(judged.wrong_in[0], rules)
        two.dodge(judged.wrong_in[1], rules)
        votes_1, votes_2, late, cases, judged = decide()
    ends = judged.ends

    fees += rules.wrong_verdict_penalty * judged.wrong + rules.withheld_fee * _per_node(judged.fee, producers, nodes)
    for stage in (one, two):
        fees += rules.missed_reveal_fee * (~stage.revealed[:, 0] & stage.counted.any(axis=1))
    won = one.provers_shares(proven) + two.provers_shares(late)
    won += _bounties(one.ballots(), itself, about, ends == r.ENDS_REJECTED)
    settled = np.array([r.CALLERS_SHARE * fees.sum()])
    fees += _burned(nodes, (itself, about), ends, votes_2, rules)

    is_accepted = _per_node(ends == r.ENDS_ACCEPTED, producers, nodes).astype(np.bool_)
    claims = _per_node(judged.claims, producers, nodes).astype(np.bool_)
    producer, auditor = r.pay(score, claims, judged.right, submitted, is_accepted, rules)
    by_accepted, _ = r.pay(score, is_accepted, judged.right, submitted, is_accepted, rules)
    return Played(
        truth=truth,
        ends=_per_node(ends, producers, nodes),
        disputed=_per_node(cases.in_stage_2, producers, nodes).astype(np.bool_),
        seen=_per_node(votes_1.sum(axis=1), producers, nodes),
        seen_again=_per_node(votes_2.sum(axis=1), producers, nodes),
        units=np.where(submitted, score, 0),
        producer=producer,
        auditor=auditor,
        by_accepted=by_accepted,
        fees=np.minimum(fees, 1.0),
        slashed=_per_node((ends == r.ENDS_REJECTED) | (ends == r.ENDS_PROVEN_FALSE), producers, nodes).astype(np.bool_),
        won=won,
        settled=settled,
        looked=one.counted.sum(axis=1) + two.counted.sum(axis=1),
    )


def play_many(swarm: Swarm, rules: Rules, rng: np.random.Generator, rounds: int, setting: Setting = USUAL) -> Played:
    """Many rounds, end to end: arrays of (rounds · nodes,)."""
    played = [play(swarm, rules, rng, setting) for _ in range(rounds)]
    return Played(**{f.name: np.concatenate([getattr(one, f.name) for one in played]) for f in fields(Played)})


def _scores(swarm: Swarm, rules: Rules, setting: Setting, rng: np.random.Generator) -> Ints:
    if setting.scores is Scores.EQUAL:
        return np.full(swarm.nodes, round(setting.mean_score * rules.completions))
    skill = np.full(swarm.nodes, setting.mean_score)
    if setting.scores is Scores.UNEQUAL:
        others = ~swarm.diligent
        skill[others] *= 0.2 + 1.6 * rng.permutation(np.linspace(0.0, 1.0, int(others.sum())))
    return rng.binomial(rules.completions, skill)


def _truths(swarm: Swarm, score: Ints, mean: float) -> Ints:
    truth = np.full(swarm.nodes, int(Truth.HONEST))
    for strategy, made in PRODUCES.items():
        truth[swarm.strategy == strategy] = int(made)
    truth[(swarm.strategy == Strategy.ABORTER) & (score < mean)] = int(Truth.MISSING)
    return truth


def _disputes(one: Stage, producers: Ints, standing: Bools, rng: np.random.Generator) -> tuple[Ints, Ints]:
    """Who disputes each standing batch itself, and who about an answer: −1 if nobody, (batches,) each.

    Disputers take one honest batch each. Who found nothing to fetch, where no accepter serves a copy either, disputes:
    accepters of a batch that does not exist are its friends, and serve none. Shields dispute their coalition's first.
    """
    swarm = one.swarm
    itself, about = np.full(len(producers), -1), np.full(len(producers), -1)
    for node in np.flatnonzero(swarm.strategy == Strategy.DISPUTER):
        open_ = np.flatnonzero(standing & (itself < 0) & (producers != node))
        if len(open_):
            itself[rng.choice(open_)] = node
    for position in np.flatnonzero(standing & (swarm.strategy == Strategy.SHIELD)[producers]):
        friends = np.flatnonzero((swarm.strategy == Strategy.SHIELD) & (np.arange(swarm.nodes) != producers[position]))
        about[position] = rng.choice(friends)
    hidden = one.batch_truth == Truth.WITHHELD
    ballots = one.ballots()
    voters, steps = np.nonzero(ballots.counted & (ballots.verdicts == r.VOID))
    order = rng.permutation(len(voters))
    positions = ballots.positions[voters, steps]
    for voter, position in zip(voters[order], positions[order], strict=True):
        if standing[position] and hidden[position] and itself[position] < 0:
            itself[position] = voter
    return itself, about


def _bounties(one: r.Ballots, itself: Ints, about: Ints, rejected: Bools) -> Floats:
    """A tenth of each bond that votes slash, in bonds, (voters,): to stage 1's rejecters, or else to a disputer."""
    count, voters = len(rejected), len(one.positions)
    found = one.counted & (one.verdicts == r.REJECT)
    finders = np.bincount(one.positions[found], minlength=count)
    share = np.where(rejected, r.BOUNTY / np.maximum(finders, 1), 0.0)
    won: Floats = (found * share[one.positions]).sum(axis=1)
    first = np.where(itself >= 0, itself, about)
    alone = rejected & (finders == 0) & (first >= 0)
    return won + r.BOUNTY * np.bincount(first[alone], minlength=voters)


def _burned(nodes: int, disputes: tuple[Ints, Ints], ends: Ints, votes_2: Ints, rules: Rules) -> Floats:
    """The dispute bonds that are not paid back, per node."""
    back = (ends == r.ENDS_REJECTED) | (ends == r.ENDS_PROVEN_FALSE) | r.doubted(votes_2)
    lost = np.concatenate([disputers[(disputers >= 0) & ~back] for disputers in disputes])
    burned: Floats = rules.dispute_bond * np.bincount(lost, minlength=nodes)
    return burned


def _per_node(values: Ints | Bools, producers: Ints, nodes: int) -> Ints:
    spread = np.zeros(nodes, dtype=np.int64)
    spread[producers] = values
    return spread
