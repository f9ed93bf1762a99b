"""`scripts/devnet`: start everything, play the rounds, show what happened, stop everything."""

import argparse
import json
import shutil
import signal
import sys
import time
from datetime import datetime
from pathlib import Path
from typing import Any

from sapo_devnet.chain import Chain, Clock
from sapo_devnet.nodes import DevnetNode, NodeOptions
from sapo_devnet.pocket import pocket_policy
from sapo_devnet.processes import Process, stop_all
from sapo_devnet.table import LEGEND, checked_share, round_line, table, third_means
from sapo_verifier.errors import SapoError
from sapo_verifier.networks import pocket_spec

ROOT = Path(__file__).resolve().parents[2]
START_SECONDS = 600.0  # for all nodes to have loaded and registered, on a slow machine
POLL_SECONDS = 0.1
LEAST_CHECKED = 0.95


def main() -> int:
    options = _parser().parse_args()
    signal.signal(signal.SIGTERM, _interrupt)
    devnet = Devnet(options)
    try:
        devnet.start()
        devnet.play()
        return devnet.finish()
    except KeyboardInterrupt:
        print("\nstopping …", flush=True)
        return 130
    except SapoError as error:
        print(f"devnet: {error}", file=sys.stderr)
        return 1
    finally:
        devnet.stop()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="scripts/devnet", description="A chain, IPFS daemons and nodes on this machine that learn from each other."
    )
    parser.add_argument("--nodes", type=int, default=4, metavar="N", help="(%(default)s)")
    parser.add_argument("--rounds", type=int, default=30, metavar="N", help="with batches (%(default)s)")
    parser.add_argument("--i", type=int, default=4, help="own groups per node and round (%(default)s)")
    parser.add_argument("--j", type=int, default=4, help="other nodes' groups (%(default)s)")
    parser.add_argument("--external", choices=("truncated", "as-own", "drop-negatives"), default="truncated")
    parser.add_argument("--seed", type=int, default=0, help="of keys' order and sampling (%(default)s)")
    parser.add_argument("--policy", default="pocket", metavar="FOLDER", help="a base's folder (the pocket policy)")
    parser.add_argument("--pocket-steps", type=int, metavar="N", help="a quick, worse pocket policy, for tests")
    parser.add_argument("--threads", type=int, default=1, help="CPU threads per node (%(default)s)")
    parser.add_argument("--round-limit", type=float, default=300.0, metavar="S", help="a round ends then (%(default)s)")
    parser.add_argument("--kill", metavar="NODE:ROUND", help="kill -9 node NODE in round ROUND and start it again")
    parser.add_argument("--keep", action="store_true", help="leave it running at the end and print the URLs")
    parser.add_argument("--data", type=Path, metavar="FOLDER", help="where to keep logs and homes (.devnet/<time>)")
    return parser


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt


