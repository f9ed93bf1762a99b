"""A node: policy, generation, SAPO training, publishing, and the command that runs it.

What stands in `__all__` is the library (docs/library.md); everything else may change. The names are looked up when they
are used: importing this package loads neither torch nor web3.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sapo_client.generation.engine import Engine
    from sapo_client.generation.groups import generate_groups
    from sapo_client.generation.torch_engine import TorchEngine
    from sapo_client.policy.checkpoint import Checkpoint, latest_checkpoint, save_checkpoint
    from sapo_client.policy.lora import LoraOptions
    from sapo_client.policy.memory import MemoryOptions
    from sapo_client.policy.policy import Policy, PolicyOptions, save_policy
    from sapo_client.training.groups import Group, Sample, has_advantage
    from sapo_client.training.loss import LossInputs, LossOutputs, grpo_loss
    from sapo_client.training.sapo import (
        Counts,
        Selection,
        StepStats,
        TrainConfig,
        Trained,
        advantages,
        build_training_set,
        loss_inputs,
        make_optimizer,
        select_samples,
        train_step,
    )
    from sapo_verifier.errors import SapoError

__all__ = [
    "Checkpoint",
    "Counts",
    "Engine",
    "Group",
    "LoraOptions",
    "LossInputs",
    "LossOutputs",
    "MemoryOptions",
    "Policy",
    "PolicyOptions",
    "Sample",
    "SapoError",
    "Selection",
    "StepStats",
    "TorchEngine",
    "TrainConfig",
    "Trained",
    "advantages",
    "build_training_set",
    "generate_groups",
    "grpo_loss",
    "has_advantage",
    "latest_checkpoint",
    "loss_inputs",
    "make_optimizer",
    "save_checkpoint",
    "save_policy",
    "select_samples",
    "train_step",
]

if not TYPE_CHECKING:  # or type checkers would believe that every name is here
    from sapo_verifier.lazy import lookup

    __getattr__ = lookup(
        __name__,
        {
            "sapo_client.generation.engine": ("Engine",),
            "sapo_client.generation.groups": ("generate_groups",),
            "sapo_client.generation.torch_engine": ("TorchEngine",),
            "sapo_client.policy.checkpoint": ("Checkpoint", "latest_checkpoint", "save_checkpoint"),
            "sapo_client.policy.lora": ("LoraOptions",),
            "sapo_client.policy.memory": ("MemoryOptions",),
            "sapo_client.policy.policy": ("Policy", "PolicyOptions", "save_policy"),
            "sapo_client.training.loss": ("LossInputs", "LossOutputs", "grpo_loss"),
            "sapo_client.training.groups": ("Group", "Sample", "has_advantage"),
            "sapo_client.training.sapo": (
                *("Counts", "Selection", "StepStats", "TrainConfig", "Trained"),
                *("advantages", "build_training_set", "loss_inputs", "make_optimizer"),
                *("select_samples", "train_step"),
            ),
            "sapo_verifier.errors": ("SapoError",),
        },
        "pip install sapo-network[node]",
    )

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})
