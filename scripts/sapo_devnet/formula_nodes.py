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
from sapo_client.duties.ballots import BallotBox
from sapo_client.duties.registration import ensure_registered
from sapo_client.node.compose import Makers, Resources, compose
from sapo_client.state import home as layout
from sapo_client.state.report import StatusFile, read_rounds, read_status
from sapo_client.state.requests import RequestBook
from sapo_client.transactions.outbox import Outbox
from sapo_devnet.formula.batches import FormulaBatches, FormulaLearner
from sapo_devnet.formula.judging import FormulaModel
from sapo_devnet.formula.shared import Shared
from sapo_devnet.processes import Process
from sapo_verifier.bases import Tokenizer
from sapo_verifier.chain.reader import open_chain
from sapo_verifier.errors import SapoError
from sapo_verifier.ipfs import BlockStore, GatewayReader
from sapo_verifier.spec import BaseRule

POLL_SECONDS = 0.05
AUDIT_SECONDS = 60.0
STOP_SECONDS = 60.0
HISTORY_ROUNDS = 1000


class _Reading:
    """What an audit wants to know of the node's own policy: how it reads."""

    def __init__(self, base: BaseRule, tokenizer: Tokenizer) -> None:
        self.base = base
        self.tokenizer = tokenizer


class FormulaNode:
    """One node. Fund its address, then `start`; after `stop` it can be started again."""

    attack = None

    def __init__(self, name: str, home: Path, shared: Shared, rpc: str, *, slots: int = 1) -> None:
        """home: its own folder. slots: groups of a batch."""
        self.name = name
        self.home = home
        self.gateway = shared.gateway
        self.api = shared.api
        self.failure = ""  # why it ended by itself
        self.starts = 0
        self._shared = shared
        self._rpc = rpc
        self._slots = slots
        self._account = Account.create()
        self.address = str(self._account.address).lower()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        home.mkdir(parents=True)

    def start(self) -> None:
        """Registers where that is not done, and plays from the chain's round on."""
        self._stop = threading.Event()
        self.failure = ""
        self._thread = threading.Thread(target=self._run, args=(self._stop,), name=self.name, daemon=True)
        self._thread.start()
        self.starts += 1

    def ask_to_stop(self) -> None:
        """It ends with what it is doing."""
        self._stop.set()

    def stop(self) -> None:
        """Raises SapoError if it does not end."""
        self.ask_to_stop()
        if self._thread is not None:
            self._thread.join(STOP_SECONDS)
            if self._thread.is_alive():
                raise SapoError(f"{self.name} did not end in {STOP_SECONDS:.0f} s")

    @property
    def alive(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def status(self) -> dict[str, Any]:
        """What it says of itself; {} until it was started."""
        return (read_status(self.home) or {}) if self.starts else {}

    def rounds(self) -> list[dict[str, Any]]:
        return read_rounds(self.home)

    def ready(self) -> bool:
        """Raises SapoError where it ended before that."""
        if self.failure:
            raise SapoError(f"{self.name} has ended: {self.failure}")
        return self.status().get("done_round") is not None

    def done(self, round_: int) -> bool:
        """Done with the round, or not there any more."""
        return not self.alive or self.status().get("done_round", -1) >= round_

    def processes(self) -> list[Process]:
        """The daemon that it shares with others."""
        return [self._shared.daemon]

    def _run(self, stop: threading.Event) -> None:
        try:
            with ExitStack() as stack:
                resources = self._open(stop, stack)
                if not stop.is_set():
                    compose(resources, stop, self._makers()).run()
        except SapoError as error:
            self.failure = str(error)

    def _makers(self) -> Makers:
        base = self._shared.base

        def own(**parts: Any) -> FormulaBatches:
            kept = {name: parts[name] for name in ("reader", "outbox", "blocks", "worker", "spec", "node")}
            return FormulaBatches(**kept, base=base)

        return Makers(own=own, learner=lambda *_: FormulaLearner(base, self._slots))

    def _open(self, stop: threading.Event, stack: ExitStack) -> Resources:
        """Everything that only this thread uses."""
        shared, home = self._shared, self.home
        reader = stack.enter_context(open_chain(shared.deployment, self._rpc))
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
            ballots=ballots,
            config=nothing,
            seed=0,
            poll_seconds=POLL_SECONDS,
            patience_minutes=1.0,
            audit_seconds=AUDIT_SECONDS,
            last_round=None,
            history_rounds=HISTORY_ROUNDS,
        )
