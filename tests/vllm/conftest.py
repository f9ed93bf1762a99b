"""One vLLM process for all tests here: a small random Llama, a cache that is too small on purpose."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from forced_rows import CONTEXT, EOS, MAX_NEW_TOKENS
from policy_batches import spec_of
from sapo_client.generation.factory import vllm_python
from sapo_client.generation.vllm.engine import VllmEngine, VllmOptions
from sapo_client.policy.policy import Policy
from sapo_client.state.settings import GenerationSettings
from sapo_devnet.testkit.tiny_policy import tiny_folder
from sapo_verifier.errors import SapoError
from sapo_verifier.networks import pocket_spec
from sapo_verifier.spec import Spec

# A block of vLLM's cache on a CPU has 128 tokens; one token of the model below takes 1 KiB. Eight blocks are enough for
# two of the longest sequences, and sixteen run at a time.
CACHE_BYTES = 8 * 128 * 1024
AT_A_TIME = 16
STEP_TOKENS = 64  # prompts are longer: they are computed in parts


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    try:
        vllm_python(GenerationSettings(engine="vllm"))
    except SapoError as error:
        for item in items:
            if Path(__file__).parent in item.path.parents:
                item.add_marker(pytest.mark.skip(reason=str(error)))


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """vLLM on a CPU has kernels for heads of 32, 64, 80, … values; more output rows than the base's vocab."""
    return tiny_folder(tmp_path_factory.mktemp("model"), width=64, context=CONTEXT, rows=160)


@pytest.fixture(scope="session")
def spec(folder: Path) -> Spec:
    """The pocket rules for it, with another end beside the pocket policy's, and room for more tokens."""
    base = pocket_spec(folder).bases[0].model_copy(update={"eos": EOS, "context": CONTEXT})
    made = spec_of(folder, max_new_tokens=MAX_NEW_TOKENS).model_copy(update={"bases": [base]})
    return Spec.model_validate(made.to_json())


@pytest.fixture(scope="session")
def policy(folder: Path, spec: Spec) -> Policy:
    torch.set_num_threads(1)
    return Policy.load(folder, spec.bases[0])


@pytest.fixture(scope="session")
def running(policy: Policy, tmp_path_factory: pytest.TempPathFactory) -> Iterator[VllmEngine]:
    options: dict[str, Any] = {"longest": CONTEXT, "threads": 1, "dtype": "float32", "kv_cache_bytes": CACHE_BYTES}
    options |= {"max_num_seqs": AT_A_TIME, "step_tokens": STEP_TOKENS}
    made = VllmOptions(python=vllm_python(GenerationSettings(engine="vllm")), **options)
    with VllmEngine(policy, made, max_new_tokens=MAX_NEW_TOKENS, scratch=tmp_path_factory.mktemp("scratch")) as engine:
        engine.start()
        yield engine


@pytest.fixture
def engine(running: VllmEngine, policy: Policy) -> Iterator[VllmEngine]:
    """The session's engine; the policy gets its own weights back afterwards."""
    before = policy.weight_bytes()
    yield running
    policy.load_weights(before)
