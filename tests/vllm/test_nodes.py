"""Whole rounds with vLLM: a batch that a verifier with the model accepts, and the command as it is typed."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from policy_batches import CHAIN, NODE, ROUND, ROUNDS, Made, World
from sapo_client.batches.publish import check_own, make_batch
from sapo_client.generation.factory import make_engine
from sapo_client.generation.vllm.engine import EngineError, VllmEngine
from sapo_client.policy.policy import Policy
from sapo_client.state.report import read_rounds
from sapo_client.state.settings import GenerationSettings
from sapo_devnet.testkit.tiny_policy import tiny_folder
from sapo_verifier import protocol
from sapo_verifier.bases import Bases
from sapo_verifier.cid import block_digest
from sapo_verifier.facts import BatchFacts
from sapo_verifier.model import policy_model
from sapo_verifier.networks import pocket_spec
from sapo_verifier.spec import Spec
from sapo_verifier.tasks import TaskWorker

ON_A_CARD = torch.cuda.is_available()


@pytest.fixture(scope="module")
def worker() -> Iterator[TaskWorker]:
    with TaskWorker() as made:
        yield made


def test_a_verifier_with_the_model_accepts_vllms_batch(
    engine: VllmEngine, policy: Policy, folder: Path, spec: Spec, worker: TaskWorker
) -> None:
    """Other weights than the base's, so that what is checked is what was loaded."""
    with torch.no_grad():
        policy.parameters()[0].mul_(1.1)
    policy.untouched = False
    published = policy.publish()
    beacon = protocol.beacon(CHAIN, ROUNDS, ROUND, bytes(32))
    dealt = BatchFacts.dealt(CHAIN, ROUNDS, ROUND, NODE, beacon, published.digest, slots=4)
    batch = make_batch(spec, dealt, policy, worker, engine)
    check_own(spec, batch, published.manifest, policy, worker)
    assert batch.stats.positions > 200
    assert batch.stats.repaired <= 0.01 * batch.stats.positions
    facts = batch.facts
    bases = Bases([folder])
    blocks = {**batch.blocks, **{block_digest(block): block for block in [published.manifest, *published.blocks]}}
    made = Made(World(spec, folder, worker, bases), facts, blocks)
    assert made.check(policy_model(bases)).status == "pass"


def test_training_alone_with_vllm_as_it_is_typed(tmp_path: Path) -> None:
    base = tiny_folder(tmp_path / "base", width=64)
    command = [sys.executable, "-m", "sapo_client", "train", "--engine", "vllm", "--home", str(tmp_path)]
    command += ["--policy", str(base), "--rounds", "1", "--i", "2", "--threads", "1"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=280, check=False)
    assert done.returncode == 0, done.stderr
    assert "vLLM 0.32" in done.stderr
    assert ("stays awake" in done.stderr) != ON_A_CARD
    (report,) = read_rounds(tmp_path)
    assert report["completions"] == 16
    assert report["positions"] > 16
    assert ON_A_CARD or report["repaired"] <= 0.02 * report["positions"]  # bfloat16 there
    pid = int(done.stderr.partition("as process ")[2].split()[0])
    assert not Path(f"/proc/{pid}").exists(), "nothing of it stays"
    assert json.loads((tmp_path / "engine" / "model" / "config.json").read_text())["hidden_size"] == 64
    assert (tmp_path / "engine" / "engine.log").is_file()


@pytest.mark.skipif(ON_A_CARD, reason="a graphics card has kernels for it")
def test_a_model_that_vllm_cannot_run_is_named_before_a_round_begins(tmp_path: Path) -> None:
    """Heads of 16 values: no kernel on a CPU, which vLLM finds out in its first step."""
    small = tiny_folder(tmp_path / "small")
    spec = pocket_spec(small)
    policy = Policy.load(small, spec.bases[0])
    settings = GenerationSettings(engine="vllm", kv_cache_bytes=1 << 24)
    with pytest.raises(EngineError, match=r"does not run this model here: .*head_dim=16"):
        make_engine(policy, spec, settings, threads=1, scratch=tmp_path / "scratch").__enter__()
