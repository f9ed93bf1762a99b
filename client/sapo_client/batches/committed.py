"""The weights that a node committed for a round. They can be older than those that it trains: a reorganization asks for
a round's batch again after training, or the node comes back late."""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from sapo_client.policy.checkpoint import whole_checkpoints
from sapo_client.policy.policy import Policy
from sapo_client.policy.published import Published

PUBLISHED = "published"  # in a checkpoint's state: the digest that its weights were published under, as 0x…

log = logging.getLogger(__name__)


@contextmanager
def committed_weights(
    policy: Policy, latest: Published, digest: bytes, checkpoints: Path
) -> Iterator[Published | None]:
    """The policy holds the weights that were published as `digest` while the block lasts, then the latest again.

    latest: what the policy's weights are published as now. Gives None, with the weights as they are, where neither the
    base nor a whole checkpoint has that digest. Optimizer and random state are left alone.
    """
    if latest.digest == digest:
        yield latest
        return
    load = _loader(policy, digest, checkpoints)
    if load is None:
        yield None
        return
    trained, untouched = policy.weight_bytes(), policy.untouched
    try:
        load()
        published = policy.publish()
        yield published if published.digest == digest else None
    finally:
        policy.load_weights(trained)
        policy.untouched = untouched


def _loader(policy: Policy, digest: bytes, checkpoints: Path) -> Callable[[], None] | None:
    if policy.published_base().digest == digest:
        return policy.load_base
    for checkpoint in whole_checkpoints(checkpoints, log.warning):
        if checkpoint.state.get(PUBLISHED) == "0x" + digest.hex():
            return lambda: checkpoint.load_weights(policy)
    return None
