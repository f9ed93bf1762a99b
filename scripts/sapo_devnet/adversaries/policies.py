"""False policies: what generates is not what was committed, or is nothing that anybody can run."""

import torch

from sapo_client.policy.policy import Policy
from sapo_client.policy.published import Published
from sapo_devnet.adversaries.adversary import Adversary
from sapo_verifier.cid import block_digest
from sapo_verifier.objects import NO_AUDIT, PolicyManifest

NOISE = 0.3  # of a weight matrix's own spread


def disturb(parameters: list[torch.nn.Parameter]) -> None:
    """Weights that give clearly other probabilities."""
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in parameters:
            noise = torch.randn(parameter.shape, generator=generator)
            parameter.add_(noise * NOISE * parameter.std().nan_to_num(1.0))


class WrongPolicy(Adversary):
    """Commits the base, and generates with other weights."""

    def committed(self, policy: Policy, honest: Published) -> Published:
        disturb(policy.parameters())
        return honest


class StalePolicy(Adversary):
    """Commits new weights, and goes on generating with the old ones."""

    def committed(self, policy: Policy, honest: Published) -> Published:
        before = {name: tensor.clone() for name, tensor in policy.weights().items()}
        disturb(policy.parameters())
        policy.untouched = False
        published = policy.publish()
        with torch.no_grad():
            for name, tensor in policy.weights().items():
                tensor.copy_(before[name])
        return published


class UnrunnableBase(Adversary):
    """Commits a policy on top of a base that the spec does not have."""

    def committed(self, policy: Policy, honest: Published) -> Published:
        manifest = PolicyManifest(audit=NO_AUDIT, base="nobody-has-this", kind="base", size=0, blocks=[]).encode()
        return Published(manifest, [], block_digest(manifest))


class UnloadableWeights(Adversary):
    """Commits a policy whose weights are no weights."""

    def committed(self, policy: Policy, honest: Published) -> Published:
        junk = b"no safetensors file" * 1000
        manifest = PolicyManifest(
            audit=NO_AUDIT, base=policy.base.id, kind="full", size=len(junk), blocks=[block_digest(junk)]
        ).encode()
        return Published(manifest, [junk], block_digest(manifest))
