"""What a person chooses of a simulation: a network's parameters, what its nodes do, and how many of them vote."""

from dataclasses import dataclass
from enum import IntEnum

from sapo_verifier.schedule import STAGE_2_FACTOR

MEAN_SCORE = 0.5  # of an honest batch, as a share of its completions


@dataclass(frozen=True)
class Rules:
    """Parameters of a network. Amounts that are taken are in bonds, pay is in tokens.

    The defaults are those of a spec for up to 50 nodes; a devnet's min_accepts and min_rejects are smaller.
    """

    draws: int = 8
    min_accepts: int = 4
    min_rejects: int = 8
    completions: int = 128  # slots · G: the most ones in a claim
    dispute_bond: float = 0.05
    missed_batch_fee: float = 0.02
    missed_reveal_fee: float = 0.05
    wrong_verdict_penalty: float = 0.05
    withheld_fee: float = 0.1
    pool: float = 10_000.0  # tokens per round
    auditors_share: float = 0.1
    max_per_unit: float = 10.0  # tokens
    max_per_verdict: float = 20.0  # tokens

    def window_size(self, stage: int) -> int:
        return self.draws if stage == 1 else STAGE_2_FACTOR * self.draws


class Strategy(IntEnum):
    """What a node does, round after round. Whoever is not honest votes in every round, whatever the turnout."""

    HONEST = 0
    FALSE = 1  # produces false batches, votes honestly
    PROVABLE = 2  # produces provably false batches, votes honestly
    HIDER = 3  # submits made-up hashes and a full claim, serves nothing, votes honestly
    WITHHOLDER = 4  # produces false batches, serves them in stage 1 only, votes honestly
    ABORTER = 5  # submits only when the score is above the mean, votes honestly
    DISPUTER = 6  # disputes an honest batch each round, else honest
    STARVER = 7  # produces honestly, refuses one voter of each of its batches, else honest
    LAZY = 8  # produces honestly, accepts everything unseen
    DOZER = 9  # as the lazy one in stage 1, and looks in stage 2
    DODGER = 10  # as the lazy one, but does not reveal where the penalties would be more than the fee
    LIAR = 11  # produces honestly, rejects everything
    SILENT = 12  # produces honestly, commits to verdicts and never reveals
    CARTEL = 13  # false batches; accept the cartel's, reject all others
    QUIET = 14  # false batches; accept the cartel's, vote honestly on all others
    JUNK = 15  # made-up hashes and full claims; accept the cartel's, vote honestly on all others
    SHIELD = 16  # as junk; and a friend disputes what stage 1 accepted, about an answer, before anybody else can
    SELF_SLASHERS = 17  # provably false batches; accept the cartel's, and prove their own before others do
    CENSORS = 18  # honest batches; void others' wherever the draw says that this keeps them from being accepted
    BEST_CENSORS = 19  # as the censors, but only what claims more than the median
    SLASHERS = 20  # as the censors, but reject in stage 2 where that rejects


class Scores(IntEnum):
    """How many completions of honest batches are right: mean_score of them, on the average."""

    EQUAL = 0  # exactly so many of each
    LUCK = 1  # each with this probability
    UNEQUAL = 2  # as LUCK, but by node from a fifth of it to nine fifths; all that are not honest have the mean


@dataclass(frozen=True)
class Setting:
    """What is neither a rule nor a strategy.

    turnout: the share of honest nodes that vote, anew for each stage. mean_score: of an honest batch, as a share of its
    completions.
    """

    turnout: float = 1.0
    scores: Scores = Scores.LUCK
    mean_score: float = MEAN_SCORE


USUAL = Setting()
