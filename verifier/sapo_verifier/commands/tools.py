"""What an auditor's commands share: the chain, peers' gateways, a worker for tasks, and one audit of one batch."""

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from sapo_verifier.audit import Audit, PolicyModel, fetch_batch
from sapo_verifier.bases import Bases
from sapo_verifier.chain.deployment import Deployment
from sapo_verifier.chain.reader import ChainReader
from sapo_verifier.errors import UnableError
from sapo_verifier.facts import BatchFacts, BatchInfo
from sapo_verifier.ipfs import GatewayReader, parse_endpoint
from sapo_verifier.model import policy_model
from sapo_verifier.tasks import TaskWorker


@dataclass(frozen=True)
class Tools:
    """Everything that an audit needs beside the batch."""

    reader: ChainReader
    store: GatewayReader
    worker: TaskWorker
    bases: Bases
    model: PolicyModel | None

    def audit(self, batch: BatchInfo) -> Audit:
        """The batch with its blocks, fetched now. Raises SapoError where the chain does not answer."""
        beacon = self.reader.beacon(batch.round)
        if beacon is None:
            raise UnableError(f"round {batch.round} has no beacon although it has batches: the RPC contradicts itself")
        deployment = self.reader.deployment
        facts = BatchFacts.of(deployment, batch, beacon)
        peers, weights = [self.reader.node_of(batch.node).endpoint], self.model is not None and self.model.runs
        blocks = fetch_batch(self.store, deployment.spec, facts, peers, weights=weights)
        return Audit(facts, deployment.spec, blocks, self.worker, self.bases.tokenizer, self.model)


@contextmanager
def chain_of(options: argparse.Namespace) -> Iterator[ChainReader]:
    """The chain that the options name; refused if it is another one than the deployment file's."""
    reader = ChainReader(options.rpc, Deployment.load(options.deployment))
    try:
        reader.check()
        yield reader
    finally:
        reader.close()


def batch_of(reader: ChainReader, index: int) -> BatchInfo:
    """A batch by its index. Raises UnableError where the chain does not hold so many (yet)."""
    count = reader.batch_count()
    if index >= count:
        raise UnableError(f"there is no batch {index}: the chain holds {count}; was the chain reset?")
    return reader.batch_at(index)


@contextmanager
def open_tools(options: argparse.Namespace, reader: ChainReader) -> Iterator[Tools]:
    """Everything beside the chain. Raises SapoError for a gateway that cannot be, or another version of the tasks."""
    for gateway in options.gateway:
        parse_endpoint(gateway, allow_private=options.allow_private)  # its fault is better told than passed over
    bases = Bases(options.base_folder)
    model = policy_model(bases) if options.model else None
    with GatewayReader(options.gateway, allow_private=options.allow_private) as store, TaskWorker() as worker:
        worker.check_versions(reader.deployment.spec)
        yield Tools(reader, store, worker, bases, model)
