"""An auditor's way to a batch: the chain, its producer's gateway, and the checks, in one call or one for each."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol, runtime_checkable

from sapo_verifier.audit import Audit, CheckResult, PolicyModel, fetch_batch, fetch_weights
from sapo_verifier.bases import BaseMissingError, Bases
from sapo_verifier.chain.deployment import Deployment
from sapo_verifier.chain.reader import ChainReader, open_chain
from sapo_verifier.chain.urls import RPC
from sapo_verifier.checks import Verdict, check_batch, verdict
from sapo_verifier.errors import UnableError
from sapo_verifier.facts import BatchFacts, BatchInfo
from sapo_verifier.ipfs import GatewayReader, RefusedHere, parse_endpoint
from sapo_verifier.model import policy_model
from sapo_verifier.tasks import TaskWorker, check_versions


@runtime_checkable
class Explaining(Protocol):
    """A model that tells its own interval: model.policy_check.PolicyModels."""

    runs: bool

    def interval(self, audit: Audit, slot: int, k: int, t: int) -> tuple[tuple[int, int] | None, str]:
        """What the policy gives to the token at a position, lo and last of 2^64; or None, and in words why."""
        ...


@dataclass(frozen=True)
class Verified:
    """A batch, and what the checks say of it: one result each, in their order, up to the first that did not pass."""

    batch: BatchInfo
    results: list[CheckResult]

    @property
    def verdict(self) -> Verdict:
        """What a voter with these results says on chain: ABSTAIN where a check could not be run here."""
        return verdict(self.results)


@dataclass(frozen=True)
class Verifier:
    """A chain, and everything else that an audit needs beside the batch. See open_verifier."""

    reader: ChainReader
    store: GatewayReader
    worker: TaskWorker
    bases: Bases
    model: PolicyModel | None

    def batch(self, index: int) -> BatchInfo:
        """A batch by its index. Raises UnableError where the chain does not hold so many (yet)."""
        count = self.reader.batch_count()
        if not 0 <= index < count:
            raise UnableError(f"there is no batch {index}: the chain holds {count}; was the chain reset?")
        return self.reader.batch_at(index)

    def audit(self, batch: BatchInfo) -> Audit:
        """The batch with its blocks, but for the policy's weights, fetched now. Raises SapoError where the chain does
        not answer."""
        beacon = self.reader.beacon(batch.round)
        if beacon is None:
            raise UnableError(f"round {batch.round} has no beacon although it has batches: the RPC contradicts itself")
        deployment = self.reader.deployment
        facts = BatchFacts.of(deployment, batch, beacon)
        blocks = fetch_batch(self.store, deployment.spec, facts, self.peers_of(batch))
        return Audit(facts, deployment.spec, blocks, self.worker, self.bases.tokenizer, self.model)

    def peers_of(self, batch: BatchInfo) -> list[str]:
        """Where its producer serves blocks (a multiaddr)."""
        return [self.reader.node_of(batch.node).endpoint]

    def check(self, audit: Audit) -> list[CheckResult]:
        """Every check in order, up to the first that does not pass; weights are fetched only where all others do, into
        the audit's blocks. What this machine refuses to ask is unknown, and not void."""

        def weights() -> None:
            if self.model is not None and self.model.runs and self._has_base(audit):
                assert isinstance(audit.blocks, dict)
                fetch_weights(self.store, audit, audit.blocks, self.peers_of(audit.facts))

        results = check_batch(audit, weights)
        if results[-1].check == "available" and results[-1].status == "void" and _refused(audit):
            results[-1] = replace(results[-1], status="unknown")
        return results

    def verify(self, batch: BatchInfo) -> Verified:
        """Fetch and check it. Raises SapoError where the chain does not answer; what a peer does is in the results."""
        return Verified(batch, self.check(self.audit(batch)))

    def own_interval(self, audit: Audit, slot: int, k: int, t: int) -> tuple[tuple[int, int] | None, str]:
        """What the declared policy gives to the token at a position, lo and last of 2^64, as this machine's pass finds
        it; or None, and why there is none."""
        if not isinstance(self.model, Explaining) or not self.model.runs:
            return None, "the policy is run with --model and torch only"
        if not self._has_base(audit):
            return None, f"the base {audit.base.id} is not here; give its folder with --base-folder"
        assert isinstance(audit.blocks, dict)
        fetch_weights(self.store, audit, audit.blocks, self.peers_of(audit.facts))
        return self.model.interval(audit, slot, k, t)

    def _has_base(self, audit: Audit) -> bool:
        """Else the policy check says what is missing, and its weights would be fetched for nothing."""
        try:
            self.bases.folder(audit.base)
        except BaseMissingError:
            return False
        return True


def _refused(audit: Audit) -> bool:
    """Whether the blocks that are missing are missing because nobody was asked who this reader may ask."""
    missing = [block for digest in audit.wanted if not isinstance(block := audit.blocks.get(digest), bytes)]
    return bool(missing) and all(isinstance(block, RefusedHere) for block in missing)


@contextmanager
def open_verifier(
    reader: ChainReader,
    *,
    gateways: Sequence[str] = (),
    base_folders: Sequence[Path] = (),
    model: bool = False,
    allow_private: bool = False,
) -> Iterator[Verifier]:
    """What checks the batches of one network, until the block ends; it holds a subprocess for the tasks.

    gateways: multiaddrs that are asked after the producer's own. base_folders: where the bases' files may be, for their
    tokenizers and, with `model`, for the `policy` check, which needs torch. allow_private: endpoints may be on private
    addresses, as on a devnet. Raises SapoError for a gateway that cannot be, or where this machine makes other tasks.
    """
    for gateway in gateways:
        parse_endpoint(gateway, allow_private=allow_private)  # its fault is better told than passed over
    bases = Bases(base_folders)
    with GatewayReader(gateways, allow_private=allow_private) as store, TaskWorker() as worker:
        check_versions(reader.deployment.spec, worker)
        yield Verifier(reader, store, worker, bases, policy_model(bases) if model else None)


def verify_batch(
    index: int,
    deployment: Deployment,
    *,
    rpc: str | Sequence[str] = RPC,
    gateways: Sequence[str] = (),
    base_folders: Sequence[Path] = (),
    model: bool = False,
    allow_private: bool = False,
) -> Verified:
    """Fetch one batch by its on-chain index and check it; the options are open_verifier's.

    For many batches open a verifier once. Raises UnableError where there is no such batch or no answer from the chain,
    and what open_chain and open_verifier raise.
    """
    with (
        open_chain(deployment, rpc) as reader,
        open_verifier(
            reader, gateways=gateways, base_folders=base_folders, model=model, allow_private=allow_private
        ) as verifier,
    ):
        return verifier.verify(verifier.batch(index))
