"""What a round pays, worked out from its batches and votes as `Rewards.payoutOf` does, and held against what that says.

Nothing is taken from the contract's own sums: the rates follow from the spec, the claims, how the batches ended and
what was revealed about them (docs/protocol.md, Pay).
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from sapo_verifier.chain.audits import AuditsReader, BatchOutcome, BatchState
from sapo_verifier.chain.errors import coins
from sapo_verifier.chain.reader import ChainReader
from sapo_verifier.chain.votes import Vote, votes_on
from sapo_verifier.checks import Verdict
from sapo_verifier.facts import BatchInfo
from sapo_verifier.spec import ChainRules

RIGHT = {
    BatchState.ACCEPTED: Verdict.ACCEPT,
    BatchState.REJECTED: Verdict.REJECT,
    BatchState.PROVEN_FALSE: Verdict.REJECT,
}


@dataclass(frozen=True)
class Pay:
    """A node's pay of one round, written out: score · per_one + verdicts · per_verdict, in the token's smallest unit.

    differs: in words, where the contract says something else; "" where it agrees.
    """

    round: int
    node: str
    score: int
    per_one: int
    producer: int
    verdicts: int
    per_verdict: int
    auditor: int
    total: int
    claimed: bool
    differs: str


@dataclass(frozen=True)
class RoundPay:
    """A final round's pay. claimed: the ones that count; paid_verdicts: the right ones; pool: the most that is paid."""

    pool: int
    claimed: int
    per_one: int
    paid_verdicts: int
    per_verdict: int
    pays: list[Pay]  # in the order of the batches


def schedule(rules: ChainRules, round_: int) -> int:
    """The pool of a round, in the token's smallest unit."""
    return int(rules.initial_pool, 16) >> (round_ // rules.halving_rounds)


def pay_of(
    reader: ChainReader, round_: int, batches: Sequence[BatchInfo], outcomes: Sequence[BatchOutcome], head: int
) -> RoundPay:
    """The pay of a final round. batches: all of the round's, in order, with their outcomes; head: the block up to which
    reveals are read. Raises ChainUnavailable."""
    rules = reader.deployment.spec.chain
    pool = schedule(rules, round_)
    auditors = pool * rules.auditors_share // 10_000
    claimed = sum(_counts(rules, batch, outcome) for batch, outcome in zip(batches, outcomes, strict=True))
    paid_verdicts = sum(map(_right, outcomes))
    per_one = min((pool - auditors) // claimed, int(rules.max_per_unit, 16)) if claimed else 0
    per_verdict = min(auditors // paid_verdicts, int(rules.max_per_verdict, 16)) if paid_verdicts else 0
    given = right_verdicts(votes_on(reader, batches, head), outcomes)
    said = AuditsReader(reader).payouts_in(round_, [batch.node for batch in batches])
    pays = []
    for batch, outcome, payout in zip(batches, outcomes, said, strict=True):
        accepted = outcome.state is BatchState.ACCEPTED
        score, verdicts = (batch.claim.bit_count(), given[batch.node]) if accepted else (0, 0)
        producer, auditor = score * per_one, verdicts * per_verdict
        differs = ""
        if (payout.producer, payout.auditor) != (producer, auditor):
            differs = (
                f"the contract pays {payout.producer} for its batch and {payout.auditor} for its verdicts, "
                f"and by the rules it is {producer} and {auditor}"
            )
        total = producer + auditor
        pays.append(
            Pay(
                round_,
                batch.node,
                score,
                per_one,
                producer,
                verdicts,
                per_verdict,
                auditor,
                total,
                payout.claimed,
                differs,
            )
        )
    return RoundPay(pool, claimed, per_one, paid_verdicts, per_verdict, pays)


def pay_in_words(pay: Pay) -> str:
    """Written out, in tokens."""
    ones = f"{pay.score} × {coins(pay.per_one)} for its batch"
    verdicts = f"{pay.verdicts} × {coins(pay.per_verdict)} for its verdicts"
    claimed = ", claimed" if pay.claimed else ", not claimed yet" if pay.total else ""
    differs = f"; but {pay.differs}" if pay.differs else ""
    return f"{ones} + {verdicts} = {coins(pay.total)}{claimed}{differs}"


def right_verdicts(votes: Sequence[Vote], outcomes: Sequence[BatchOutcome]) -> Counter[str]:
    """By voter how many verdicts were right in the stage that decided: paid, if its own batch is accepted."""
    by_index = {outcome.index: outcome for outcome in outcomes}
    return Counter(vote.voter for vote in votes if is_right(vote, by_index[vote.index]))


def is_right(vote: Vote, outcome: BatchOutcome) -> bool:
    """Whether a verdict is what the batch ended as, in the stage that decided about it."""
    stage = 2 if outcome.in_stage_2 else 1
    return vote.stage == stage and RIGHT.get(outcome.state) == vote.verdict


def _counts(rules: ChainRules, batch: BatchInfo, outcome: BatchOutcome) -> int:
    """The ones of a claim, if some stage gave the batch the accepts from which on it counts."""
    most = max(outcome.stage_1.accepts, outcome.stage_2.accepts)
    return batch.claim.bit_count() if most >= rules.min_accepts else 0


def _right(outcome: BatchOutcome) -> int:
    votes = outcome.stage_2 if outcome.in_stage_2 else outcome.stage_1
    right = RIGHT.get(outcome.state)
    return 0 if right is None else votes.accepts if right is Verdict.ACCEPT else votes.rejects
