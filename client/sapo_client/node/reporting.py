"""A round's report, put together from what its steps counted."""

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from sapo_client.batches.auditing import AuditCounts
from sapo_client.batches.submitting import OwnRound
from sapo_client.state.report import RoundReport
from sapo_client.transactions.outbox import TxState
from sapo_verifier.audit import Cost


class Stages:
    """Wall seconds of a round by what the node did."""

    def __init__(self, *, waiting: float = 0.0) -> None:
        """waiting: seconds since the last round."""
        self.seconds = {"generating": 0.0, "auditing": 0.0, "training": 0.0, "waiting": waiting}

    @contextmanager
    def timed(self, stage: str) -> Iterator[None]:
        started = time.monotonic()
        yield
        self.seconds[stage] += time.monotonic() - started


def report_of(
    round_: int,
    own: OwnRound,
    *,
    learned: Mapping[str, Any],
    seconds: Mapping[str, float],
    audited: AuditCounts = AuditCounts(),  # noqa: B008 - frozen
    traffic: tuple[int, int] = (0, 0),
    cost: Cost = Cost(),  # noqa: B008 - frozen
    skipped: str = "",
) -> RoundReport:
    """learned: Learner.learned where the round was trained on; seconds: Stages.seconds; traffic: bytes up and down;
    cost: of running others' policies; skipped: why nothing got on chain, where the own batch itself says nothing."""
    return RoundReport(
        round=round_,
        **own.counts(),
        **learned,
        external_drawn=audited.drawn,
        external_fetched=audited.fetched,
        external_checked=audited.checked,
        external_failed=audited.failed,
        external_recomputed=audited.recomputed,
        external_with_advantage=audited.with_advantage,
        peers_asked=len(set(audited.asked)),
        peers_reached=len(set(audited.reached)),
        failures=list(audited.failures),
        bytes_up=traffic[0],
        bytes_down=traffic[1],
        bytes_weights=audited.weights_bytes,
        seconds_generating=seconds["generating"],
        seconds_auditing=seconds["auditing"],
        seconds_policy_load=cost.load,
        seconds_policy_merge=cost.merge,
        seconds_policy_passes=cost.passes,
        seconds_training=seconds["training"],
        seconds_waiting=seconds["waiting"],
        skipped=own.skipped or skipped,
    )


def why_not_on_chain(state: TxState) -> str:
    """Why a batch that was made is not on chain, once its round is over, as the outbox has it. state: the submission's;
    none where the chain showed a batch that no outbox knows."""
    match state.status:
        case "mined":
            why = (
                f"the outbox says that it was mined in block {state.block}, but the chain does not show it: a "
                "reorganization may have removed it, or the RPC lags behind"
            )
        case "none":
            why = "the chain showed it, and does not any more: a reorganization may have removed it, or the RPC lags"
        case "intent":
            why = state.reason or "it was not sent when the round ended"
        case "sent":
            why = state.reason or "it was sent, and not mined when the round ended"
        case _:
            why = state.reason or f"it is {state.status}"
    return f"the batch did not get on chain: {why}"
