"""What the chain says about a batch: the one set of facts that producers, checks and readers share."""

from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Self

from sapo_verifier import protocol

if TYPE_CHECKING:
    from sapo_verifier.chain.deployment import Deployment


@dataclass(frozen=True)
class BatchInfo:
    """A batch as `Rounds` holds it."""

    index: int
    node: str
    round: int
    slots: int  # groups
    policy: bytes  # digest of the policy manifest, committed before the beacon existed
    manifest: bytes  # digest of the batch manifest
    root: bytes  # of the tree over all completions
    claim: int  # bit i: the reward that completion i asks for


@dataclass(frozen=True)
class BatchFacts(BatchInfo):
    """A batch, and what it is bound to: a chain, a contract, its round's beacon."""

    chain_id: int
    rounds: str  # address of the Rounds contract
    beacon: bytes

    @classmethod
    def of(cls, deployment: "Deployment", batch: BatchInfo, beacon: bytes) -> Self:
        """beacon: that of the batch's own round."""
        known = {field.name: getattr(batch, field.name) for field in fields(BatchInfo)}
        return cls(**known, chain_id=deployment.chain_id, rounds=deployment.contracts.rounds, beacon=beacon)

    @classmethod
    def dealt(
        cls, chain_id: int, rounds: str, round_: int, node: str, beacon: bytes, policy: bytes, slots: int
    ) -> Self:
        """What is fixed before a batch is made: its index, manifest, root and claim are still zeros."""
        zero = protocol.ZERO
        return cls(0, node, round_, slots, policy, zero, zero, 0, chain_id=chain_id, rounds=rounds, beacon=beacon)

    def made(self, manifest: bytes, root: bytes, claim: int) -> Self:
        """The same with what was made. The index is not known before the batch is mined, and no check uses it."""
        return replace(self, manifest=manifest, root=root, claim=claim)

    def stream_keys(self, group_size: int) -> list[bytes]:
        """The streams of all completions, slot after slot (docs/protocol.md, section 2)."""
        return [
            protocol.stream_key(self.beacon, self.policy, self.node, slot, k)
            for slot in range(self.slots)
            for k in range(group_size)
        ]
