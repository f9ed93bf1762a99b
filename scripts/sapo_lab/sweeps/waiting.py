"""What a node asks of its RPC in rounds by the clock, waiting included, whose share is the largest (docs/settings.md).

scripts/in-venv -m sapo_lab.sweeps.waiting --seconds 128 --rounds 4
"""

import argparse
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from sapo_devnet import formula_nodes
from sapo_devnet.formula.policy import formula_spec
from sapo_devnet.formula.shared import Shared
from sapo_devnet.network import Network
from sapo_devnet.nodes import NodeOptions
from sapo_devnet.testkit.relay import Relay, Traffic
from sapo_verifier.errors import SapoError

NODES = 3
ROOM = 60  # blocks for registering
READY_SECONDS = 120.0
TICK_SECONDS = 0.05
DAY = 86_400


def asked(folder: Path, rounds: int, seconds: float, poll_seconds: float) -> Iterator[Traffic]:
    """Of one formula node among three, in each of the rounds 0 … rounds − 1.

    seconds: of a round, its blocks evenly; poll_seconds: as in the settings. Raises SapoError where a node has ended.
    """
    formula_nodes.POLL_SECONDS = poll_seconds
    network = Network(folder, formula_spec(), room=ROOM, round_limit=seconds)
    try:
        with Shared(folder / "shared", network.deployment) as shared, Relay(network.chain.url) as relay:
            for number in range(NODES):
                node = formula_nodes.FormulaNode(f"formula{number}", folder / f"formula{number}", shared)
                network.nodes.append(node)
                network.init(node, _options(network.deployment_file, network.chain.url if number else relay.url))
                node.start()
            deadline = time.monotonic() + READY_SECONDS
            network.clock.start(lambda: network.all_ready(deadline))
            before = relay.so_far()
            for _ in range(rounds):
                while not network.clock.spread(seconds):
                    network.refuse_dead()
                    time.sleep(TICK_SECONDS)
                after = relay.so_far()
                yield after - before
                before = after
            network.stop()
    finally:
        network.stop()


def _options(deployment: Path, rpc: str) -> NodeOptions:
    return NodeOptions(
        deployment=deployment,
        rpc=rpc,
        policies=[],
        own_groups=1,
        external_groups=1,
        external="truncated",
        seed=0,
        threads=1,
        engine="torch",
    )


def main() -> int:
    parser = argparse.ArgumentParser(description="Count what a node asks of its RPC, waiting included.")
    parser.add_argument("--rounds", type=int, default=4, help="from round 0 on (%(default)s)")
    parser.add_argument("--seconds", type=float, default=128.0, help="of a round (%(default)s)")
    parser.add_argument("--poll-seconds", type=float, default=2.0, help="[chain] poll_seconds (%(default)s)")
    options = parser.parse_args()
    print("| round | requests | calls | bytes | a day: requests | calls | bytes |\n|---|---|---|---|---|---|---|")
    try:
        with tempfile.TemporaryDirectory() as name:
            each = asked(Path(name), options.rounds, options.seconds, options.poll_seconds)
            for round_, traffic in enumerate(each):
                counted = [traffic.requests, traffic.calls, traffic.up + traffic.down]
                days = [round(count * DAY / options.seconds) for count in counted]
                print(f"| {round_} | " + " | ".join(f"{count:,}" for count in counted + days) + " |", flush=True)
    except SapoError as error:
        print(f"waiting: {error}")
        return error.exit_status
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
