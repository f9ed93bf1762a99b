"""`scripts/chaos` hears what a node says that is not so."""

import pytest

from sapo_client.duties.elsewhere import SecondProgram
from sapo_lab.chaos.faults import FAULTS
from sapo_lab.chaos.play import false_claims

LAGS = "submit/7: the chain, whose latest is 9, does not show its transaction of block 10 any more"
ELSEWHERE = str(SecondProgram("this node's key", "a policy did not come from its outbox"))


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        (ELSEWHERE, "a second program"),
        ("the chain was reset", "a reset chain"),
        ("http://127.0.0.1:1 is chain 5, but the deployment file is of chain 31337", "another chain"),
        (LAGS, "a reorganization"),
        ("submit/7: expired round 7 ended before", "an end of the round"),
        ("node 0xab was slashed", "a slashing"),
        ("Traceback (most recent call last):", "a traceback"),
    ],
)
def test_what_is_not_so_is_heard_also_after_what_is(line: str, kind: str) -> None:
    (claim,) = false_claims(["submit/7: mined", line], "$^")
    assert claim.startswith(f"{kind} is claimed: ")
    assert false_claims([LAGS, line], "does not show") == ([] if line == LAGS else [claim])


def test_what_is_so_may_be_said() -> None:
    deep = next(fault for fault in FAULTS if "20 blocks under" in fault.words)
    assert false_claims([LAGS], deep.may_say) == []
    assert false_claims([LAGS, ELSEWHERE], deep.may_say) != []
