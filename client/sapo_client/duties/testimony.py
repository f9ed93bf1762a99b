"""What voters of stage 1 revealed about a round's batches: who has a batch's blocks, and what was answered about it."""

import secrets
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from sapo_verifier.chain.reader import ChainReader
from sapo_verifier.chain.votes import Revealed, reveals_of
from sapo_verifier.checks import Verdict
from sapo_verifier.facts import BatchInfo

MOST_HOLDERS = 3  # that are asked for a batch, of those who accepted it, and as many of those who rejected it


@dataclass(frozen=True)
class Testimony:
    """On one round. ballots: by voter, this node's too; batches: by index, all that was asked about or is accepted."""

    node: str  # who reads it
    round: int
    ballots: Mapping[str, Revealed]
    batches: Mapping[int, BatchInfo]

    @classmethod
    def read(
        cls, reader: ChainReader, node: str, round_: int, about: Collection[int], by: Collection[str] = ()
    ) -> "Testimony":
        """Ballots of stage 1 by voters that were dealt a batch of `about` (indices), and by those of `by`.

        Raises ChainUnavailable.
        """
        ballots = reveals_of(reader, round_, 1, reader.block_number(), about=about, by=by)
        indices = {*about, *(index for ballot in ballots for index in ballot.accepted)}
        indices |= {ballot.own for ballot in ballots if ballot.own is not None}
        batches = reader.batches_at(sorted(indices)) if indices else []
        by_voter = {ballot.voter: ballot for ballot in ballots}
        return cls(node, round_, by_voter, {batch.index: batch for batch in batches})

    def others(self) -> list[Revealed]:
        """The ballots of other nodes."""
        return [ballot for voter, ballot in self.ballots.items() if voter != self.node]

    def accepters(self, index: int) -> list[str]:
        """Some nodes, at random, that say that they have looked at a batch and accept it: they keep its blocks."""
        return self._some(index, Verdict.ACCEPT)

    def holders(self, index: int) -> list[str]:
        """Some that accepted it and some that rejected it: friends of a node that takes its batch away, to escape or to
        hurt, stand on one side only."""
        return [*self._some(index, Verdict.ACCEPT), *self._some(index, Verdict.REJECT)]

    def _some(self, index: int, verdict: Verdict) -> list[str]:
        side = [ballot.voter for ballot in self.others() if ballot.verdict(index) == verdict]
        return secrets.SystemRandom().sample(side, min(MOST_HOLDERS, len(side)))
