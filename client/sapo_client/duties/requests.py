"""What an operator asked for, done by whoever owns the key: the running node, or a command while none runs.

One request after the other, through the outbox: the next is taken when the one before it is settled. A request's name
in the outbox is stored with it, so one that was put and not noted is put again, which does nothing.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass

from sapo_client.duties import steps
from sapo_client.duties.leaving import withdrawal
from sapo_client.state.requests import ASKED, DONE, PAUSED, PUT, REFUSED, Pause, Request, RequestBook
from sapo_client.transactions.outbox import Outbox
from sapo_verifier.chain.errors import ChainUnavailable
from sapo_verifier.chain.reader import ChainReader, NodeInfo, NodeState
from sapo_verifier.errors import SapoError

log = logging.getLogger(__name__)


def _ignore(_: str) -> None:
    """A command serves no blocks."""


@dataclass
class Requests:
    """Of one node. adopt(endpoint): the node is to serve there from now on."""

    reader: ChainReader
    outbox: Outbox
    node: str
    book: RequestBook
    adopt: Callable[[str], None] = _ignore
    _told: Pause | None = None
    _exit_told: bool = False

    def go_on(self) -> None:
        """One poll: puts what is next, and notes what became of it. Bounded. Raises ChainUnavailable."""
        self._tell_pause()
        for request in self.book.open():
            if not self._advance(request):
                return

    def may_promise(self, round_: int) -> bool:
        """Whether something new may be promised in a round: no pause, and no exit that is asked for."""
        pause = self.book.paused()
        paused = pause is not None and pause.covers(round_)
        return not paused and all(request.kind != steps.EXIT for request in self.book.open())

    def why_no_batch(self, round_: int) -> str:
        """Why a round for which nothing was promised has no batch, where a pause is the reason; else empty."""
        pause = self.book.paused()
        if pause is None or not (pause.covers(round_) or pause.covers(round_ - 1)):
            return ""
        return f"{PAUSED} until round {pause.until}"

    def tell_exit(self, info: NodeInfo) -> None:
        """When an exiting node can withdraw: once in a run, as it takes its time. info: of the node, just read."""
        if info.state is NodeState.EXITING and not self._exit_told:
            self._exit_told = True
            log.info("%s", withdrawal(self.reader, info.exit_block))

    def _advance(self, request: Request) -> bool:
        """Whether it is settled now."""
        key, call = request.key, request.call
        if request.state == ASKED:
            if request.kind == steps.SET_ENDPOINT:
                self.adopt(request.argument)
            if call is None or steps.is_done(self.reader.node_of(self.node), request.kind, request.argument):
                return self._settle(request, DONE, "nothing had to be sent")
        if self.outbox.state(key).status == "none":
            assert call is not None
            sender, value = self.outbox.address, request.value
            if words := steps.refusal(self.reader, self.node, sender, request.kind, call, value):
                return self._settle(request, REFUSED, words)
            self.outbox.put(key, call, value=value)
        elif request.state == ASKED and self.outbox.state(key).status in ("failed", "expired"):
            try:
                self.outbox.retry(key)
            except SapoError as error:
                return self._settle(request, REFUSED, str(error))
        return self._look(request)

    def _look(self, request: Request) -> bool:
        state = self.outbox.state(request.key)
        if state.status == "mined":
            return self._settle(request, DONE, self._outcome(request), state.hash)
        if state.status in ("failed", "expired"):
            return self._settle(request, REFUSED, state.reason, state.hash)
        self.book.note(request, PUT, state.reason)
        return False

    def _settle(self, request: Request, state: str, words: str, hash_: bytes | None = None) -> bool:
        told = f"{request.title}: {state}" + (f": {words}" if words else "")
        log.log(logging.INFO if state == DONE else logging.WARNING, "%s", told)
        self.book.note(request, state, words, hash_)
        return True

    def _outcome(self, request: Request) -> str:
        if request.kind != steps.EXIT:
            return ""
        info = self.reader.node_of(self.node)
        # A reader that lags, or a reorganization: the chain says it again where it is asked.
        return withdrawal(self.reader, info.exit_block) if info.state is NodeState.EXITING else ""

    def _tell_pause(self) -> None:
        pause = self.book.paused()
        if pause == self._told:
            return
        self._told = pause
        try:
            current = self.reader.current_round()
        except ChainUnavailable:
            self._told = None
            raise
        if pause is not None and pause.covers(current):
            log.info("paused until round %d: nothing new is promised, and what is owed is done", pause.until)
        elif pause is not None:
            log.info("no pause: promises are made")
