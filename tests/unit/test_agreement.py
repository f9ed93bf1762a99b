"""What is found beside what the network decided, and why a batch is void."""

from dataclasses import replace

import pytest

from sapo_devnet.testkit.formula import SPEC
from sapo_verifier.agreement import agreement, is_expired, why_void
from sapo_verifier.audit import CheckResult, Status
from sapo_verifier.chain.audits import BatchOutcome, BatchState, Votes
from sapo_verifier.facts import BatchInfo
from sapo_verifier.schedule import KEEP_AFTER, window_size

ROUND, NOW, NONE = 5, 12, Votes(0, 0, 0, 0)
BATCH = BatchInfo(17, "0x" + "ab" * 20, ROUND, 2, b"", b"", b"", 0)
RULES = SPEC.chain.model_copy(update={"draws": 4, "min_accepts": 2, "min_rejects": 3})
SLASHED = "its node was slashed for batch 3"


def outcome(state: BatchState, stage_2: Votes = NONE, *, final: bool = True) -> BatchOutcome:
    return BatchOutcome(17, state, final, stage_2 != NONE, Votes(1, 0, 3, 4), stage_2, None)


def results(status: Status, check: str = "reward") -> list[CheckResult]:
    return [CheckResult("schema", "pass"), CheckResult(check, status, "words")]


@pytest.mark.parametrize(
    ("found", "state", "void", "agreed"),
    [
        ("pass", BatchState.ACCEPTED, "", "agree"), ("pass", BatchState.REJECTED, "", "disagree"),
        ("pass", BatchState.PROVEN_FALSE, "", "disagree"), ("pass", BatchState.VOID, "too few accepted: 1", "disagree"),
        ("pass", BatchState.VOID, SLASHED, "agree"), ("fail", BatchState.ACCEPTED, "", "disagree"),
        ("fail", BatchState.REJECTED, "", "agree"), ("fail", BatchState.PROVEN_FALSE, "", "agree"),
        ("fail", BatchState.VOID, "too few", "agree"), ("void", BatchState.ACCEPTED, "", "unknown"),
        ("void", BatchState.REJECTED, "", "unknown"), ("void", BatchState.VOID, "nobody had it", "agree"),
        ("unknown", BatchState.ACCEPTED, "", "unknown"), ("unknown", BatchState.REJECTED, "", "unknown"),
        ("unknown", BatchState.VOID, "too few", "unknown"),
    ],
)  # fmt: skip
def test_what_is_found_beside_what_was_decided(found: Status, state: BatchState, void: str, agreed: str) -> None:
    both = agreement(BATCH, outcome(state), void, results(found), NOW)
    assert both.agreed == agreed
    assert f"the network's word is {state.value}" in both.words
    assert void in both.words


@pytest.mark.parametrize("found", ["pass", "fail", "void", "unknown"])
def test_what_is_not_final_is_unknown(found: Status) -> None:
    both = agreement(BATCH, outcome(BatchState.STANDING, final=False), "", results(found), NOW)
    assert both.agreed == "unknown"
    assert both.words.startswith("not final yet: standing; nothing changes from round 11 on")


def test_no_checks_no_agreement() -> None:
    assert agreement(BATCH, outcome(BatchState.ACCEPTED), "", None, NOW).agreed == "unknown"


def test_blocks_have_to_be_served_for_some_rounds() -> None:
    missing, last = results("void", "available"), ROUND + KEEP_AFTER
    assert not is_expired(BATCH, last, missing)
    assert is_expired(BATCH, last + 1, missing)
    assert not is_expired(BATCH, last + 1, results("fail"))
    both = agreement(BATCH, outcome(BatchState.VOID), "nobody had it", missing, last + 1)
    assert both.agreed == "unknown", "it may have been there"
    assert "expired" in both.words
    assert agreement(BATCH, outcome(BatchState.VOID), "nobody had it", missing, last).agreed == "agree"


@pytest.mark.parametrize(
    ("votes", "words"),
    [
        (NONE, "too few accepted: 1 of 4 in stage 1, and nobody revealed in stage 2"),
        (Votes(0, 1, 3, 4), "nobody had it: 3 of 4 found it void, 1 false"),
        (Votes(2, 0, 0, 4), "a third abstained: 2 of 4"),
        (Votes(2, 2, 0, 4), "too few accepted: 2 of 4 accepted it, 2 rejected it, 0 found it void"),
        (Votes(1, 2, 0, 3), "too few rejected to slash: 1 of 3 accepted it, 2 rejected it, 0 found it void"),
        (Votes(1, 0, 1, 2), "too few accepted: 1 of 2 accepted it"),
    ],
)
def test_why_a_batch_is_void(votes: Votes, words: str) -> None:
    assert why_void(outcome(BatchState.VOID, votes), RULES, 5, None).startswith(words)
    assert why_void(outcome(BatchState.VOID, votes), RULES, 5, 3) == SLASHED
    assert why_void(outcome(BatchState.ACCEPTED, votes), RULES, 5, None) == ""


def test_half_of_all_to_whom_it_was_dealt_have_to_miss_it() -> None:
    votes = Votes(0, 0, 3, 3)
    many = 1 + window_size(RULES.draws, 2)
    assert why_void(outcome(BatchState.VOID, votes), RULES, 7, None).startswith("nobody had it")
    assert why_void(outcome(BatchState.VOID, votes), RULES, many, None).startswith("too few accepted")
    votes = replace(votes, voids=8, revealed=8)
    assert why_void(outcome(BatchState.VOID, votes), RULES, many, None).startswith("nobody had it")
