"""Is this machine fast enough? One group of the node's policy, generated and trained on, against a round's length."""

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sapo_client.node.checkup import Line
from sapo_client.state.settings import Settings
from sapo_verifier.spec import Spec

SECONDS = 60.0
SHARE = 0.5  # of a round that own work may take: fetching, checking others and waiting for blocks want the rest


def speed_line(settings: Settings, spec: Spec, home: Path, round_seconds: float | None) -> Line:
    """In a process of its own (`sapo bench`), which is ended after SECONDS. round_seconds: None where not known."""
    own, others = settings.sapo.own_groups, settings.sapo.external_groups
    long = f"; a round lasts about {round_seconds:.0f} s" if round_seconds else ""
    try:
        done = subprocess.run(
            _command(settings, spec), capture_output=True, text=True, timeout=SECONDS, check=False, cwd=home
        )
    except subprocess.TimeoutExpired:
        words = f"one group was not generated and trained on within {SECONDS:.0f} s, loading included{long}"
        if round_seconds is not None and round_seconds <= SECONDS:
            return Line("speed", "bad", f"{words}: this machine is too slow for this policy")
        return Line("speed", "warning", f"{words}: see whether `sapo bench step` is fast enough, or take fewer groups")
    if done.returncode:
        last = done.stderr.strip().rpartition("\n")[2]
        return Line("speed", "bad", f"the trial failed: {last[:300] or f'exit status {done.returncode}'}")
    return judged(json.loads(done.stdout), own, others, round_seconds)


def judged(found: Mapping[str, Any], own: int, others: int, round_seconds: float | None) -> Line:
    """found: of `sapo bench step` with one group. own: groups to generate and train on; others: to train on."""
    long = f"; a round lasts about {round_seconds:.0f} s" if round_seconds else ""
    generating = found["engine_seconds"] + found["records_seconds"]
    needed = own * generating + (own + others) * found["train_seconds"]
    words = (
        f"{found['tokens_per_second']:.0f} tokens per second; about {needed:.3g} s for {own} own groups and training "
        f"on {own + others}{long}"
    )
    if round_seconds is None:
        return Line("speed", "ok", words)
    if needed > round_seconds:
        return Line("speed", "bad", f"{words}: too slow; take fewer groups ([sapo] own_groups), or a faster machine")
    if needed > SHARE * round_seconds:
        return Line("speed", "warning", f"{words}: little is left for checking others; take fewer groups")
    return Line("speed", "ok", words)


def _command(settings: Settings, spec: Spec) -> list[str]:
    policy = settings.policy
    command = [sys.executable, "-m", "sapo_client", "bench", "step", "--policy", str(policy.folder), "--json"]
    command += ["--prompts", "1", "--group-size", str(spec.group_size), "--max-new-tokens", str(spec.max_new_tokens)]
    command += ["--engine", settings.generation.engine, "--lora-rank", str(policy.lora_rank), "--device", policy.device]
    command += ["--threads", str(settings.threads), "--train-dtype", policy.dtype]
    if settings.sapo.micro_batch_tokens:
        command += ["--micro-batch-tokens", str(settings.sapo.micro_batch_tokens)]
    return command
