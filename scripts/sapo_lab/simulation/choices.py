"""What a person chooses of a simulation: a network's parameters, and what its nodes do."""

from dataclasses import dataclass
from enum import IntEnum

from sapo_verifier.schedule import STAGE_2_FACTOR


@dataclass(frozen=True)
class Rules:
    """Parameters of a network. Amounts that are taken are in bonds, pay is in tokens.

    The defaults are the devnet's (sapo_verifier/networks.py), but min_rejects: 8 in docs/protocol.md, 3 there.
    """

    draws: int = 8
    min_accepts: int = 2
    min_rejects: int = 8
    completions: int = 128  # slots · G: the most ones in a claim
    dispute_bond: float = 0.05
    missed_batch_fee: float = 0.02
    missed_reveal_fee: float = 0.05
    wrong_verdict_penalty: float = 0.05
    pool: float = 10_000.0  # tokens per round
    auditors_share: float = 0.1
    max_per_unit: float = 10.0  # tokens

    def window_size(self, stage: int) -> int:
        return self.draws if stage == 1 else STAGE_2_FACTOR * self.draws


class Strategy(IntEnum):
    """What a node does, round after round."""

    HONEST = 0
    FALSE = 1  # produces false batches, votes honestly
    PROVABLE = 2  # produces provably false batches, votes honestly
    WITHHOLDER = 3  # serves nothing, votes honestly
    ABORTER = 4  # submits only when the score is above the mean, votes honestly
    DISPUTER = 5  # disputes an honest batch each round, else honest
    LAZY = 6  # produces honestly, accepts everything unseen
    LIAR = 7  # produces honestly, rejects everything
    SILENT = 8  # produces honestly, commits to verdicts and never reveals
    CARTEL = 9  # produces false batches; accepts the cartel's, rejects all others
    CENSORS = 10  # produce honestly; void all others' batches in stage 1, and in stage 2 where that keeps them void
    SLASHERS = 11  # as the censors, but reject in stage 2 where that rejects
    DODGER = 12  # as the lazy one, but does not reveal where the penalties would be more than the fee
