"""From an auditor's options to the chain and to what checks its batches."""

import argparse
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

from sapo_verifier.chain.deployment import Deployment
from sapo_verifier.chain.pinned import PinnedReader, Source
from sapo_verifier.chain.reader import ChainReader, open_chain
from sapo_verifier.chain.urls import rpc_urls
from sapo_verifier.network_file import NetworkFile
from sapo_verifier.verify import Verifier, open_verifier


def deployment_of(options: argparse.Namespace) -> Deployment:
    """Of the network that the options name."""
    network = _network_of(options)
    return network.deployment if network else Deployment.load(options.deployment)


def rpc_of(options: argparse.Namespace) -> list[str]:
    """The URLs of its chain's RPCs."""
    network = _network_of(options)
    return list(rpc_urls(options.rpc, options.rpc_file, network.rpc if network else ()))


def gateways_of(options: argparse.Namespace) -> list[str]:
    """Whom to ask for blocks after the producer."""
    network = _network_of(options)
    return [*options.gateway, *(network.gateways if network else ())]


def chain_of(options: argparse.Namespace) -> AbstractContextManager[ChainReader]:
    """The chain that the options name; refused if it is another one than the deployment file's."""
    return open_chain(deployment_of(options), rpc_of(options))


@contextmanager
def pinned_chain_of(options: argparse.Namespace) -> Iterator[PinnedReader]:
    """The same as it is after its latest block."""
    with chain_of(options) as reader:
        yield PinnedReader(reader)


def source_in_words(source: Source) -> str:
    """A report's last line."""
    block, by = source.block, f"sapo-verify {source.version}"
    return f"read at block {block.number} ({block.hash}) of chain {source.chain}, spec {source.spec}, by {by}"


def verifier_of(options: argparse.Namespace, reader: ChainReader) -> AbstractContextManager[Verifier]:
    """See open_verifier."""
    return open_verifier(
        reader,
        gateways=gateways_of(options),
        base_folders=options.base_folder,
        model=options.model,
        allow_private=options.allow_private,
    )


def _network_of(options: argparse.Namespace) -> NetworkFile | None:
    return None if options.network is None else NetworkFile.load(options.network)
