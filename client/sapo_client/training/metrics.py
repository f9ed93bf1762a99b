"""What is watched of the last update: StepStats, as a round's report has them."""

from collections.abc import Mapping
from typing import Any

from sapo_verifier.metric import Metric

Report = Mapping[str, Any]


def trained(report: Report, key: str) -> float | None:
    """A number of the report's StepStats; None where the round trained on nothing that has it."""
    stats = report.get("training", {})
    tokens = "external_tokens" if key in ("mean_weight", "drift") else "tokens"
    found = stats.get(key)
    return float(found) if isinstance(found, int | float) and stats.get(tokens) else None


def _step(name: str, key: str, words: str) -> Metric[Report]:
    return Metric(f"sapo_training_{name}", words, lambda report: trained(report, key))


STEP = (
    _step("loss", "loss", "Loss of the last update, a mean over tokens."),
    _step("gradient_norm", "grad_norm", "Norm of the last update's gradient, before clipping."),
    _step("clipped_token_ratio", "clip_fraction", "Part of its tokens whose gradient the clip took away."),
    _step("importance_weight", "mean_weight", "Mean importance weight of external tokens in the last update."),
    _step("external_tokens", "external_tokens", "External tokens of the last update that could be weighted."),
    _step("unknown_tokens", "unknown_tokens", "External tokens whose sampler's probability was not recomputed here."),
    _step("drift_nats", "drift", "Own less behaviour log-probability of external tokens, per token."),
    _step("mismatch_kl_nats", "mismatch_kl", "Records against trainer on own tokens, per token; should be below 1e-4."),
    _step("samples", "samples", "Completions that the last update learned from."),
    _step("completion_tokens", "tokens", "Tokens of those completions."),
)