class Devnet:
    """One run: `start`, `play`, `finish`, and `stop` in any case."""

    def __init__(self, options: argparse.Namespace) -> None:
        self._options = options
        self._data = options.data or ROOT / ".devnet" / datetime.now().strftime("%Y%m%d-%H%M%S")
        self._began = time.monotonic()
        self._chain: Chain | None = None
        self._nodes: list[DevnetNode] = []
        self._clock: Clock
        self._shown = -1
        self._kill = tuple(map(int, options.kill.split(":"))) if options.kill else None

    def start(self) -> None:
        """Everything up to round 0."""
        options = self._options
        if options.policy == "pocket":
            policy = pocket_policy(ROOT, steps=options.pocket_steps)
        else:
            policy = Path(options.policy).resolve()
        self._data.mkdir(parents=True)
        self._say(f"data and logs in {self._data}")
        spec = pocket_spec(policy)
        self._chain = Chain(ROOT, self._data / "anvil.log")
        deployment = self._chain.deploy(ROOT, spec, room=64 + 8 * options.nodes)
        path = self._data / "deployment.json"
        deployment.save(path)
        self._say(f"Anvil at {self._chain.url}, contracts deployed, spec 0x{spec.digest().hex()[:12]}…")
        self._nodes = [DevnetNode(f"node{i}", self._data / f"node{i}", i) for i in range(options.nodes)]
        node_options = NodeOptions(
            deployment=path,
            rpc=self._chain.url,
            policy=policy,
            base=spec.bases[0].id,
            own_groups=options.i,
            external_groups=options.j,
            external=options.external,
            seed=options.seed,
            threads=options.threads,
        )
        for node in self._nodes:
            node.init(node_options)
            self._chain.fund(node.address)
            node.start()
        self._say(f"{options.nodes} nodes started; they load their policies and register …")
        self._clock = Clock(self._chain, deployment, options.round_limit)
        deadline = time.monotonic() + START_SECONDS
        self._clock.start(lambda: self._all_ready(deadline))

    def _all_ready(self, deadline: float) -> bool:
        self._refuse_dead()
        if time.monotonic() > deadline:
            raise SapoError(f"after {START_SECONDS:.0f} s not all nodes are ready; see their logs in {self._data}")
        return all(node.ready() for node in self._nodes)

    def _refuse_dead(self) -> None:
        for node in self._nodes:
            for process in node.processes():
                if process.exit_status() is not None:
                    raise SapoError(f"{process.name} has ended; {process.log} ends with:\n{process.last_words()}")

    def play(self) -> None:
        """Rounds 0 … N; in round 0 nodes can only commit their policies."""
        began = time.monotonic()
        while (now := self._clock.round()) <= self._options.rounds:
            self._maybe_kill(now)
            self._refuse_dead()
            for node in self._nodes:
                for process in node.processes():
                    process.sample_memory()
            if now == self._options.rounds and all(node.done(now) for node in self._nodes):
                self._show(now, time.monotonic() - began)
                return
            if self._clock.tick(lambda round_: all(node.done(round_) for node in self._nodes)):
                self._show(now, time.monotonic() - began)
                began = time.monotonic()
            else:
                self._show_phases(now)
                time.sleep(POLL_SECONDS)

    def _maybe_kill(self, now: int) -> None:
        """Once the node is in the middle of the round."""
        if self._kill is None or now != self._kill[1]:
            return
        node = self._nodes[self._kill[0]]
        if node.process is not None and node.status().get("phase") in ("generating", "auditing", "training"):
            self._say(f"kill -9 {node.name} while {node.status()['phase']}, and start it again")
            node.process.kill()
            node.start()
            self._kill = None

    def finish(self) -> int:
        """Table, summary, verdict; and with --keep, wait for Ctrl-C. Exit status 0 if the network did its job."""
        rows = self._rows()
        print(table(rows))
        print(LEGEND)
        first, last = third_means(rows)
        checked = checked_share(rows)
        batches = sum(bool(row["completions"]) and not row["skipped"] for row in rows)
        expected = self._options.nodes * self._options.rounds
        failed = sum(row["external_failed"] for row in rows)
        peaks = {node.name: node.process.peak_kib // 1024 for node in self._nodes if node.process}
        print(f"batches published: {batches} of {expected}")
        print(f"own fresh reward per completion: first third {first:.3f}, last third {last:.3f}")
        print(
            f"external groups from round 3 on: {checked:.1%} of those drawn were fetched and checked; {failed} failed"
        )
        print(f"peak memory of a node: {max(peaks.values())} MiB; wall time {time.monotonic() - self._began:.0f} s")
        summary: dict[str, Any] = {
            "options": {key: str(value) for key, value in vars(self._options).items()},
            "nodes": {node.name: node.address for node in self._nodes},
            "starts": {node.name: node.starts for node in self._nodes},
            "batches": batches,
            "batches_expected": expected,
            "first_third": first,
            "last_third": last,
            "checked_share": checked,
            "failed_groups": failed,
            "peak_mib": peaks,
            "wall_seconds": time.monotonic() - self._began,
            "rounds": rows,
        }
        path = self._data / "summary.json"
        path.write_text(json.dumps(summary, indent=1))
        print(f"summary: {path}")
        self._keep()
        reasons = []
        if batches < LEAST_CHECKED * expected:
            reasons.append("fewer batches were published than expected")
        if checked < LEAST_CHECKED or failed:
            reasons.append("not all external groups could be fetched and checked")
        for reason in reasons:
            print(f"devnet: {reason}; see the nodes' logs in {self._data}", file=sys.stderr)
        return 1 if reasons else 0

    def _keep(self) -> None:
        if not self._options.keep or self._chain is None:
            return
        print(f"\nAnvil: {self._chain.url}\ndeployment: {self._data / 'deployment.json'}")
        for node in self._nodes:
            print(f"{node.name}: {node.address}, IPFS RPC {node.api}, gateway {node.gateway}, home {node.home}")
        print(
            f"audit a batch: .venv/bin/sapo-verify batch 17 --rpc {self._chain.url} --allow-private "
            f"--deployment {self._data / 'deployment.json'} --base {self._options.policy}\nCtrl-C stops everything.",
            flush=True,
        )
        while True:
            self._clock.serve()
            self._refuse_dead()
            time.sleep(1.0)

    def _rows(self) -> list[dict[str, Any]]:
        rows = [report | {"node": node.name} for node in self._nodes for report in node.rounds()]
        return sorted(rows, key=lambda row: (row["round"], row["node"]))

    def _show(self, round_: int, seconds: float) -> None:
        reports = {node.name: found for node in self._nodes for found in node.rounds() if found["round"] == round_}
        self._say(round_line(round_, reports, seconds))

    def _show_phases(self, now: int) -> None:
        if sys.stdout.isatty():
            width = shutil.get_terminal_size().columns - 1
            phases = ", ".join(f"{node.name} {node.status().get('phase', 'loading')}" for node in self._nodes)
            print(f"\r{f'round {now}: {phases}'[:width]:{width}}", end="\r", flush=True)

    def _say(self, words: str) -> None:
        clear = " " * (shutil.get_terminal_size().columns - 1) + "\r" if sys.stdout.isatty() else ""
        print(f"{clear}[{time.monotonic() - self._began:6.1f} s] {words}", flush=True)

    def stop(self) -> None:
        """Nodes first, so that they end their last transactions in peace; then daemons; the chain last."""
        running = [node.process for node in self._nodes if node.process]
        daemons = [node.daemon for node in self._nodes]
        chain: list[Process] = [self._chain.process] if self._chain else []
        killed = [name for part in (running, daemons, chain) for name in stop_all(part)]
        if killed:
            print(f"devnet: had to be killed: {', '.join(killed)}", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
