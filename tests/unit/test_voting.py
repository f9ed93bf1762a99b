"""From outcomes to verdicts, and the report that says why."""

import pytest

from sapo_client.duties.penalties import has_wrong_verdicts
from sapo_client.duties.verdicts import report_block
from sapo_verifier.audit import CheckResult
from sapo_verifier.chain.audits import BatchOutcome, BatchState, Votes
from sapo_verifier.checks import CHECKS, Verdict, verdict
from sapo_verifier.cid import BLOCK_LIMIT
from sapo_verifier.errors import ObjectError
from sapo_verifier.objects import MAX_FINDING_REASON, MAX_FINDINGS, VerdictReport

VOTER = "0x" + "ab" * 20


def outcomes(*statuses):
    return [CheckResult(check.__name__, status, "as it is") for check, status in zip(CHECKS, statuses, strict=False)]


@pytest.mark.parametrize(
    ("statuses", "expected"),
    [
        (["pass"] * 12, Verdict.ACCEPT),
        (["pass"] * 11 + ["unknown"], Verdict.ABSTAIN),
        (["pass", "unknown", "fail"], Verdict.REJECT),
        (["pass", "fail"], Verdict.REJECT),
        (["pass", "unknown", "void"], Verdict.VOID),
        (["void"], Verdict.VOID),
        (["unknown"], Verdict.ABSTAIN),
        ([], Verdict.ABSTAIN),
    ],
)
def test_the_verdict_follows_from_the_checks(statuses, expected):
    assert verdict(outcomes(*statuses)) is expected


def test_the_report_is_its_object():
    findings = {
        9: [CheckResult("available", "pass"), CheckResult("reward", "fail", "no", 2, 1, 0, {"text": "<7>"})],
        4: outcomes("pass", "pass"),
        7: [CheckResult("available", "void", "nobody has it")],
    }
    block = report_block(3, 2, VOTER, {index: verdict(found) for index, found in findings.items()}, findings)
    assert VerdictReport.parse(block).to_json() == {
        "v": 2,
        "round": 3,
        "stage": 2,
        "voter": VOTER,
        "batches": [
            {"index": 4, "verdict": 1, "findings": []},
            {
                "index": 7,
                "verdict": 3,
                "findings": [{"check": "available", "status": "void", "reason": "nobody has it"}],
            },
            {
                "index": 9,
                "verdict": 2,
                "findings": [{"check": "reward", "status": "fail", "reason": "no", "slot": 2, "k": 1, "t": 0}],
            },
        ],
    }


@pytest.mark.parametrize("character", ["x", '"', "\U0001f600"])
def test_the_longest_report_is_a_block(character):
    """A peer's words are in the reasons: whatever they are, the voter must be able to publish its report."""
    worst = [CheckResult("x" * 32, "unknown", character * 5000, 2**53 - 1, 2**53 - 1, 2**53 - 1)] * 11
    findings = {2**52 + index: [*worst, CheckResult("policy", "fail", "the last one counts")] for index in range(128)}
    block = report_block(2**53 - 1, 2, VOTER, dict.fromkeys(findings, 2), findings)
    assert len(block) <= BLOCK_LIMIT
    batches = VerdictReport.parse(block).batches
    assert all(len(batch.findings) == MAX_FINDINGS for batch in batches)
    assert {batch.findings[-1].reason for batch in batches} == {"the last one counts"}
    assert {len(batch.findings[0].reason) for batch in batches} == {MAX_FINDING_REASON}


def test_reports_out_of_order_are_refused():
    findings = {1: outcomes("pass"), 2: outcomes("pass")}
    made = VerdictReport.parse(report_block(3, 1, VOTER, {1: 1, 2: 1}, findings)).to_json()
    for batches in (made["batches"][::-1], made["batches"][:1] * 2, []):
        with pytest.raises((ObjectError, ValueError), match=r"order|at least 1"):
            VerdictReport.model_validate(made | {"batches": batches})


NONE = Votes(0, 0, 0, 0)


@pytest.mark.parametrize(
    ("state", "in_stage_2", "stage_1", "stage_2", "wrong"),
    [
        (BatchState.ACCEPTED, False, Votes(9, 0, 0, 9), NONE, False),
        (BatchState.ACCEPTED, True, Votes(5, 1, 0, 6), Votes(5, 0, 0, 5), True),
        (BatchState.ACCEPTED, True, Votes(5, 1, 0, 6), Votes(4, 0, 0, 4), True),
        (BatchState.ACCEPTED, True, Votes(9, 0, 1, 10), Votes(6, 1, 0, 7), True),
        (BatchState.ACCEPTED, True, Votes(9, 0, 1, 10), Votes(6, 0, 2, 8), False),
        (BatchState.ACCEPTED, True, Votes(9, 0, 0, 9), Votes(4, 7, 0, 11), False),
        (BatchState.REJECTED, True, Votes(9, 1, 0, 10), Votes(0, 3, 0, 3), False),
        (BatchState.REJECTED, True, Votes(0, 2, 0, 2), Votes(0, 3, 0, 3), False),
        (BatchState.PROVEN_FALSE, True, Votes(1, 2, 0, 3), Votes(0, 3, 0, 3), True),
        (BatchState.REJECTED, True, Votes(0, 2, 0, 2), Votes(1, 3, 0, 4), True),
        (BatchState.PROVEN_FALSE, False, Votes(2, 0, 0, 2), NONE, True),
        (BatchState.PROVEN_FALSE, False, NONE, NONE, False),
        (BatchState.VOID, True, Votes(2, 2, 0, 4), Votes(2, 2, 0, 4), False),
    ],
)
def test_which_tallies_hold_a_wrong_verdict(state, in_stage_2, stage_1, stage_2, wrong):
    outcome = BatchOutcome(7, state, True, in_stage_2, stage_1, stage_2, None)
    assert has_wrong_verdicts(outcome) is wrong
