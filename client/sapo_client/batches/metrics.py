"""What is watched of a round's own batch and of others' batches, as the round's report has it. A counter's value is
what the round adds to it."""

from collections.abc import Mapping
from typing import Any

from sapo_verifier.metric import Metric, Value

Report = Mapping[str, Any]


def _number(name: str, key: str, words: str) -> Metric[Report]:
    return Metric(f"sapo_{name}", words, lambda report: report.get(key))


def _external(name: str, words: str) -> Metric[Report]:
    return _number(f"external_groups_{name}_total", f"external_{name}", f"Groups of others that {words}.")


def _of_datasets(report: Report) -> Mapping[str, tuple[int, int]]:
    return {name: (right, all_) for name, (right, all_) in report.get("datasets", {}).items()}


def _reward(report: Report) -> Value:
    return {name: right / all_ for name, (right, all_) in _of_datasets(report).items() if all_} or None


def _speed(report: Report) -> Value:
    tokens, seconds = report.get("positions", 0), report.get("seconds_generating", 0.0)
    return tokens / seconds if tokens and seconds else None


def _outcome(report: Report) -> Value:
    return {"published": float(not report.get("skipped")), "skipped": float(bool(report.get("skipped")))}


OWN: tuple[Metric[Report], ...] = (
    Metric("sapo_rounds_total", "Rounds by whether a batch was published.", _outcome, "outcome"),
    Metric(
        "sapo_right_completions_total", "Right own completions.",
        lambda report: {name: right for name, (right, _) in _of_datasets(report).items()}, "dataset",
    ),
    Metric(
        "sapo_completions_total", "Own completions.",
        lambda report: {name: all_ for name, (_, all_) in _of_datasets(report).items()}, "dataset",
    ),
    Metric("sapo_reward_ratio", "Part of the last batch's completions that is right.", _reward, "dataset"),
    _number("own_groups_total", "own_groups", "Own groups of completions."),
    _number("own_groups_with_advantage_total", "own_with_advantage", "Own groups with an advantage to learn from."),
    _number("policy_entropy_nats", "entropy", "Entropy of the policy per token, by the tokens that it sampled last."),
    _number("commonest_completion_ratio", "commonest", "Part of the last batch that is the commonest completion."),
    _number("generated_tokens_total", "positions", "Tokens of own completions for which records were made."),
    _number("widened_intervals_total", "widened", "Intervals of records that were widened to hold their draw."),
    _number("repaired_tokens_total", "repaired", "Tokens that the engine chose otherwise than the policy's own pass."),
    Metric("sapo_generated_tokens_per_second", "Speed of the last batch that was generated.", _speed),
)  # fmt: skip

OTHERS = (
    _external("drawn", "were dealt to this node"),
    _external("fetched", "came"),
    _external("checked", "passed every check that could be made"),
    _external("failed", "failed a check, were void, or could not be checked here"),
    _external("with_advantage", "passed and have an advantage"),
    _external("used", "were trained on"),
    _external("missing", "were wanted for training and not to be had"),
    _number("external_age_rounds", "external_age", "Mean age of the external groups that were trained on last."),
    _number("peers_asked", "peers_asked", "Producers whose batches were asked for in the last round."),
    _number("peers_reached", "peers_reached", "Producers of whom everything came in the last round."),
    _number("sent_bytes_total", "bytes_up", "Payload to peers."),
    _number("received_bytes_total", "bytes_down", "Payload from peers."),
    _number("received_weights_bytes_total", "bytes_weights", "Weights of peers, for the policy check."),
    _number("recomputed_completions_total", "external_recomputed", "Completions of others that were recomputed."),
    _number("policy_load_seconds_total", "seconds_policy_load", "Wall time of reading bases for the policy check."),
    _number("policy_merge_seconds_total", "seconds_policy_merge", "Wall time of putting peers' policies into a base."),
    _number("policy_passes_seconds_total", "seconds_policy_passes", "Wall time of running peers' policies."),
)
