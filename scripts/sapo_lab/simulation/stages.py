"""One stage of a simulated round: windows by a permutation, who votes, what they say, what they can prove."""

from dataclasses import dataclass

import numpy as np

from sapo_lab.simulation import rules as r
from sapo_lab.simulation.choices import Rules, Strategy
from sapo_lab.simulation.exact import voting
from sapo_lab.simulation.rules import Bools, Floats, Ints
from sapo_lab.simulation.strategies import BLIND, COALITIONS, VOIDERS, Swarm, Truth, planned, verdicts


@dataclass
class Stage:
    """The windows of one stage and what their voters say; all (voters, steps), but batch_truth: (batches,)."""

    swarm: Swarm
    number: int
    positions: Ints
    counted: Bools  # of those who vote: in their windows, and (stage 2) disputed
    batch_truth: Ints
    truth: Ints  # as each voter finds it
    friend: Bools
    own: Bools  # the voter's own coalition's is proven by the coalition itself
    said: Ints
    revealed: Bools  # (voters, 1)

    @classmethod
    def dealt(
        cls,
        swarm: Swarm,
        rules: Rules,
        stage: int,
        truths: Ints,
        producers: Ints,
        own: Ints,
        turnout: float,
        rng: np.random.Generator,
    ) -> "Stage":
        """producers: by position; own: each node's position, the number of batches if it has none (and no vote)."""
        count = len(producers)
        starts = np.zeros(swarm.nodes, dtype=np.int64)
        starts[producers] = rng.permutation(count)
        positions, counted = r.windows(starts, count, own, rules.window_size(stage))
        counted &= ((own < count) & _voting(swarm, turnout, rng))[:, None]
        allied = np.where(np.isin(swarm.strategy, COALITIONS), swarm.strategy, -1)
        friend = (allied[producers][positions] == allied[:, None]) & (allied >= 0)[:, None]
        selves = (swarm.strategy == Strategy.SELF_SLASHERS)[:, None] & friend
        truth = truths[positions]
        revealed = (swarm.strategy != Strategy.SILENT)[:, None]
        said = verdicts(swarm, truth, friend, stage)
        return cls(swarm, stage, positions, counted, truths, truth, friend, selves, said, revealed)

    def starve(self, producers: Ints, rng: np.random.Generator) -> None:
        """Starvers refuse one voter each, no friend, drawn at random."""
        refusing = (self.swarm.strategy == Strategy.STARVER)[producers]
        voters, steps = np.nonzero(self.counted & refusing[self.positions] & ~self.friend)
        order = rng.permutation(len(voters))
        _, first = np.unique(self.positions[voters, steps][order], return_index=True)
        chosen = order[first]
        self.truth[voters[chosen], steps[chosen]] = Truth.WITHHELD
        self.said = verdicts(self.swarm, self.truth, self.friend, self.number)

    def remember(self, before: "Stage", withdrawn: Bools) -> None:
        """Who fetched a batch in stage 1 judges it in stage 2, though it is served no longer. withdrawn: (batches,).

        Nobody else gets a copy here: the least that its producer has to fear.
        """
        if not withdrawn.any():
            return
        count = len(withdrawn)
        had = before.positions + count * np.arange(self.swarm.nodes)[:, None]
        now = self.positions + count * np.arange(self.swarm.nodes)[:, None]
        again = withdrawn[self.positions] & np.isin(now, had[before.counted])
        self.truth = np.where(again, before.batch_truth[self.positions], self.truth)
        self.said = verdicts(self.swarm, self.truth, self.friend, self.number)

    def plan(self, wanted: Bools, rules: Rules) -> None:
        """Censors and slashers make up their minds."""
        if np.isin(self.swarm.strategy, VOIDERS).any():
            self.said = planned(
                self.said, self.swarm, self.positions, self.counted, self.friend, wanted, self.number, rules
            )

    def dodge(self, wrong: Ints, rules: Rules) -> None:
        """Dodgers see what the others reveal, and say nothing where `wrong` verdicts would cost them more than that."""
        dear = rules.wrong_verdict_penalty * wrong > rules.missed_reveal_fee
        self.revealed = self.revealed & ~(dear & (self.swarm.strategy == Strategy.DODGER))[:, None]

    def ballots(self) -> r.Ballots:
        """What is revealed."""
        return r.Ballots(self.positions, self.said, self.counted & self.revealed)

    @property
    def proves(self) -> Bools:
        """Who finds a provable fault: all who look and are no accomplices; of self-slashers, they themselves."""
        blind = np.isin(self.swarm.strategy, BLIND)
        if self.number == 1:
            blind |= self.swarm.strategy == Strategy.DOZER
        found = self.counted & (self.truth == Truth.PROVABLE)
        proves: Bools = found & np.where(self.own, True, ~blind[:, None] & ~self.friend)
        return proves

    def provers(self, count: int) -> Ints:
        """How many found a fault of each batch, (count,)."""
        return np.bincount(self.positions[self.proves], minlength=count)

    def provers_shares(self, proven: Bools) -> Floats:
        """What each voter gets for proofs, in bonds. Who of a batch's finders is first is luck, but for friends."""
        proves = self.proves
        friends = np.bincount(self.positions[proves & self.own], minlength=len(proven))
        first = proves & (self.own | (friends == 0)[self.positions])
        finders = np.bincount(self.positions[first], minlength=len(proven))
        share = np.where(proven, r.PROVERS_SHARE / np.maximum(finders, 1), 0.0)
        won: Floats = (first * share[self.positions]).sum(axis=1)
        return won


def _voting(swarm: Swarm, turnout: float, rng: np.random.Generator) -> Bools:
    """Who votes: the diligent, and so many of the others."""
    votes = swarm.diligent.copy()
    others = rng.permutation(np.flatnonzero(~votes))
    votes[others[: voting(len(others), turnout)]] = True
    return votes
