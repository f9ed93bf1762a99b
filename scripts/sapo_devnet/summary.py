"""A devnet as plain data: what `Devnet.summary` gives."""

from typing import Any

from sapo_devnet.network import Network
from sapo_verifier.chain.reader import ChainReader


def summary_of(network: Network, reader: ChainReader) -> dict[str, Any]:
    """The round, every node with its round reports, and every batch on chain. Reads the chain."""
    now = network.clock.round()
    names = {node.address: node.name for node in network.nodes}
    batches = [batch for round_ in range(now + 1) for batch in reader.batches_of(round_)]
    return {
        "round": now,
        "rpc": network.chain.url,
        "spec": "0x" + network.deployment.spec_digest.hex(),
        "nodes": {
            node.name: {
                "address": node.address,
                "attack": node.attack,
                "running": node.alive,
                "starts": node.starts,
                "rounds": node.rounds(),
            }
            for node in network.nodes
        },
        "batches": [
            {"index": b.index, "round": b.round, "node": b.node, "name": names.get(b.node, ""), "slots": b.slots}
            for b in batches
        ],
    }
