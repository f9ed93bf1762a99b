"""A vocabulary of Qwen's size: every pass makes its logits some rows at a time, so memory does not grow with it."""

import random
from pathlib import Path

import pytest

from sapo_client.bench.meter import Meter
from sapo_client.bench.work import Bench
from sapo_client.generation.torch_engine import TorchEngine
from sapo_client.training.sapo import TrainConfig
from sapo_devnet.processes import resident_kib
from sapo_devnet.testkit.tiny_policy import tiny_folder, tiny_policy
from sapo_verifier.networks import pocket_spec

VOCAB, ROWS = 151_665, 151_936  # Qwen2.5's tokenizer, and the rows of its output layer
PROMPTS, GROUP, NEW_TOKENS = 4, 8, 32
WHOLE = 4 * PROMPTS * GROUP * NEW_TOKENS * VOCAB  # bytes of float32 logits, made at once: 593 MiB; training takes two

pytestmark = pytest.mark.usefixtures("one_thread")


def test_generation_records_and_training_stay_below_the_logits(tmp_path: Path) -> None:
    """Adam's state and the weights' gradient are in it; tokens beyond the tokenizer's are never sampled."""
    policy = tiny_policy(tmp_path / "model", tied=True, rows=ROWS, vocab=VOCAB, eos=[VOCAB - 1])
    spec = pocket_spec(tiny_folder(tmp_path / "pocket")).model_copy(
        update={"group_size": GROUP, "max_new_tokens": NEW_TOKENS}
    )
    rng = random.Random(0)
    prompts = [[rng.randrange(VOCAB) for _ in range(20)] for _ in range(PROMPTS)]
    bench = Bench(policy, TorchEngine(policy, NEW_TOKENS), spec, prompts, TrainConfig())
    before = resident_kib("VmRSS") * 1024
    with Meter() as meter:
        result = bench.run("step")
    assert result.tokens > PROMPTS * GROUP * NEW_TOKENS / 2
    assert result.mismatch_kl is not None
    assert result.mismatch_kl < 1e-6
    assert meter.taken.peak_bytes - before < 0.7 * WHOLE
