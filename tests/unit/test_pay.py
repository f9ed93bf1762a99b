"""Why a round's pay was nothing: every way in which the contracts pay zero, in a sentence."""

import dataclasses

import pytest

from sapo_client.duties.health.judged import OwnBatch, Said
from sapo_client.duties.pay import Round, pay_in_words
from sapo_devnet.testkit.networks import small_spec
from sapo_verifier.chain.audits import BatchOutcome, BatchState, Payout, RoundTotals, Votes

RULES = small_spec().chain  # two accepts at least
COIN = 10**18
NOBODY = Votes(0, 0, 0, 0)


def batch(
    state: BatchState, one: Votes = NOBODY, two: Votes = NOBODY, *against: Said, stage_2: bool = True
) -> OwnBatch:
    return OwnBatch(17, 9, BatchOutcome(17, state, True, stage_2, one, two, None), against)


NOTHING = Round(
    pay=Payout(9, 0, 0, 0, 0, True, False), totals=RoundTotals(5, 7, True), pool=1000 * COIN, has_beacon=True,
    committed=True, batch=None, registered=2, settled=True,
)  # fmt: skip
LOST = Said("0xaa", 1, 3, "available", "nobody has it")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"registered": 11}, "the node was registered in round 11 only"),
        ({"committed": False}, "no policy was committed for it, so there was no batch"),
        ({"committed": False, "skipped": "given up"}, "there was no batch (given up)"),
        ({"has_beacon": False}, "the round had no beacon"),
        ({}, "a policy was committed and no batch submitted, which costs a fee"),
        ({"batch": batch(BatchState.VOID)}, "nobody revealed a verdict on batch 17"),
        (
            {"batch": batch(BatchState.VOID, Votes(0, 0, 1, 1), NOBODY, LOST)},
            "ended void: 0xaa calls void it in stage 1",
        ),
        (
            {"batch": batch(BatchState.VOID, Votes(1, 0, 0, 1))},
            "got 1 accepts of 1 verdicts in stage 1, and at least 2",
        ),
        ({"batch": batch(BatchState.VOID, Votes(1, 0, 0, 1), Votes(1, 0, 0, 3))}, "1 accepts of 3 verdicts in stage 2"),
        ({"batch": batch(BatchState.VOID, Votes(3, 0, 0, 3), stage_2=False)}, "the node was slashed for another one"),
        ({"batch": batch(BatchState.REJECTED, Votes(0, 3, 0, 3))}, "batch 17 was rejected: 3 rejects and 0 voids"),
        ({"batch": batch(BatchState.PROVEN_FALSE)}, "a fault in batch 17 was proven on chain"),
        (
            {"batch": batch(BatchState.ACCEPTED)},
            "none of its completions is right, and no verdict of this node was paid",
        ),
        ({"batch": batch(BatchState.ACCEPTED), "pool": 0}, "the network's schedule pays nothing"),
        ({"batch": batch(BatchState.PENDING)}, "the RPC contradicts itself"),
    ],
)
def test_nothing_was_paid(changes: dict[str, object], words: str) -> None:
    said = pay_in_words(dataclasses.replace(NOTHING, **changes), RULES)  # type: ignore[arg-type]
    assert said.startswith("nothing: ")
    assert words in said


def test_a_part_that_is_rounded_down() -> None:
    paid = dataclasses.replace(
        NOTHING, pay=Payout(9, 2, 1, 0, 0, True, False), pool=3, batch=batch(BatchState.ACCEPTED)
    )
    assert "2 right completions and 1 verdicts were counted" in pay_in_words(paid, RULES)


def test_what_was_paid() -> None:
    paid = dataclasses.replace(NOTHING, pay=Payout(9, 2, 1, COIN, COIN // 2, True, False))
    assert pay_in_words(paid, RULES) == "1.5, to be claimed"
    overdue = dataclasses.replace(paid, settled=False)
    assert pay_in_words(overdue, RULES) == "1.5, which cannot be claimed while something of the node is overdue"
    claimed = dataclasses.replace(paid, pay=dataclasses.replace(paid.pay, claimed=True))
    assert pay_in_words(claimed, RULES) == "1.5, paid out"
