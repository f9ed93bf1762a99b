"""What is watched of the last update: StepStats, as a round's report has them."""

from collections.abc import Mapping
from typing import Any

from sapo_verifier.metric import Metric, Value

Report = Mapping[str, Any]


def _step(name: str, key: str, words: str) -> Metric[Report]:
    def of(report: Report) -> Value:
        found = report.get("training", {}).get(key)
        return float(found) if isinstance(found, int | float) else None

    return Metric(f"sapo_training_{name}", words, of)


STEP = (
    _step("loss", "loss", "Loss of the last update, a mean over tokens."),
    _step("gradient_norm", "grad_norm", "Norm of the last update's gradient, before clipping."),
    _step("clipped_token_ratio", "clip_fraction", "Part of its tokens whose gradient the clip took away."),
    _step("importance_weight", "mean_weight", "Mean importance weight of external tokens in the last update."),
    _step("drift_nats", "drift", "Own less behaviour log-probability of external tokens, per token."),
    _step("mismatch_kl_nats", "mismatch_kl", "Records against trainer on own tokens, per token; should be below 1e-4."),
    _step("samples", "samples", "Completions that the last update learned from."),
    _step("completion_tokens", "tokens", "Tokens of those completions."),
)
