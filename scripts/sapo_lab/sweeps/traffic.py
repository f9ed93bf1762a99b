"""What one node downloads to fetch and check the window of a round, by the number of nodes that published in it."""

import argparse
import tempfile
from dataclasses import dataclass
from pathlib import Path

from sapo_client.batches.auditing import Auditor, FetchBudget
from sapo_client.batches.pins import PinBook
from sapo_client.batches.seeds import Seeds
from sapo_devnet.testkit.ipfs_daemon import ipfs_daemon
from sapo_devnet.testkit.publishers import Publishers, publishers
from sapo_devnet.testkit.relay import Relay
from sapo_verifier.ipfs import BlockStore

MOST_GROWTH = 1.2


@dataclass(frozen=True)
class Cost:
    """Of one round's audit. block_bytes: from peers; rpc_*: to and from the chain, HTTP included."""

    nodes: int
    batches: int  # in the window
    block_bytes: int
    rpc_bytes: int
    rpc_requests: int
    rpc_calls: int
    groups: int  # that passed and can be trained on


def cost_of(made: Publishers, count: int, folder: Path) -> Cost:
    """One node without any block yet audits its window over the round with `count` batches, as `sapo run` does."""
    folder.mkdir()
    round_ = made.rounds[count]
    pins = PinBook(folder / "pins.sqlite")
    with (
        ipfs_daemon(folder) as daemon,
        Relay(made.network.chain.url) as relay,
        BlockStore(daemon.api, allow_private=True) as store,
    ):
        reader, spec = made.network.reader(relay.url), made.network.spec
        seeds = Seeds(made.nodes[0], reader, store, secret=bytes(32))
        auditor = Auditor(reader, store, spec, made.worker, made.tokenizer, None, pins, made.nodes[0], seeds)
        window = auditor.window(round_)
        endpoints = auditor.endpoints(window)
        budget = FetchBudget(60.0, len(window))
        groups = 0
        failures: list[str] = []
        for batch in window:
            seen, counts = auditor.audit(batch, [endpoints[batch.node]], made.policy(), budget)
            groups += len(seen.groups)
            failures += counts.failures
        reader.close()
        down, traffic = store.bytes_down, relay.so_far()
    pins.close()
    assert failures == [], failures
    rpc_bytes = traffic.up + traffic.down
    return Cost(count, len(window), down, rpc_bytes, traffic.requests, traffic.calls, groups)


def costs(counts: list[int]) -> list[Cost]:
    with tempfile.TemporaryDirectory() as name, publishers(Path(name), counts) as made:
        return [cost_of(made, count, Path(name) / f"auditor{count}") for count in counts]


def main(options: argparse.Namespace) -> int:
    """Prints a table; status 1 where the most nodes cost more than a fifth more than the fewest."""
    found = costs(sorted(options.nodes))
    print("| nodes | batches in the window | groups checked | bytes of blocks | bytes of RPC | RPC requests | calls |")
    print("|---|---|---|---|---|---|---|")
    for cost in found:
        print(
            f"| {cost.nodes} | {cost.batches} | {cost.groups} | {cost.block_bytes:,} | {cost.rpc_bytes:,} | "
            f"{cost.rpc_requests} | {cost.rpc_calls} |"
        )
    first, last = found[0], found[-1]
    flat = (
        last.block_bytes <= MOST_GROWTH * first.block_bytes
        and last.rpc_bytes <= MOST_GROWTH * first.rpc_bytes
        and last.rpc_calls <= MOST_GROWTH * first.rpc_calls
    )
    print("flat" if flat else "NOT flat")
    return 0 if flat else 1
