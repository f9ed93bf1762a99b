"""What `Audits`, `Disputes` and `Rewards` say: how batches fare, who voted what, what a round pays."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from sapo_verifier.chain.contracts import Call
from sapo_verifier.chain.reader import ChainReader


class BatchState(StrEnum):
    """How far a batch is; in the order of the contract's enum."""

    PENDING = "pending"
    STANDING = "standing"  # stage 1 accepts it; it can be disputed in r+3
    DISPUTED = "disputed"  # stage 2 decides
    ACCEPTED = "accepted"
    REJECTED = "rejected"
    PROVEN_FALSE = "proven false"
    VOID = "void"


class BallotState(StrEnum):
    """In the order of the contract's enum."""

    NONE = "none"
    COMMITTED = "committed"
    REVEALED = "revealed"


@dataclass(frozen=True)
class Votes:
    """Verdicts revealed on one batch in one stage; `revealed` counts abstentions too."""

    accepts: int
    rejects: int
    voids: int
    revealed: int


@dataclass(frozen=True)
class BatchOutcome:
    """How a batch fares."""

    index: int
    state: BatchState
    is_final: bool
    in_stage_2: bool  # certain from r+4 on
    stage_1: Votes
    stage_2: Votes
    disputer: str | None  # who has a bond locked in a dispute of it

    def accepted_in_stage_1(self, min_accepts: int) -> bool:
        """Whether it stood before anybody disputed it. min_accepts: the spec's."""
        votes = self.stage_1
        others = votes.revealed - votes.accepts - votes.rejects
        return votes.rejects == 0 and votes.accepts >= max(min_accepts, 2 * others)


@dataclass(frozen=True)
class Terms:
    """Bond, fees and penalties, in wei."""

    dispute_bond: int
    missed_batch_fee: int
    missed_reveal_fee: int
    wrong_verdict_penalty: int
    withheld_fee: int


@dataclass(frozen=True)
class Payout:
    """What a node earned in a round: the ones of its claim and the verdicts that are paid, and tokens for each."""

    round: int
    score: int
    verdicts: int
    producer: int
    auditor: int
    is_final: bool
    claimed: bool

    @property
    def amount(self) -> int:
        return self.producer + self.auditor


@dataclass(frozen=True)
class RoundTotals:
    """What a round's pay is divided by."""

    claimed: int  # the ones in the claims of batches that got `min_accepts` accepts in a stage, however they end
    paid_verdicts: int  # right ones
    is_final: bool


class AuditsReader:
    """Reads through a ChainReader, and raises what that raises."""

    def __init__(self, reader: ChainReader) -> None:
        self._reader = reader

    def outcomes_of(self, indices: Sequence[int]) -> list[BatchOutcome]:
        """In the order of `indices`, in few HTTP requests."""
        answers = self._reader.call_many([Call("audits", "outcomeOf", (index,)) for index in indices])
        return [_outcome(index, answer) for index, answer in zip(indices, answers, strict=True)]

    def outcome_of(self, index: int) -> BatchOutcome:
        return self.outcomes_of([index])[0]

    def disputer_of(self, index: int, about: int) -> tuple[str | None, bool]:
        """Who disputed the batch at `index` for what its node said of `about`, and whether that bond is locked."""
        disputer, is_open = self._reader.call(Call("disputes", "disputeOf", (index, about)))
        return (None if int(disputer, 16) == 0 else str(disputer)), bool(is_open)

    def verdicts_of(self, voter: str, round_: int, stage: int) -> tuple[BallotState, int]:
        """Whether a voter committed or revealed, and its word once revealed."""
        ballot, _, word = self._reader.call(Call("audits", "verdictsOf", (voter, round_, stage)))
        return list(BallotState)[ballot], word

    def commitment_of(self, voter: str, round_: int, stage: int) -> bytes | None:
        """The hash that a voter committed and has not revealed; None if there is none."""
        ballot, hash_, _ = self._reader.call(Call("audits", "verdictsOf", (voter, round_, stage)))
        return bytes(hash_) if list(BallotState)[ballot] is BallotState.COMMITTED else None

    def terms(self) -> Terms:
        return Terms(*self._reader.call(Call("disputes", "terms")))

    def is_settled(self, node: str) -> bool:
        """Whether nothing that the node committed to is overdue."""
        return self.are_settled([node])[0]

    def are_settled(self, nodes: Sequence[str]) -> list[bool]:
        """The same of several nodes, in few HTTP requests."""
        return [bool(yes) for yes in self._reader.call_many([Call("audits", "settled", (node,)) for node in nodes])]

    def payouts_of(self, node: str, rounds: Sequence[int]) -> list[Payout]:
        """In the order of `rounds`; zeros before a round is final."""
        answers = self._reader.call_many([Call("rewards", "payoutOf", (node, round_)) for round_ in rounds])
        return [Payout(round_, *answer) for round_, answer in zip(rounds, answers, strict=True)]

    def payouts_in(self, round_: int, nodes: Sequence[str]) -> list[Payout]:
        """In the order of `nodes`; zeros before the round is final."""
        answers = self._reader.call_many([Call("rewards", "payoutOf", (node, round_)) for node in nodes])
        return [Payout(round_, *answer) for answer in answers]

    def totals(self, round_: int) -> RoundTotals:
        return RoundTotals(*self._reader.call(Call("audits", "roundTotals", (round_,))))

    def reward_pool(self, round_: int) -> int:
        """What a round pays at most, in the token's units."""
        return int(self._reader.call(Call("rewards", "schedule", (round_,))))


def _outcome(index: int, answer: tuple[Any, ...]) -> BatchOutcome:
    state, _, is_final, in_stage_2, stage_1, stage_2, disputer = answer
    return BatchOutcome(
        index=index,
        state=list(BatchState)[state],
        is_final=is_final,
        in_stage_2=in_stage_2,
        stage_1=Votes(*stage_1),
        stage_2=Votes(*stage_2),
        disputer=None if int(disputer, 16) == 0 else disputer,
    )
