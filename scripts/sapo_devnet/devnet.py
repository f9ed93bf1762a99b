"""`Devnet`: a network for somebody else's test, in two lines (docs/devnet.md)."""

import shutil
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self, TypeVar

from eth_account.signers.local import LocalAccount

from sapo_client.training.rules import DEFAULT_EXTERNAL
from sapo_devnet.adversaries.names import ATTACKS
from sapo_devnet.crew import Crew
from sapo_devnet.errors import DevnetError, DevnetUnable
from sapo_devnet.formula.policy import formula_spec
from sapo_devnet.keeper import Keeper, Pace, checked_pace
from sapo_devnet.keys import FUNDED, account
from sapo_devnet.network import END_SECONDS, Network, in_words
from sapo_devnet.nodes import Member, NodeOptions
from sapo_devnet.pocket import QUICK_STEPS, pocket_policy
from sapo_devnet.policies import DevnetPolicy
from sapo_devnet.summary import summary_of
from sapo_verifier.bases import base_in
from sapo_verifier.chain.deployment import Deployment
from sapo_verifier.chain.errors import ChainUnavailable
from sapo_verifier.chain.reader import ChainReader
from sapo_verifier.errors import SapoError, UsageError
from sapo_verifier.ipfs import parse_endpoint
from sapo_verifier.networks import pocket_spec
from sapo_verifier.schedule import FINAL_AFTER
from sapo_verifier.spec import Spec

NODES, GROUPS = 2, 2  # if nothing else is said
SECONDS = 120.0  # for whatever is waited for, if nothing else is said
ROUND_LIMIT = 300.0  # a round of pace "done" ends then, whoever is late
RESEND_SECONDS = 3.0  # that a round goes on after a reorganization: nodes see it, and send again
POLL_SECONDS = 0.05
QUICK_SECONDS = 0.02  # where formula nodes alone wait for blocks

Found = TypeVar("Found")


