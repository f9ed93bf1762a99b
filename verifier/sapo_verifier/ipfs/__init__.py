"""Blocks: the stores that fetch and publish them, and the small daemon that keeps and serves them."""

from sapo_verifier.ipfs.credentials import Credentials, read_credentials
from sapo_verifier.ipfs.endpoints import Endpoint, parse_endpoint
from sapo_verifier.ipfs.errors import (
    BlockCorrupt,
    BlockError,
    BlockTooLarge,
    BlockUnavailable,
    DaemonAway,
    EndpointError,
    PeerTooSlow,
    PeerUnreachable,
    RefusedHere,
    RepoError,
    StoreFailed,
)
from sapo_verifier.ipfs.store import BlockStore, GatewayReader

__all__ = [
    "BlockCorrupt",
    "BlockError",
    "BlockStore",
    "BlockTooLarge",
    "BlockUnavailable",
    "Credentials",
    "DaemonAway",
    "Endpoint",
    "EndpointError",
    "GatewayReader",
    "PeerTooSlow",
    "PeerUnreachable",
    "RefusedHere",
    "RepoError",
    "StoreFailed",
    "parse_endpoint",
    "read_credentials",
]
