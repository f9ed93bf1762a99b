"""What stage 2 is asked: about a batch itself, about what its node answered in stage 1 of others, or both."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

from sapo_client.duties.actor import Actor
from sapo_client.duties.answers import Question
from sapo_client.duties.testimony import Testimony
from sapo_verifier.chain.errors import ChainUnavailable
from sapo_verifier.chain.votes import disputes_of
from sapo_verifier.facts import BatchInfo


@dataclass(frozen=True)
class Case:
    """One batch. itself: somebody disputed it, or stage 1 did not accept it; questions: what its node answered, and
    somebody doubts; holders: nodes that may have its blocks, but for its own."""

    batch: BatchInfo
    itself: bool
    questions: list[Question]
    holders: list[str]


@dataclass(frozen=True)
class Cases:
    """Of the batches of one round that a node has to judge in stage 2."""

    testimony: Testimony
    cases: list[Case]

    @classmethod
    def read(cls, actor: Actor, round_: int, batches: Sequence[BatchInfo]) -> Self:
        """By the disputes and the reveals that the chain announced. Raises ChainUnavailable."""
        reader, indices = actor.reader, {batch.index for batch in batches}
        disputes = [each for each in disputes_of(reader, round_, reader.block_number()) if each.index in indices]
        doubted = {each.index for each in disputes if each.about != each.index}
        by = [batch.node for batch in batches if batch.index in doubted]
        testimony = Testimony.read(reader, actor.node, round_, {*indices, *(each.about for each in disputes)}, by)
        least = reader.deployment.spec.chain.min_accepts
        outcomes = {outcome.index: outcome for outcome in actor.audits.outcomes_of(sorted(indices))}
        cases = []
        for batch in batches:
            own = {each.about: each.disputer for each in disputes if each.index == batch.index}
            itself = batch.index in own or not outcomes[batch.index].accepted_in_stage_1(least)
            ballot = testimony.ballots.get(batch.node)
            if ballot is None and batch.index in doubted:
                raise ChainUnavailable(
                    f"{reader.where} announces a dispute about what the node of batch {batch.index} answered, and not "
                    "that it answered; try again, and use another RPC if it stays so"
                )
            questions = [
                Question(ballot, about, [disputer])
                for about, disputer in own.items()
                if ballot is not None and about != batch.index
            ]
            holders = dict.fromkeys([*own.values(), *testimony.holders(batch.index)])
            cases.append(Case(batch, itself, questions, [node for node in holders if node != actor.node]))
        return cls(testimony, cases)

    @property
    def holders(self) -> dict[int, list[str]]:
        """By index."""
        return {case.batch.index: case.holders for case in self.cases}
