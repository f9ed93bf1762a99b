"""The external pool: what the last rounds' windows gave, each batch fetched and checked once for training and audit."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from sapo_client.batches.auditing import Asked, AuditCounts, Auditor, FetchBudget, Seen
from sapo_client.training.groups import Group
from sapo_verifier.audit import CheckResult
from sapo_verifier.checks import Verdict, verdict
from sapo_verifier.facts import BatchInfo
from sapo_verifier.proofs import Proof
from sapo_verifier.spots import Spots

if TYPE_CHECKING:
    from sapo_client.policy.policy import Policy

OTHER_PEERS = 2  # asked where the producer does not answer
Name = tuple[int, bytes]  # index and manifest: after a reorganization another batch may have the index
Holders = Mapping[int, Sequence[str]]  # by a batch's index: nodes that have fetched it
NOBODY: Holders = {}


class Pool:
    """Batches by name, as long as a window or a vote may ask for them."""

    def __init__(self, auditor: Auditor, policy: "Policy", seconds: float, between: Callable[[], None]) -> None:
        """seconds: for fetching all batches that one call wants. between: called before each batch; may raise."""
        self._auditor = auditor
        self._policy = policy
        self._seconds = seconds
        self._between = between
        self._seen: dict[Name, Seen] = {}

    def look(
        self, batches: Sequence[BatchInfo], *, again: bool = False, anew: bool = False, holders: Holders = NOBODY
    ) -> tuple[list[Seen], AuditCounts]:
        """Each batch, fetched and checked now unless it was before; the counts are of those that were now.

        Its policy is run on this node's spots. again: on every completion, also of what was looked at before by spots
        only, or was void: its producer may have been away for a moment. anew: on the spots, again where it was void.
        holders: who is asked for a batch after its producer; of whom nothing is known, some producers of the others.
        """
        counts = AuditCounts()
        spots = [None] * len(batches) if again else self._auditor.spots(batches)
        missing = [
            (batch, own)
            for batch, own in zip(batches, spots, strict=True)
            if not self._was_seen(batch, own) or (anew and self._was_void(batch))
        ]
        if missing:
            endpoints = self._auditor.endpoints(batches)
            budget = FetchBudget(self._seconds, len(missing))
            for batch, own in missing:
                self._between()
                peers = self._peers(batch, endpoints, holders.get(batch.index, ()))
                self._seen[_name(batch)], found = self._auditor.audit(batch, peers, self._policy, budget, own)
                counts += found
        return [self._seen[_name(batch)] for batch in batches], counts

    def _peers(self, batch: BatchInfo, endpoints: Mapping[str, str], known: Sequence[str]) -> list[str]:
        if known:
            return [endpoints[batch.node], *self._auditor.endpoints_of(known)]
        others = [endpoint for node, endpoint in endpoints.items() if node != batch.node]
        return [endpoints[batch.node], *others[:OTHER_PEERS]]

    def judge(self, asked: Sequence[Asked]) -> list[CheckResult]:
        """The check `answers` of each, in order. What is not here is fetched, within the seconds of one look."""
        budget, found = FetchBudget(self._seconds, len(asked)), []
        for each in asked:
            self._between()
            found.append(self._auditor.judge(each, budget))
        return found

    def _was_seen(self, batch: BatchInfo, spots: Spots | None) -> bool:
        """Whether it need not be looked at with these spots: a reorganization draws others. None: with all."""
        seen = self._seen.get(_name(batch))
        if seen is None or spots is not None:
            return seen is not None and seen.spots == spots
        whole = seen.spots is None or len(seen.spots.leaves) == seen.spots.completions
        return whole and not self._was_void(batch)

    def _was_void(self, batch: BatchInfo) -> bool:
        return verdict(self._seen[_name(batch)].results) is Verdict.VOID

    def offer(self, batches: Sequence[BatchInfo]) -> list[Group]:
        """What can be learned from batches that were looked at: again, too, what was trained on in an earlier round."""
        return [group for batch in batches for group in self._seen[_name(batch)].groups]

    def forget_before(self, round_: int) -> None:
        """Drop what no window and no vote can ask for any more."""
        self._seen = {name: seen for name, seen in self._seen.items() if seen.batch.round >= round_}

    def producers(self) -> set[str]:
        """Of the batches that were looked at: the nodes that this one knows of."""
        return {seen.batch.node for seen in self._seen.values()}

    def proofs(self) -> list[tuple[BatchInfo, Proof]]:
        """What can be proven against batches that were looked at."""
        return [(seen.batch, seen.proof) for seen in self._seen.values() if seen.proof is not None]


def _name(batch: BatchInfo) -> Name:
    return batch.index, batch.manifest
