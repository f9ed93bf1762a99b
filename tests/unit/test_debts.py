"""Nothing is settled that costs nothing, but where the network's rules say so."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from sapo_client.duties.debts import debts_of
from sapo_verifier.chain.audits import BallotState

FEE = 7


class Reader:
    """A node with a policy for round 3 and no batch. settled: by somebody else, after the contract was asked."""

    def __init__(self, ballot: BallotState, *, policy: bool) -> None:
        self.ballot, self.policy = ballot, policy

    def call(self, call: Any, **_: Any) -> Any:
        return (5, 3, 1) if call.function == "missedOf" else None

    def current_round(self) -> int:
        return 5

    def policy_of(self, node: str, round_: int) -> object:
        return object() if self.policy and round_ == 3 else None

    def batch_of(self, node: str, round_: int) -> None:
        return None


def found(reader: Reader, monkeypatch: pytest.MonkeyPatch, fee: int = FEE) -> list[tuple[int, int]]:
    monkeypatch.setattr("sapo_client.duties.debts.would_pass", lambda _, call, __: call.args[1] in (2, 3))
    audits = SimpleNamespace(
        is_settled=lambda node: False,
        terms=lambda: SimpleNamespace(missed_batch_fee=fee, missed_reveal_fee=fee),
        verdicts_of=lambda node, round_, stage: (reader.ballot if round_ == 2 and stage == 1 else BallotState.NONE,),
    )
    debts = debts_of(cast(Any, reader), cast(Any, audits), "0x1", 5)
    return [(debt.round, debt.fee) for debt in debts]


def test_what_was_settled_meanwhile_is_no_debt(monkeypatch: pytest.MonkeyPatch) -> None:
    assert found(Reader(BallotState.COMMITTED, policy=True), monkeypatch) == [(2, FEE), (3, FEE)]
    assert found(Reader(BallotState.NONE, policy=True), monkeypatch) == [(3, FEE)]
    assert found(Reader(BallotState.NONE, policy=False), monkeypatch) == []


def test_a_network_without_fees_has_its_debts_settled_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """Until then its contracts take no promise of the node."""
    assert found(Reader(BallotState.NONE, policy=True), monkeypatch, fee=0) == [(3, 0)]
