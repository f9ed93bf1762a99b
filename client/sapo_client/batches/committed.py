"""The weights that a node committed for a round. They can be older than those that it trains: a reorganization asks for
a round's batch again after training, or the node comes back late."""

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from sapo_client.policy.checkpoint import whole_checkpoints
from sapo_client.policy.policy import Policy
from sapo_client.policy.published import Published

PUBLISHED = "published"  # in a checkpoint's state: the manifest of its weights as text, before any round's `audit`

log = logging.getLogger(__name__)

Named = Callable[[Published], Published | None]  # weights as they were committed, if they are those


@contextmanager
def committed_weights(
    policy: Policy, latest: Published, digest: bytes, audits: Sequence[bytes], checkpoints: Path
) -> Iterator[Published | None]:
    """The policy holds the weights that were published as `digest` while the block lasts, then the latest again.

    latest: what the policy's weights are published as now. audits: those that the digest may have been made with. Gives
    None, with the weights as they are, where neither the base nor a whole checkpoint has that digest. Optimizer and
    random state are left alone.
    """

    def named(published: Published) -> Published | None:
        return next((made for made in map(published.under, audits) if made.digest == digest), None)

    if (found := named(latest)) is not None:
        yield found
        return
    load = _loader(policy, named, checkpoints)
    if load is None:
        yield None
        return
    trained, untouched = policy.weight_bytes(), policy.untouched
    try:
        load()
        yield named(policy.publish())
    finally:
        policy.load_weights(trained)
        policy.untouched = untouched


def _loader(policy: Policy, named: Named, checkpoints: Path) -> Callable[[], None] | None:
    if named(policy.published_base()) is not None:
        return policy.load_base
    for checkpoint in whole_checkpoints(checkpoints, log.warning):
        manifest = checkpoint.state.get(PUBLISHED)
        if manifest is not None and named(Published.of(manifest.encode(), [])) is not None:
            return lambda: checkpoint.load_weights(policy)
    return None
