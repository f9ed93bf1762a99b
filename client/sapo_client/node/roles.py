"""What the loop asks of two of its parts: of what publishes, and of what learns. Without torch, so that a node whose
policy is no model can play, too."""

from collections.abc import Sequence
from typing import Any, Protocol

from sapo_client.batches.submitting import OwnRound
from sapo_client.policy.published import Published
from sapo_client.training.groups import Group


class Publisher(Protocol):
    """Makes, serves and submits one batch a round: own_batch.OwnBatches."""

    def key(self, round_: int, beacon: bytes) -> str:
        """The submission's name in the outbox."""

    def publish(self, round_: int, beacon: bytes, latest: Published) -> OwnRound:
        """Generate, put the blocks to IPFS and submit, once."""


class Shares(Protocol):
    """Of SAPO's algorithm 1, in groups a round."""

    @property
    def own_groups(self) -> int: ...

    @property
    def external_groups(self) -> int: ...


class Learns(Protocol):
    """Trains the policy that is committed: learner.Learner. `resume` comes first."""

    published: Published  # what the weights are published as, before any round's `audit`
    trained: int  # the last round whose training is in the weights
    learned: dict[str, Any]  # what the report says of it

    @property
    def config(self) -> Shares: ...

    def resume(self) -> None:
        """Go on where the last run stopped."""

    def roll_back(self) -> None:
        """Where a training was not saved, memory becomes what is on disk."""

    def train(self, round_: int, own: Sequence[Group], offered: Sequence[Group]) -> None:
        """One step. Raises SapoError, after which nothing counts as trained."""
