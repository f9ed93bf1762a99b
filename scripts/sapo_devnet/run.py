"""One run of the devnet: everything is started, plays its rounds, is looked at, and is stopped."""

import json
import shutil
import signal
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from typing import Any

from sapo_devnet.accounts import Account, books
from sapo_devnet.adversaries.names import ATTACKS, node_names
from sapo_devnet.checkout import ROOT
from sapo_devnet.network import Network
from sapo_devnet.nodes import DevnetNode, NodeOptions
from sapo_devnet.options import Options
from sapo_devnet.pay import LEGEND as PAY_LEGEND
from sapo_devnet.pay import failures, pay_table
from sapo_devnet.policies import DevnetPolicy, devnet_spec, find_policies
from sapo_devnet.processes import STARTED, stop_all
from sapo_devnet.reports import Reports
from sapo_devnet.table import LEGEND, checked_share, round_line, table, third_means
from sapo_verifier.chain.errors import coins
from sapo_verifier.chain.reader import ChainReader
from sapo_verifier.errors import SapoError
from sapo_verifier.schedule import FINAL_AFTER

START_SECONDS = 600.0  # for all nodes to have loaded and registered, on a slow machine
POLL_SECONDS = 0.1
ENDS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)  # Ctrl-C, kill, a terminal that is closed
INITS_AT_A_TIME = 4
LEAST_CHECKED = 0.95