class Devnet:
    """A chain with the contracts, and nodes that play rounds on it, while a `with` block lasts.

    What fails is a DevnetError, which names the logs. Its methods may be called from any thread.
    """

    def __init__(
        self,
        *,
        nodes: int | None = None,
        formula: int = 0,
        rounds: int | None = None,
        pace: Pace = "done",
        policy: Path | str | None = None,
        folder: Path | str | None = None,
        own_groups: int | None = None,
        external_groups: int = GROUPS,
        attacks: Sequence[str] = (),
        spec: Spec | None = None,
        seed: int = 0,
        port: int = 0,
        beacon: Literal["blockhash", "drand"] = "blockhash",
    ) -> None:
        """nodes: with a model; None: two, or none beside formula nodes. formula: so many without one, and faster; their
        batches are valid in all but the policy. rounds: the last round in which nodes publish; None: no end.

        pace: "done" ends a round when every node is done with it (with `rounds` until the last one is final), "hand"
        when `next_round` is called, a number after so many seconds. policy: a model's folder; None: a quick pocket
        policy, built once, or none if all are formula nodes. folder: for logs and homes, made if need be; None: a
        temporary one, which stays where something failed. own_groups: of each batch; None: 2, among formula nodes
        alone 1. attacks: one more node for each. spec: the rules; None: the devnet's own for the policy. port: of the
        chain; 0: any free one. beacon: "drand" for one that waits for a drand of the devnet's own, by the chain's time.
        Raises UsageError for options that cannot be.
        """
        if unknown := sorted(set(attacks) - ATTACKS.keys()):
            raise UsageError(f"no such attack: {', '.join(unknown)}; there are {', '.join(sorted(ATTACKS))}")
        nodes = (0 if formula else NODES) if nodes is None else nodes
        if min(nodes, formula) < 0 or (rounds is not None and rounds < 1):
            given = f"nodes={nodes}, formula={formula}, rounds={rounds}"
            raise UsageError(f"{given}: a devnet has no negative nodes, and a round at least")
        self._nodes, self._formula, self._rounds, self._pace = nodes, formula, rounds, checked_pace(pace)
        self._all_formula = formula > 0 and nodes == 0 and not attacks and policy is None  # and no model
        self._policy = None if policy is None else Path(policy).resolve()
        self._kept = folder is not None
        self._folder = None if folder is None else Path(folder).resolve()
        self._groups = (1 if self._all_formula else GROUPS) if own_groups is None else own_groups, external_groups
        self._attacks, self._spec, self._seed, self._port = list(attacks), spec, seed, port
        self._beacon = beacon
        self._network: Network | None = None
        self._keeper: Keeper | None = None
        self._crew: Crew | None = None
        self._reader: ChainReader | None = None
        self._failed = False

    # -- from start to stop --

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        failure: DevnetError | None = None
        try:
            if self._keeper is not None and self._network is not None:
                self._keeper.refuse_failed()
                # What the keeper has not seen yet; and a connection ends before what served it.
                self._network.refuse_dead(END_SECONDS if isinstance(error, ChainUnavailable | OSError) else 0.0)
        except DevnetError as found:
            failure = found
        self._failed = self._failed or failure is not None or error is not None
        self.stop()
        if error is None and failure is not None:
            raise failure
        if error is not None:
            error.add_note(f"The devnet's logs are in {self._folder}")
            if failure not in (None, error):
                error.add_note(f"Before that: {failure}")

    def start(self) -> None:
        """Until round 0 has begun. What was started is stopped again where this fails."""
        if self._network is not None:
            raise UsageError("this devnet was started already; make another one")
        try:
            policy = self._policy
            if policy is None and not self._all_formula:
                policy = pocket_policy(steps=QUICK_STEPS)
            spec = self._spec or (formula_spec() if policy is None else pocket_spec(policy))
            policies = [] if policy is None else [DevnetPolicy(base_in(spec, policy, None).id, policy, 0)]
            if self._folder is None:
                self._folder = Path(tempfile.mkdtemp(prefix="sapo-devnet-"))
            self._folder.mkdir(parents=True, exist_ok=True)
            self._start(self._folder, spec, policies)
        except BaseException as error:
            self._failed = True
            self.stop()
            if isinstance(error, ModuleNotFoundError):
                words = f"this installation has no {error.name}, and a devnet needs it"
                raise DevnetUnable(f"{words}: `pip install 'sapo-network[devnet]'`") from error
            if isinstance(error, SapoError | OSError) and not isinstance(error, UsageError):
                raise in_words(error, self._folder or Path(tempfile.gettempdir())) from error
            raise

    def _start(self, folder: Path, spec: Spec, policies: list[DevnetPolicy]) -> None:
        total = self._nodes + self._formula + len(self._attacks)
        self._network = network = Network(
            folder, spec, room=64 + 8 * (total + 8), round_limit=ROUND_LIMIT, port=self._port, beacon=self._beacon
        )
        self._reader = ChainReader(network.chain.url, network.deployment)
        options = NodeOptions(
            deployment=network.deployment_file,
            rpc=network.chain.url,
            policies=policies,
            own_groups=self._groups[0],
            external_groups=self._groups[1],
            external=DEFAULT_EXTERNAL,
            seed=self._seed,
            threads=1,
            engine="torch",
            last_round=self._rounds,
            drand_relays=network.relays,
        )
        self._crew = Crew(network, options)
        self._crew.start(self._nodes, self._attacks, self._formula)
        last = None if self._rounds is None else self._rounds + FINAL_AFTER
        self._keeper = Keeper(network, self._pace, last, POLL_SECONDS if self._nodes else QUICK_SECONDS)
        self._keeper.start()

    def stop(self) -> None:
        """Everything that was started; again does no harm. A temporary folder goes, unless something failed."""
        if self._keeper is not None:
            self._keeper.stop()
            self._keeper = None
        if self._reader is not None:
            self._reader.close()
        if self._network is not None:
            self._network.stop()
        if self._crew is not None:
            self._crew.close()
        if not (self._kept or self._failed) and self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)

    # -- what is there --

    @property
    def folder(self) -> Path:
        """Logs and homes."""
        return self._net.folder

    @property
    def rpc(self) -> str:
        """The chain's URL. Whatever is sent there is mined within a tenth of a second."""
        return self._net.chain.url

    @property
    def deployment(self) -> Deployment:
        return self._net.deployment

    @property
    def deployment_file(self) -> Path:
        return self._net.deployment_file

    @property
    def policy(self) -> Path | None:
        """The folder of the model that the nodes train; None where all are formula nodes."""
        assert self._crew is not None or self._net
        return self._crew.model  # type: ignore[union-attr]

    @property
    def reader(self) -> ChainReader:
        """The auditors' library's view of the chain (docs/auditors.md)."""
        assert self._reader is not None or self._net
        return self._reader  # type: ignore[return-value]

    @property
    def accounts(self) -> list[LocalAccount]:
        """Nine keys with 10,000 coins each: the tests' own, nothing else uses them. Everybody knows them."""
        return [account(i) for i in range(1, FUNDED)]

    @property
    def nodes(self) -> list[Member]:
        """In order of joining, formula nodes last at first: name, address, home, gateway (a multiaddr)."""
        return list(self._net.nodes)

    @property
    def gateways(self) -> list[str]:
        """URLs: every node's blocks are at …/ipfs/<cid>?format=raw."""
        found = [parse_endpoint(node.gateway, allow_private=True) for node in self._net.nodes]
        return [f"{each.scheme}://{each.host}:{each.port}" for each in found]

    @property
    def round(self) -> int:
        with self._held.held():
            return self._net.clock.round()

    def summary(self) -> dict[str, Any]:
        """Plain data: the round, every node with its round reports, and every batch on chain."""
        with self._held.held():
            return summary_of(self._net, self.reader)

    def logs(self) -> str:
        """The ends of all logs, for a person to read."""
        return self._net.logs()

    # -- time --

    def next_round(self, *, wait: bool = True, seconds: float = SECONDS) -> int:
        """The number of the next round, once it has begun.

        With pace "hand", it begins when every node is done with this one; wait=False: at once, with any pace, whoever
        is late.
        """
        now = self.round
        if wait and self._pace != "hand":
            return self.until_round(now + 1, seconds)
        if wait:
            self._wait(lambda: self._net.all_done(now), seconds, lambda: self._late(now))
        with self._held.held():
            if self._net.clock.round() == now:
                self._net.clock.begin(now + 1)
            return self._net.clock.round()

    def until(self, true: Callable[[], Found], seconds: float = SECONDS, *, what: str = "what was waited for") -> Found:
        """What `true()` gives, once that counts as true; the network plays on meanwhile. Raises DevnetError if late."""
        return self._wait(true, seconds, lambda: what)

    def until_round(self, round_: int, seconds: float = SECONDS) -> int:
        """Until that round has begun; with pace "hand" by ending those before it. seconds: for each of them."""
        while (now := self.round) < round_:
            if self._pace == "hand":
                self.next_round(seconds=seconds)
                continue
            if self._pace == "done" and self._rounds is not None and now >= self._rounds + FINAL_AFTER:
                raise UsageError(
                    f"round {round_} never begins: with rounds={self._rounds} and pace 'done' the last one is "
                    f"{self._rounds + FINAL_AFTER}; give more rounds, or another pace"
                )
            self._wait(lambda now=now: self.round > now, seconds, lambda now=now: self._late(now))  # type: ignore[misc]
        return now

    def until_final(self, round_: int, seconds: float = SECONDS) -> int:
        """Until nothing of that round changes any more: six rounds later. seconds: for each of them."""
        return self.until_round(round_ + FINAL_AFTER, seconds)

    # -- what befalls it --

    def fund(self, address: str) -> None:
        """100 coins, instead of what it has: enough for a node's bond and gas."""
        with self._held.held():
            self._net.chain.fund(address)

    def reorganize(self, depth: int) -> None:
        """The last `depth` blocks are replaced by empty ones; nobody has their transactions any more."""
        with self._held.held():
            self._net.chain.reorganize(depth)
            self._net.clock.hold(RESEND_SECONDS)

    def inject(self, attack: str, seconds: float = SECONDS) -> Member:
        """One more node, which attacks; once it is registered. Its names are those of `attacks`. It needs a model."""
        if attack not in ATTACKS:
            raise UsageError(f"no such attack: {attack}; there are {', '.join(sorted(ATTACKS))}")
        return self._join(attack, seconds)

    def add_node(self, seconds: float = SECONDS) -> Member:
        """One more honest node, once it is registered: a formula node where nobody has a model."""
        return self._join(None, seconds)

    def pause_node(self, which: int | str) -> None:
        """Its process stands still (SIGSTOP); its IPFS daemon serves on, and nobody waits for it."""
        self._node(which).pause()

    def resume_node(self, which: int | str) -> None:
        self._node(which).resume()

    def kill_node(self, which: int | str, *, with_daemon: bool = False) -> None:
        """kill -9, of its IPFS daemon too if asked; a formula node, a thread, ends in order. It stays away until
        `start_node`."""
        node = self._node(which)
        with self._held.held():
            node.kill(with_daemon=with_daemon)

    def start_node(self, which: int | str, seconds: float = SECONDS) -> None:
        """One that was killed, on its own home; until it plays again."""
        node = self._node(which)
        if node.alive:
            raise UsageError(f"{node.name} runs already")
        with self._held.held():
            node.start()
        self._wait(node.ready, seconds, lambda: f"{node.name} is ready")

    # -- inside --

    @property
    def _net(self) -> Network:
        if self._network is None:
            raise UsageError("this devnet does not run; use it inside its `with` block")
        return self._network

    @property
    def _held(self) -> Keeper:
        if self._keeper is None:
            raise UsageError("this devnet does not run; use it inside its `with` block")
        return self._keeper

    def _join(self, attack: str | None, seconds: float) -> Member:
        with self._held.told():
            assert self._crew is not None, "the keeper is made after it"
            node = self._crew.another(attack)
        with self._held.held():
            self._net.chain.fund(node.address)
            node.start()
            self._net.nodes.append(node)
        self._wait(node.ready, seconds, lambda: f"{node.name} is ready")
        return node

    def _node(self, which: int | str) -> Member:
        found = [node for i, node in enumerate(self.nodes) if which in (i, node.name)]
        if not found:
            raise UsageError(f"there is no node {which!r}; there are {', '.join(node.name for node in self.nodes)}")
        return found[0]

    def _late(self, now: int) -> str:
        late = [node.name for node in self._net.nodes if not node.done(now)]
        return f"the end of round {now}" + (f"; {', '.join(late)} not done with it" if late else "")

    def _wait(self, true: Callable[[], Found], seconds: float, what: Callable[[], str]) -> Found:
        deadline = time.monotonic() + seconds
        while not (found := self._asked(true)):
            self._held.refuse_failed()
            if time.monotonic() > deadline:
                raise DevnetError(f"after {seconds:.0f} s still not there: {what()}; the logs are in {self.folder}")
            time.sleep(POLL_SECONDS)
        return found

    def _asked(self, true: Callable[[], Found]) -> Found:
        with self._net.told():
            return true()
