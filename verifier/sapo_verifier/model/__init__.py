"""The parts of a verifier that run a policy. Only this package's modules import torch, and only `policy_check` is
needed by a caller: take it from `policy_model`, which says in words what is missing."""

from collections.abc import Sequence

from sapo_verifier.audit import Audit, CheckResult, Cost, PolicyModel, Recomputed
from sapo_verifier.bases import Bases

INSTALL = "pip install 'sapo-network[model]'"
_OPTIONAL = ("torch", "transformers", "safetensors")


class NoTorch:
    """Stands where a model would, on a machine that cannot run one."""

    runs = False
    seconds = 0.0
    cost = Cost()

    def __init__(self, missing: str) -> None:
        self._missing = missing

    def __call__(self, audit: Audit) -> Recomputed:
        return Recomputed(CheckResult("policy", "unknown", f"{self._missing} is not installed here: {INSTALL}"))

    def judge(self, audit: Audit, answers: Sequence[int]) -> CheckResult:
        return CheckResult("answers", "unknown", f"{self._missing} is not installed here: {INSTALL}")


def policy_model(bases: Bases, *, device: str = "cpu") -> PolicyModel:
    """What answers the `policy` check. Without torch it is one that answers unknown, with what to install."""
    try:
        from sapo_verifier.model.policy_check import PolicyModels
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] not in _OPTIONAL:
            raise
        return NoTorch(str(error.name))
    return PolicyModels(bases, device=device)
