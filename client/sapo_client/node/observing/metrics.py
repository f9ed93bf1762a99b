"""What is watched of the node as a whole: where it is, how well, and what its rounds took."""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sapo_client.duties.health.outbox import waits
from sapo_verifier.metric import Metric, Value

STEPS = ("generating", "auditing", "training", "waiting")
PHASES = (
    *("starting", "waiting for the beacon", "generating", "auditing", "voting", "training", "committing its policy"),
    *("waiting for its transactions", "waiting for the next round", "waiting for the chain", "stopped"),
)
Report = Mapping[str, Any]

ROUNDS: tuple[Metric[Report], ...] = (
    Metric(
        "sapo_step_seconds_total", "Wall time of the rounds by what the node did.",
        lambda report: {step: report.get(f"seconds_{step}", 0.0) for step in STEPS}, "step",
    ),
)  # fmt: skip


@dataclass(frozen=True)
class State:
    """What is known at this moment. status: status.json; condition: of the last look, whose time `looked` is."""

    status: Mapping[str, Any]
    condition: Mapping[str, Any]
    looked: float | None  # of time.time


def _said(name: str, key: str, words: str) -> Metric[State]:
    return Metric(f"sapo_{name}", words, lambda state: _number(state.status.get(key)))


def _number(found: Any) -> float | None:
    return float(found) if isinstance(found, int | float) else None


def _phase(state: State) -> Value:
    phase = str(state.status.get("phase"))
    return dict.fromkeys(PHASES, 0.0) | {phase: 1.0}


def _in_phase(state: State) -> Value:
    since = _number(state.status.get("phase_since"))
    return None if since is None else max(0.0, time.time() - since)


def _oldest(state: State) -> Value:
    return max(waits(state.status.get("waiting"), time.time()).values(), default=0.0)


def _healthy(state: State) -> Value:
    found = state.condition.get("healthy")
    return None if found is None else float(found)


STATE: tuple[Metric[State], ...] = (
    _said("round", "round", "The chain's round that the node is in."),
    _said("done_round", "done_round", "The last round that it played to its end."),
    _said("round_seconds", "round_seconds", "Seconds that a round takes on this chain."),
    _said("start_timestamp_seconds", "started", "When the node started."),
    _said("progress_timestamp_seconds", "progressed", "When its own thread last got on with something."),
    Metric("sapo_phase", "1 for the phase that it is in.", _phase, "phase"),
    Metric("sapo_phase_seconds", "Seconds since that phase began.", _in_phase),
    Metric("sapo_outbox_oldest_seconds", "Seconds that the oldest waiting transaction has waited for.", _oldest),
    Metric("sapo_errors_total", "Errors that the node survived.", lambda s: s.status.get("errors", {}), "kind"),
    Metric("sapo_healthy", "1 if the last look found nothing wrong.", _healthy),
    Metric("sapo_unhealthy_reasons", "Things that it found wrong.", lambda s: len(s.condition.get("reasons", ()))),
    Metric("sapo_chain_round", "The chain's round at that look.", lambda s: _number(s.condition.get("chain_round"))),
    Metric("sapo_look_timestamp_seconds", "When that look was.", lambda s: s.looked),
)