class Run:
    """One run: `start`, `play`, `finish`, and `stop` in any case."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._data = options.data or ROOT / ".devnet" / datetime.now().strftime("%Y%m%d-%H%M%S")
        self._began = time.monotonic()
        self._network: Network | None = None
        self._nodes: list[DevnetNode] = []
        self._policies: list[DevnetPolicy] = []
        self._reports: Reports | None = None  # of honest voters, where there are others
        self._last_round = options.rounds + (FINAL_AFTER if options.attack else 0)
        self._kill = options.kill

    def start(self) -> None:
        """Everything up to round 0."""
        options = self._options
        if options.engine == "vllm" and "smollm2" not in options.policy.split(","):
            raise SapoError("vLLM cannot run pocket policies on a CPU (their heads); use --policy smollm2 with it")
        self._policies = find_policies(ROOT, options.policy, options.pocket_steps, options.lora_rank)
        groups, limit = (2, 1200.0) if any(policy.base == "smollm2" for policy in self._policies) else (4, 300.0)
        options.i = groups if options.i is None else options.i
        options.j = groups if options.j is None else options.j
        options.round_limit = limit if options.round_limit is None else options.round_limit
        self._data.mkdir(parents=True)
        self._say(f"data and logs in {self._data}")
        spec = devnet_spec(self._policies, options.spot)
        room = 64 + 8 * (options.nodes + len(options.attack))
        self._network = network = Network(
            self._data, spec, room=room, round_limit=options.round_limit, beacon=options.beacon
        )
        self._say(f"Anvil at {network.chain.url}, contracts deployed, spec 0x{spec.digest().hex()[:12]}…")
        for i in range(options.nodes):
            self._join(DevnetNode(f"node{i}", self._data / f"node{i}", i))
        for name in node_names(options.attack):
            attack = name.partition("-")[0]
            self._join(DevnetNode(name, self._data / name, len(self._nodes), attack))
        node_options = NodeOptions(
            deployment=network.deployment_file,
            rpc=network.chain.url,
            policies=self._policies,
            own_groups=options.i,
            external_groups=options.j,
            external=options.external,
            seed=options.seed,
            threads=options.threads,
            engine=options.engine,
            last_round=options.rounds if options.attack else None,
            drand_relays=network.relays,
        )
        with ThreadPoolExecutor(INITS_AT_A_TIME) as pool:
            list(pool.map(lambda node: network.init(node, node_options), self._nodes))
        for node in self._nodes:
            node.start()
        if options.attack:
            honest = {node.address: node.gateway for node in self._nodes if not node.attack}
            self._reports = Reports(ChainReader(network.chain.url, network.deployment), honest)
        self._say(f"{len(self._nodes)} nodes started; they load their policies and register …")
        deadline = time.monotonic() + START_SECONDS
        with network.told():
            network.clock.start(lambda: network.all_ready(deadline))

    def _join(self, node: DevnetNode) -> None:
        self._nodes.append(node)
        self._running.nodes.append(node)

    @property
    def _running(self) -> Network:
        assert self._network is not None, "start comes first"
        return self._network

    def play(self) -> None:
        """Rounds 0 … N; in round 0 nodes can only commit their policies."""
        with self._running.told():
            self._play(self._running)

    def _play(self, network: Network) -> None:
        began = time.monotonic()
        while (now := network.clock.round()) <= self._last_round:
            self._maybe_kill(now)
            network.refuse_dead()
            for node in self._nodes:
                for process in node.processes():
                    process.sample_memory()
            if now == self._last_round and network.all_done(now):
                self._show(now, time.monotonic() - began)
                return
            # The last round stays: a node that is done with it in this moment ends the run above, not here.
            if network.clock.tick(network.all_done if now < self._last_round else lambda _: False):
                if self._reports is not None:
                    self._reports.look()
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
        phase = node.status().get("phase")
        if node.status().get("round") == now and phase in ("generating", "auditing", "voting", "training"):
            also = " and its daemon" * self._options.with_daemon
            self._say(f"kill -9 {node.name}{also} while {phase}, and start again")
            node.crash(with_daemon=self._options.with_daemon)
            self._kill = None

    def finish(self) -> int:
        """Table, summary, verdict; and with --keep, wait for Ctrl-C. Exit status 0 if the network did its job."""
        rows = self._rows(honest=True)
        print(table(rows))
        print(LEGEND)
        first, last = third_means(rows)
        checked = checked_share(rows)
        batches = sum(bool(row["completions"]) and not row["skipped"] for row in rows)
        expected = self._options.nodes * self._options.rounds
        failed = sum(row["external_failed"] for row in rows)
        peaks = {node.name: node.process.peak_kib // 1024 for node in self._nodes if node.process}
        repaired, positions = (sum(row[name] for row in rows) for name in ("repaired", "positions"))
        print(f"batches published: {batches} of {expected}; tokens repaired: {repaired} of {positions}")
        print(f"own fresh reward per completion: first third {first:.3f}, last third {last:.3f}")
        print(
            f"external groups from round 3 on: {checked:.1%} of those drawn were fetched and checked; {failed} failed"
        )
        print(f"peak memory of a node: {max(peaks.values())} MiB; wall time {time.monotonic() - self._began:.0f} s")
        summary: dict[str, Any] = {
            "options": {key: str(value) for key, value in vars(self._options).items()},
            "nodes": {node.name: node.address for node in self._nodes},
            "starts": {node.name: node.starts for node in self._nodes},
            "spec": "0x" + self._running.deployment.spec_digest.hex(),
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
        with self._running.told():
            reasons = self._settle_accounts(summary, self._reports) if self._reports is not None else []
        path = self._data / "summary.json"
        path.write_text(json.dumps(summary, indent=1))
        print(f"summary: {path}")
        self._keep()
        if batches < LEAST_CHECKED * expected:
            reasons.append("fewer batches were published than expected")
        if not self._options.attack and (checked < LEAST_CHECKED or failed):
            reasons.append("not all external groups could be fetched and checked")
        for reason in reasons:
            print(f"devnet: {reason}; see the nodes' logs in {self._data}", file=sys.stderr)
        return 1 if reasons else 0

    def _settle_accounts(self, summary: dict[str, Any], reports: Reports) -> list[str]:
        """Print who was paid what and why, and add it to the summary; what must not happen and did, in words."""
        network = self._running
        reader = ChainReader(network.chain.url, network.deployment)
        accounts = [Account(node.name, node.address, node.attack) for node in self._nodes]
        reports.look()
        reports.close()
        found = books(network.chain, reader, accounts, reports.read, self._options.rounds)
        reader.close()
        limits = {attack: most for attack, most in ATTACKS.items() if most is not None}
        reasons = list(failures(found, limits, self._options.rounds))
        if reports.missing:
            reasons.append(f"{len(reports.missing)} reports of honest voters were not to be had")
        print(f"\n{pay_table(found.accounts)}\n{PAY_LEGEND}")
        print(f"burned: {coins(found.burned)} coins; sums that are off: {len(found.errors)}")
        summary |= {**found.to_json(), "failures": reasons}
        return reasons

    def _keep(self) -> None:
        if not self._options.keep:
            return
        network = self._running
        print(f"\nAnvil: {network.chain.url}\ndeployment: {network.deployment_file}")
        for node in self._nodes:
            print(f"{node.name}: {node.address}, IPFS RPC {node.api}, gateway {node.gateway}, home {node.home}")
        bases = " ".join(f"--base-folder {folder}" for folder in sorted({policy.folder for policy in self._policies}))
        print(
            f"audit a batch: .venv/bin/sapo-verify batch 17 --rpc {network.chain.url} --allow-private "
            f"--deployment {network.deployment_file} {bases}\nCtrl-C stops everything.",
            flush=True,
        )
        with network.told():
            while True:
                network.clock.serve()
                network.refuse_dead()
                time.sleep(1.0)

    def _rows(self, *, honest: bool) -> list[dict[str, Any]]:
        nodes = [node for node in self._nodes if node.attack is None or not honest]
        rows = [report | {"node": node.name} for node in nodes for report in node.rounds()]
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
        """All that was started. Nothing can interrupt this, and it takes less than a minute."""
        for number in ENDS:
            signal.signal(number, signal.SIG_IGN)
        killed = [*(self._network.stop() if self._network else []), *stop_all(STARTED)]
        if killed:
            print(f"devnet: had to be killed: {', '.join(killed)}", file=sys.stderr)
