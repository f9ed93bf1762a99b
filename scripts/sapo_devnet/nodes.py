"""The devnet's nodes: each has a home, a key, an IPFS daemon and a `sapo run` of its own.

`Member` is what the devnet asks of a node, of whatever kind.
"""

import json
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from sapo_client.state.home import KEYSTORE
from sapo_client.state.report import read_rounds, read_status
from sapo_devnet.checkout import IS_CHECKOUT, SCRIPTS
from sapo_devnet.errors import DevnetError
from sapo_devnet.policies import DevnetPolicy
from sapo_devnet.processes import Part, Process
from sapo_verifier import keystore
from sapo_verifier.errors import UsageError

READY_SECONDS = 180.0
SAPO = [sys.executable, "-m", "sapo_client"]


@dataclass(frozen=True)
class NodeOptions:
    deployment: Path
    rpc: str | Sequence[str]  # one URL, or several in order of preference
    policies: Sequence[DevnetPolicy]  # nodes take them in turn
    own_groups: int
    external_groups: int
    external: str
    seed: int
    threads: int
    engine: str  # of policies other than pocket ones
    last_round: int | None = None  # to publish in
    drand_relays: Sequence[str] = ()  # where the beacon waits for drand


class Member(Protocol):
    """A node of a devnet. It is made, told `init`, given coins at its address, and told `start`."""

    name: str
    attack: str | None  # None: an honest one
    home: Path  # its folder, with its logs
    address: str  # lower case; "" before `init`
    starts: int

    @property
    def gateway(self) -> str:
        """A multiaddr on loopback, from which others fetch its blocks."""

    @property
    def alive(self) -> bool:
        """Whether it plays."""

    def init(self, options: NodeOptions) -> None: ...

    def start(self) -> None:
        """Also once more, after `kill`."""

    def kill(self, *, with_daemon: bool) -> None:
        """At once, and of its daemon, too, if asked. Raises UsageError for what cannot be done to such a node."""

    def pause(self) -> None:
        """It stands still. Raises UsageError where it does not run, or cannot."""

    def resume(self) -> None: ...

    def rounds(self) -> list[dict[str, Any]]:
        """Its round reports."""

    def ready(self) -> bool:
        """Whether it is registered and plays from the next round on."""

    def done(self, round_: int) -> bool:
        """Whether nothing is to be waited for in the round: done with it, or not there."""

    def workers(self) -> Sequence[Part]:
        """What plays, and must not end by itself; stopped before any `servers`."""

    def servers(self) -> Sequence[Part]:
        """What serves its blocks, as long as others may ask."""


