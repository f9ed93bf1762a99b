"""Why a round's pay was nothing, in a sentence: every way in which the contracts pay zero (docs/protocol.md, 14)."""

from collections.abc import Sequence
from dataclasses import dataclass

from sapo_client.duties.health.judged import OwnBatch, by_whom
from sapo_verifier.chain.audits import AuditsReader, BatchState, Payout, RoundTotals
from sapo_verifier.chain.contracts import Call
from sapo_verifier.chain.errors import coins
from sapo_verifier.chain.reader import ChainReader
from sapo_verifier.schedule import FINAL_AFTER
from sapo_verifier.spec import ChainRules

LAST_ROUNDS = 5  # final ones, whose pay is told


@dataclass(frozen=True)
class Round:
    """What was read of a final round. batch: the node's own; registered: the round in which the node was registered;
    skipped: what its own report says; settled: whether nothing of the node is overdue now."""

    pay: Payout
    totals: RoundTotals
    pool: int  # what the round pays at most
    has_beacon: bool
    committed: bool
    batch: OwnBatch | None
    registered: int
    settled: bool
    skipped: str = ""


def pay_in_words(round_: Round, rules: ChainRules) -> str:
    """How much, and what became of it; or why there is nothing."""
    pay = round_.pay
    if not pay.amount:
        return f"nothing: {why_nothing(round_, rules)}"
    if pay.claimed:
        return f"{coins(pay.amount)}, paid out"
    if not round_.settled:
        return f"{coins(pay.amount)}, which cannot be claimed while something of the node is overdue"
    return f"{coins(pay.amount)}, to be claimed"


def why_nothing(round_: Round, rules: ChainRules) -> str:
    """For pay of zero. Who has no accepted batch in a round is not paid for its verdicts on it either."""
    if round_.batch is None:
        return _no_batch(round_)
    outcome = round_.batch.outcome
    match outcome.state:
        case BatchState.PROVEN_FALSE:
            return f"a fault in batch {outcome.index} was proven on chain, and the node was slashed"
        case BatchState.REJECTED:
            return f"batch {outcome.index} was rejected: {by_whom(round_.batch)}"
        case BatchState.ACCEPTED:
            return _accepted(round_)
        case BatchState.VOID:
            return _void(round_.batch, rules)
    return f"batch {outcome.index} is {outcome.state.value}, although the round is final: the RPC contradicts itself"


def _no_batch(round_: Round) -> str:
    own = f" ({round_.skipped})" if round_.skipped else ""
    if round_.pay.round < round_.registered:
        return f"the node was registered in round {round_.registered} only"
    if not round_.committed:
        return f"no policy was committed for it, so there was no batch{own}"
    if not round_.has_beacon:
        return "the round had no beacon: nobody captured it in time, so there was no batch to be made"
    return f"a policy was committed and no batch submitted, which costs a fee{own}"


def _accepted(round_: Round) -> str:
    pay, totals = round_.pay, round_.totals
    if not round_.pool:
        return "the network's schedule pays nothing for this round any more"
    if pay.score or pay.verdicts:
        return (
            f"{pay.score} right completions and {pay.verdicts} verdicts were counted, and their part of "
            f"{coins(round_.pool)} for {totals.claimed} claimed completions and {totals.paid_verdicts} verdicts rounds "
            "to nothing"
        )
    return (
        "the batch was accepted, but none of its completions is right, and no verdict of this node was paid: it "
        "revealed none, or none that was right"
    )


def _void(batch: OwnBatch, rules: ChainRules) -> str:
    index, one, two = batch.index, batch.outcome.stage_1, batch.outcome.stage_2
    if not one.revealed and not two.revealed:
        return f"nobody revealed a verdict on batch {index}: too few nodes voted, or it was too late for them"
    if batch.doubts:
        return f"batch {index} ended void: {by_whom(batch)}"
    last, stage = (two, 2) if batch.outcome.in_stage_2 else (one, 1)
    if last.accepts >= rules.min_accepts and 3 * last.accepts >= 2 * last.revealed:
        return f"batch {index} became void because the node was slashed for another one"
    if not two.revealed:
        # Stage 1 did not accept it, and nobody said more in stage 2.
        last, stage = one, 1
    return (
        f"batch {index} got {last.accepts} accepts of {last.revealed} verdicts in stage {stage}, and at least "
        f"{rules.min_accepts}, which are two thirds, accept: not enough nodes judged it"
    )


def last_rounds(
    reader: ChainReader,
    audits: AuditsReader,
    node: str,
    current: int,
    batches: Sequence[OwnBatch],
    *,
    registered_block: int,
    skipped: dict[int, str],
) -> list[Round]:
    """The last final rounds, in few requests. batches: the node's own of these rounds."""
    final = current - FINAL_AFTER
    rounds = range(max(0, final - LAST_ROUNDS + 1), final + 1)
    if not rounds:
        return []
    pays = audits.payouts_of(node, rounds)
    calls = [Call("rounds", "beacon", (round_,)) for round_ in rounds]
    calls += [Call("rounds", "policyOf", (node, round_)) for round_ in rounds]
    calls += [Call("rewards", "schedule", (round_,)) for round_ in rounds]
    calls += [Call("audits", "roundTotals", (round_,)) for round_ in rounds]
    *answers, settled = reader.call_many([*calls, Call("audits", "settled", (node,))])
    count = len(rounds)
    beacons, policies, pools, totals = (answers[at : at + count] for at in range(0, 4 * count, count))
    of_round = {batch.round: batch for batch in batches}
    registered = (registered_block - reader.deployment.first_block) // reader.deployment.spec.chain.round_blocks
    return [
        Round(
            pay=pays[i],
            totals=RoundTotals(*totals[i]),
            pool=int(pools[i]),
            has_beacon=any(beacons[i]),
            committed=any(policies[i][0]),
            batch=of_round.get(round_),
            registered=registered,
            settled=bool(settled),
            skipped=skipped.get(round_, ""),
        )
        for i, round_ in enumerate(rounds)
    ]
