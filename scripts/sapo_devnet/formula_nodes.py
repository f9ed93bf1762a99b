"""Nodes without a model, for tests that need a chain and blocks only: many in one process, a thread each.

A formula node is the client's own node (compose.py) with three parts exchanged: what makes its batch, what it commits,
and what answers the `policy` check. It registers, commits, publishes, votes, settles and claims as every node does. Its
batches pass every check but `policy`, which others can only answer if they know the formula (formula/judging.py).
"""

import threading
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from eth_account import Account

from sapo_client.batches.pins import PinBook
from sapo_client.batches.seeds import Seeds
from sapo_client.duties.ballots import BallotBox
from sapo_client.duties.registration import ensure_registered
from sapo_client.node.compose import Makers, Resources, compose
from sapo_client.state import home as layout
from sapo_client.state.report import STATUS_FILE, StatusFile, read_rounds, read_status
from sapo_client.state.requests import RequestBook
from sapo_client.transactions.outbox import Outbox
from sapo_devnet.errors import DevnetError
from sapo_devnet.formula.batches import FormulaBatches, FormulaLearner
from sapo_devnet.formula.judging import FormulaModel
from sapo_devnet.formula.shared import Shared
from sapo_devnet.nodes import NodeOptions
from sapo_devnet.processes import Process, stop_all
from sapo_devnet.threads import Thread
from sapo_verifier.bases import Tokenizer
from sapo_verifier.chain.reader import open_chain
from sapo_verifier.errors import UsageError
from sapo_verifier.ipfs import BlockStore, GatewayReader
from sapo_verifier.spec import BaseRule

POLL_SECONDS = 0.05
AUDIT_SECONDS = 60.0
HISTORY_ROUNDS = 1000


class _Reading:
    """What an audit wants to know of the node's own policy: how it reads."""

    def __init__(self, base: BaseRule, tokenizer: Tokenizer) -> None:
        self.base = base
        self.tokenizer = tokenizer


class FormulaNode:
    """One node, a thread of this program, beside others with whom it shares a daemon (a nodes.Member)."""

    def __init__(self, name: str, home: Path, shared: Shared) -> None:
        """home: its own folder."""
        self.name = name
        self.attack: str | None = None
        self.home = home
        self.gateway = shared.gateway
        self.starts = 0
        self._shared = shared
        self._options: NodeOptions | None = None
        self._account = Account.create()
        self.address = str(self._account.address).lower()
        self._thread: Thread | None = None
        home.mkdir(parents=True)

    def init(self, options: NodeOptions) -> None:
        """What it takes of the options: the chain's URL, groups of a batch, the last round to publish in."""
        if options.own_groups > (most := self._shared.deployment.spec.max_slots):
            raise UsageError(f"a batch of this network has {most} groups at most, not {options.own_groups}")
        self._options = options

    def start(self) -> None:
        """Registers where that is not done, and plays from the chain's round on."""
        (self.home / STATUS_FILE).unlink(missing_ok=True)  # what it said when it ran before
        self._thread = Thread(self.name, self._run)
        self.starts += 1

    def kill(self, *, with_daemon: bool) -> None:
        """It ends in order, with what it is doing: a thread cannot be killed."""
        if with_daemon:
            raise UsageError(f"{self.name} is a formula node; the others need its daemon, too: leave out with_daemon")
        if self._thread is not None and (late := stop_all([self._thread])):
            raise DevnetError(f"{late[0]} did not end in time")

    def pause(self) -> None:
        raise UsageError(f"{self.name} is a formula node, a thread, which cannot stand still; a node with a model can")

    def resume(self) -> None:
        """It never stands still."""

    @property
    def alive(self) -> bool:
        return self._thread is not None and self._thread.alive

    def status(self) -> dict[str, Any]:
        """What it says of itself; {} until it has said something."""
        return read_status(self.home) or {}

    def rounds(self) -> list[dict[str, Any]]:
        return read_rounds(self.home)

    def ready(self) -> bool:
        return self.status().get("done_round") is not None

    def done(self, round_: int) -> bool:
        """Done with the round, or not there any more."""
        return not self.alive or self.status().get("done_round", -1) >= round_

    def workers(self) -> list[Thread]:
        return [self._thread] if self._thread else []

    def servers(self) -> list[Process]:
        """The daemon that it shares with others."""
        return [self._shared.daemon]

    def _run(self, stop: threading.Event) -> None:
        with ExitStack() as stack:
            resources = self._open(stop, stack)
            if not stop.is_set():
                compose(resources, stop, self._makers()).run()

    @property
    def _chosen(self) -> NodeOptions:
        assert self._options is not None, "init comes first"
        return self._options

    def _makers(self) -> Makers:
        base, slots = self._shared.base, self._chosen.own_groups

        def own(**parts: Any) -> FormulaBatches:
            kept = {name: parts[name] for name in ("reader", "outbox", "blocks", "worker", "spec", "node")}
            return FormulaBatches(**kept, base=base)

        return Makers(own=own, learner=lambda *_: FormulaLearner(base, slots))

    def _open(self, stop: threading.Event, stack: ExitStack) -> Resources:
        """Everything that only this thread uses."""
        shared, home = self._shared, self.home
        reader = stack.enter_context(open_chain(shared.deployment, self._chosen.rpc))
        store = stack.enter_context(BlockStore(shared.api, allow_private=True))
        peers = stack.enter_context(GatewayReader(allow_private=True))
        outbox = Outbox(home / layout.OUTBOX, reader, self._account)
        stack.callback(outbox.close)
        pins = PinBook(home / layout.PINS)
        stack.callback(pins.close)
        requests = RequestBook(home / layout.REQUESTS)
        stack.callback(requests.close)
        ballots = BallotBox(home / layout.BALLOTS)
        stack.callback(ballots.close)
        ensure_registered(reader, outbox, self.address, self.address, shared.gateway, register=True, stop=stop)
        nothing: Any = None
        reading: Any = _Reading(shared.base, shared.bases.tokenizer(shared.base))
        return Resources(
            home=home,
            node=self.address,
            status=StatusFile(home),
            endpoint=shared.gateway,
            reader=reader,
            outbox=outbox,
            store=store,
            peers=peers,
            worker=shared.worker,
            policy=reading,
            engine=nothing,
            bases=shared.bases,
            model=FormulaModel(),
            pins=pins,
            requests=requests,
            seeds=Seeds.of(self._account, self.address, reader, store),
            ballots=ballots,
            config=nothing,
            seed=0,
            poll_seconds=POLL_SECONDS,
            patience_minutes=1.0,
            daemon_patience_minutes=1.0,
            audit_seconds=AUDIT_SECONDS,
            last_round=self._chosen.last_round,
            history_rounds=HISTORY_ROUNDS,
            drand_relays=self._chosen.drand_relays,
        )