class DevnetNode:
    """One node. Start its daemon first, then `init`, then `start`."""

    def __init__(
        self, name: str, home: Path, number: int, attack: str | None = None, *, knows_formula: bool = False
    ) -> None:
        """attack: what it does instead of `sapo run` (scripts/sapo_devnet/adversaries).

        knows_formula: it judges what formula nodes publish by the formula; by its model it would have to reject that.
        """
        self.name = name
        self.attack = attack
        self.number = number
        self._knows_formula = knows_formula
        self.home = home
        self.address = ""
        self.api = self.gateway = ""
        self._password = home.parent / f"{name}.password"
        home.mkdir(parents=True)
        self.daemon = self._start_daemon("127.0.0.1:0", "127.0.0.1:0")
        self._daemon_killed = False
        self.process: Process | None = None
        self.starts = 0

    def _start_daemon(self, api: str, gateway: str) -> Process:
        command = [*SAPO, "ipfs", "--repo", str(self.home / "ipfs"), "--api", api, "--gateway", gateway]
        return Process(f"{self.name}'s IPFS daemon", [*command, "--allow-private"], self.home / "ipfs.log")

    def crash(self, *, with_daemon: bool) -> None:
        """kill -9, and start again; the daemon where it was."""
        self.kill(with_daemon=with_daemon)
        self.start()

    def kill(self, *, with_daemon: bool) -> None:
        """kill -9. It stays away until `start`."""
        if self.process is not None:
            self.process.kill()
            self.process = None
        if with_daemon and not self._daemon_killed:
            self.daemon.kill()
            self._daemon_killed = True

    def pause(self) -> None:
        """SIGSTOP; its daemon serves on."""
        if self.process is None:
            raise UsageError(f"{self.name} does not run; call start_node first")
        self.process.pause()

    def resume(self) -> None:
        if self.process is not None:
            self.process.resume()

    def _daemon_again(self) -> None:
        """Where it was, and before the node, which waits for it."""
        api, gateway = (":".join(address.split("/")[2:5:2]) for address in (self.api, self.gateway))
        said = self.daemon.log.stat().st_size
        self.daemon = self._start_daemon(api, gateway)
        self._daemon_killed = False
        daemon_addresses(self.daemon, said)

    def init(self, options: NodeOptions) -> None:
        """`sapo init`, with the ports that the daemon chose."""
        self.api, self.gateway = daemon_addresses(self.daemon)
        keystore.write_random_password(self._password)
        command = [*SAPO, "init", "--home", str(self.home), "--password-file", str(self._password), "--light-key"]
        command += ["--deployment", str(options.deployment), "--allow-private", "--offline"]
        for url in [options.rpc] if isinstance(options.rpc, str) else options.rpc:
            command += ["--rpc", url]
        policy = options.policies[self.number % len(options.policies)]
        command += ["--policy", str(policy.folder), "--base", policy.base, "--external", options.external]
        command += ["--lora-rank", str(policy.lora_rank)]
        command += ["--engine", "torch" if policy.base == "pocket" else options.engine]
        for other in options.policies:
            if other.base != policy.base:
                command += ["--base-folder", str(other.folder)]
        command += ["--ipfs-api", self.api, "--ipfs-gateway", self.gateway, "--ipfs-daemon", "external"]
        command += ["--poll-seconds", "0.2"]
        command += ["--i", str(options.own_groups), "--j", str(options.external_groups)]
        command += ["--seed", str(options.seed), "--threads", str(options.threads)]
        if options.last_round is not None:
            command += ["--set", f"sapo.last_round={options.last_round}"]
        if options.drand_relays:
            command += ["--set", f"chain.drand_relays={json.dumps(list(options.drand_relays))}"]
        made = subprocess.run(command, capture_output=True, text=True, check=False)
        if made.returncode != 0:
            raise DevnetError(f"sapo init failed for {self.name}: {made.stderr.strip()}")
        self.address = made.stdout.strip().lower()

    def take_key(self, of: "DevnetNode") -> None:
        """The same key as another node's, in this home: what an operator must not do."""
        for mine, theirs in ((self.home / KEYSTORE, of.home / KEYSTORE), (self._password, of._password)):
            mine.unlink()
            shutil.copy(theirs, mine)
        self.address = of.address

    def start(self, *more: str) -> None:
        """`sapo run`, with more options; also after it was killed."""
        if self._daemon_killed:
            self._daemon_again()
        home = ["--home", str(self.home), "--password-file", str(self._password)]
        command = [*SAPO, "run", *home, "--register", *more]
        if self.attack:
            command = [sys.executable, "-m", "sapo_devnet.adversaries", self.attack, *home]
        elif self._knows_formula:
            command = [sys.executable, "-m", "sapo_devnet.formula", *home]
        self.process = Process(self.name, command, self.home / "node.log", path=SCRIPTS if IS_CHECKOUT else None)
        self.starts += 1

    def status(self) -> dict[str, Any]:
        """What the process that runs now says; {} until it has said something."""
        status = read_status(self.home)
        return status if status and self.process and status["pid"] == self.process.pid else {}

    def rounds(self) -> list[dict[str, Any]]:
        return read_rounds(self.home)

    @property
    def alive(self) -> bool:
        return self.process is not None and self.process.exit_status() is None

    def ready(self) -> bool:
        return self.status().get("done_round") is not None

    def done(self, round_: int) -> bool:
        """Done with the round, or not there any more, or standing still."""
        if self.process is None or not self.alive or self.process.paused:
            return True
        return bool(self.status().get("done_round", -1) >= round_)

    def workers(self) -> list[Process]:
        return [self.process] if self.process else []

    def servers(self) -> list[Process]:
        return [] if self._daemon_killed else [self.daemon]

    def processes(self) -> list[Process]:
        return [*self.servers(), *self.workers()]


def daemon_addresses(daemon: Process, since: int = 0) -> tuple[str, str]:
    """API and gateway as the daemon says, after the first `since` bytes of its log. Raises DevnetError."""
    deadline = time.monotonic() + READY_SECONDS
    pattern = re.compile(r"api=http://127\.0\.0\.1:(\d+) gateway=http://127\.0\.0\.1:(\d+)")
    while time.monotonic() < deadline and daemon.exit_status() is None:
        if found := pattern.search(daemon.log.read_bytes()[since:].decode(errors="replace")):
            return f"/ip4/127.0.0.1/tcp/{found[1]}/http", f"/ip4/127.0.0.1/tcp/{found[2]}/http"
        time.sleep(0.05)
    raise DevnetError(f"{daemon.name} did not start; its log {daemon.end_of_log()}")
