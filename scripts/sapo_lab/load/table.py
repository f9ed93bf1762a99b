"""Loads as a table, and what of them grows with the number of nodes."""

from collections.abc import Sequence
from statistics import mean

from sapo_lab.load.measure import Load

MOST_GROWTH = 1.2  # of the most nodes over the fewest
SETTLED = 3  # rounds before that one have less to do: nothing to reveal, or to look at again
# What the docs call bounded by the window, and not by the network.
FLAT = {
    "gas": "gas",
    "rpc_calls": "RPC calls",
    "rpc_bytes": "bytes of RPC",
    "peer_bytes": "bytes of peers",
}


def round_line(load: Load) -> str:
    """One round, while one watches."""
    return (
        f"{load.nodes} nodes, round {load.round}: {load.batches} batches, {load.seconds:.1f} s, {load.gas:,} gas, "
        f"{load.rpc_calls:.0f} calls, {load.rpc_bytes:,.0f} bytes of RPC, {load.peer_bytes:,.0f} of peers, "
        f"{load.checked:.0f} of {load.drawn:.0f} groups checked"
    )


def settled(loads: Sequence[Load]) -> dict[int, dict[str, float]]:
    """By number of nodes: each measure's mean over the rounds from SETTLED on; over all where there are fewer."""
    found: dict[int, dict[str, float]] = {}
    for nodes in sorted({load.nodes for load in loads}):
        own = [load for load in loads if load.nodes == nodes]
        late = [load for load in own if load.round >= SETTLED] or own
        names = [name for name in vars(own[0]) if name not in ("nodes", "round")]
        found[nodes] = {name: mean(getattr(load, name) for load in late) for name in names}
    return found


def table(loads: Sequence[Load]) -> str:
    """For docs/results/load.md: one real node in one round."""
    lines = [
        "| nodes that publish | seconds | of CPU | gas | gas of a publisher | RPC calls | in requests | bytes of RPC | "
        "bytes of peers | groups checked |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for nodes, each in settled(loads).items():
        lines.append(
            f"| {nodes:,} | {each['seconds']:.1f} | {each['cpu_seconds']:.1f} | {each['gas']:,.0f} | "
            f"{each['crowd_gas']:,.0f} | {each['rpc_calls']:.0f} | {each['rpc_requests']:.0f} | "
            f"{each['rpc_bytes']:,.0f} | {each['peer_bytes']:,.0f} | {each['checked']:.0f} of {each['drawn']:.0f} |"
        )
    return "\n".join(lines)


def grown(loads: Sequence[Load]) -> list[str]:
    """What does not stay flat, in words."""
    found = settled(loads)
    few, many = min(found), max(found)
    return [
        f"{words} grow from {found[few][name]:,.0f} at {few} nodes to {found[many][name]:,.0f} at {many}"
        for name, words in FLAT.items()
        if found[many][name] > MOST_GROWTH * found[few][name]
    ]
