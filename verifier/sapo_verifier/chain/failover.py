"""Several RPCs of one chain as one: asked is the first that is well, and who fails rests for a while.

An RPC is used only after it gave the id and the blocks of the deployment's chain (anchor.py), whenever the one that is
used changes. Now and then the others are asked how far they are, and one that lags is left. Requests that belong
together go to one RPC; where it fails in the middle, all of them go to the next.
"""

import logging
import random
import re
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from web3 import Web3
from web3.exceptions import BadResponseFormat
from web3.types import RPCEndpoint, RPCResponse

from sapo_verifier import net
from sapo_verifier.backoff import Backoff
from sapo_verifier.chain import rpc
from sapo_verifier.chain.anchor import Anchor
from sapo_verifier.chain.errors import (
    ChainMismatch,
    ChainUnavailable,
    Refused,
    RpcUrlError,
    explain_rpc_error,
    is_busy,
    is_passing,
    mask_url,
)
from sapo_verifier.trouble import Trouble

log = logging.getLogger(__name__)

LAG_BLOCKS = 3  # behind the best one, beyond which an RPC is left
LOOK_SECONDS = 15.0  # between two looks at all of them
LOOK_TIMEOUT = 5.0  # seconds for one answer to a look
REST_SECONDS = (1.0, 60.0)  # of one that failed: at first, and at most
STEADY_SECONDS = 60.0  # with the first one, until a trouble counts as over
_KEYS = (401, 403, 429)  # HTTP statuses that say nothing about how many logs were asked for
# What may be asked twice.
REPEATABLE = frozenset({*rpc.READS, "eth_gasPrice", "eth_sendRawTransaction"})

T = TypeVar("T")
_FAILURES = (net.NetError, BadResponseFormat, ChainMismatch, ChainUnavailable)


class _Member:
    """One of the RPCs, and how it fares."""

    def __init__(self, url: str, timeout: float, rests: Backoff) -> None:
        self.where = mask_url(url)
        self.provider = rpc.QuietProvider(url, timeout, tries=1)
        self.scout = rpc.QuietProvider(url, min(timeout, LOOK_TIMEOUT), tries=1)  # for looks
        self.rests = rests
        self.rested_at = 0.0  # until then it is asked only where nobody else answers
        self.fault = ""  # why it rests, in words that follow its name
        self.strange = ""  # that it is of another chain, in the words that were said
        self.strange_at = 0.0  # when it last was


def connect(
    urls: Sequence[str],
    anchor: Anchor,
    timeout: float,
    *,
    chance: Callable[[], float] = random.random,
    clock: Callable[[], float] = time.monotonic,
) -> Web3:
    """urls: two or more, in order of preference. timeout: seconds for one answer. chance: 0 … 1, for the rests.

    Raises RpcUrlError for what is no URL, and for none; sends nothing.
    """
    return rpc.web3_over(Failover(urls, anchor, timeout, chance, clock))


class Failover(rpc.Provider):
    """Not for several threads at once. Raises NoneAnswers where every RPC failed in one call, and ChainMismatch where
    all of them are of another chain."""

    def __init__(
        self,
        urls: Sequence[str],
        anchor: Anchor,
        timeout: float,
        chance: Callable[[], float],
        clock: Callable[[], float],
    ) -> None:
        if not urls:
            raise RpcUrlError("no RPC is named: give one URL at least")
        super().__init__()
        self._anchor = anchor
        self._clock = clock
        self._members = [_Member(u, timeout, Backoff(*REST_SECONDS, chance=chance, clock=clock)) for u in urls]
        self._current: _Member | None = None  # the one that was used last, and is of the right chain
        self._look_at = 0.0  # when the next look is due
        self._trouble = Trouble(log)  # of not using the first one
        self._troubled_at = 0.0

    @property
    def url(self) -> str:  # type: ignore[override]
        """Of the one that is asked now."""
        return (self._current or self._members[0]).provider.url

    def close(self) -> None:
        for member in self._members:
            member.provider.close()
            member.scout.close()

    def make_request(self, method: RPCEndpoint, params: Any) -> RPCResponse:
        if method == "eth_sendRawTransaction":
            return self._send(method, params)
        if method == "eth_getLogs":
            return self._logs(method, params)
        members = self._in_order()
        return self._ask(lambda one: one.make_request(method, params), members if method in REPEATABLE else members[:1])

    def ask(self, question: Callable[[rpc.QuietProvider], T]) -> T:
        """question: of requests that may be repeated."""
        return self._ask(question, self._in_order())

    # -- one call --

    def _ask(self, question: Callable[[rpc.QuietProvider], T], members: Iterable[_Member]) -> T:
        failed: list[tuple[_Member, Exception]] = []
        for member in members:
            try:
                if member is not self._current:
                    self._height(member.provider)
                answer = question(member.provider)
            except _FAILURES as error:
                failed.append((member, error))
                continue
            except Refused:  # an answer as well
                self._use(member, failed)
                raise
            self._use(member, failed)
            return answer
        # What nobody can answer, such as old state that nobody keeps, is the fault of none.
        for other, fault in failed:
            if not isinstance(fault, rpc.NotNow):
                self._rest(other, fault)
        raise _none_answers(failed)

    def _send(self, method: RPCEndpoint, params: Any) -> RPCResponse:
        """The signed bytes are the same wherever they are sent. A refusal in words is an answer; that the RPC is busy
        is one only where nobody takes them."""
        busy: list[RPCResponse] = []

        def send(one: rpc.QuietProvider) -> RPCResponse:
            answer = one.make_request(method, params)
            if "error" in answer and is_busy(dict(answer["error"])):
                busy.append(answer)
                raise rpc.NotNow(explain_rpc_error(dict(answer["error"])))
            return answer

        try:
            return self.ask(send)
        except rpc.NoneAnswersNow:
            if busy:
                return busy[0]
            raise

    def _logs(self, method: RPCEndpoint, params: Any) -> RPCResponse:
        """Errors mostly say that too many were asked for, which events.py sees to: of a single block they cannot."""
        single = params[0]["fromBlock"] == params[0]["toBlock"]

        def read(one: rpc.QuietProvider) -> RPCResponse | net.NetError:
            try:
                answer = one.make_request(method, params)
            except (rpc.BadStatus, net.TooLarge) as error:
                if single or (isinstance(error, rpc.BadStatus) and error.status in _KEYS):
                    raise
                return error
            if single and "error" in answer and is_passing(dict(answer["error"])):
                raise rpc.NotNow(explain_rpc_error(dict(answer["error"])))
            return answer

        found = self.ask(read)
        if isinstance(found, net.NetError):
            raise found
        return found

    # -- who is asked --

    def _in_order(self) -> list[_Member]:
        """Those that are awake, the one that is used before the others; then those that rest, which is better than
        nobody."""
        if self._clock() >= self._look_at:
            self._look()
        awake = self._awake()
        resting = [member for member in self._members if member not in awake]
        return sorted(awake, key=lambda member: member is not self._current) + resting

    def _awake(self) -> list[_Member]:
        now = self._clock()
        return [member for member in self._members if member.rested_at <= now]

    def _look(self) -> None:
        """Who answers, for which chain and how far; from here on the first one that is well is used."""
        awake = self._awake()
        heights: dict[_Member, int] = {}
        with ThreadPoolExecutor(max(1, len(awake))) as pool:
            for member, found in zip(awake, pool.map(self._seen, awake), strict=True):
                if isinstance(found, int):
                    heights[member] = found
                else:
                    self._rest(member, found)
        best = max(heights.values(), default=0)
        for member in list(heights):
            # The heights are not of one moment, and blocks can be fast: who seems to lag is asked again.
            if best - heights[member] > LAG_BLOCKS:
                again = self._seen(member)
                if not isinstance(again, int) or best - again > LAG_BLOCKS:
                    behind = ChainUnavailable(f"is more than {LAG_BLOCKS} blocks behind")
                    self._rest(member, behind if isinstance(again, int) else again)
                    del heights[member]
        self._look_at = self._clock() + LOOK_SECONDS
        if heights:
            before = self._current
            self._use(next(iter(heights)))
            if self._current is before:
                self._say()

    def _seen(self, member: _Member) -> int | Exception:
        try:
            return self._height(member.scout)
        except _FAILURES as error:
            return error

    def _height(self, one: rpc.QuietProvider) -> int:
        try:
            return self._anchor.height(one)
        except Refused as error:
            raise ChainUnavailable(str(error)) from None

    def _use(self, member: _Member, failed: Iterable[tuple[_Member, Exception]] = ()) -> None:
        """It answered, after others failed."""
        for other, error in failed:
            self._rest(other, error)
        member.rested_at, member.fault = self._clock(), ""
        if member.strange and self._clock() - member.strange_at > STEADY_SECONDS:
            member.strange = ""
        if member is not self._current:
            self._current = member
            self._say()

    def _rest(self, member: _Member, error: Exception) -> None:
        member.rested_at = self._clock() + member.rests.next()
        member.fault = _in_short(member, error)
        if isinstance(error, ChainMismatch):
            if member.strange != str(error):
                log.warning("an RPC is not used: %s", error)
            member.strange, member.strange_at = str(error), self._clock()
        if member is self._current:
            self._current = None

    def _say(self) -> None:
        """Once, now and then, and when it is over: that another than the first one is used."""
        first, now = self._members[0], self._clock()
        if self._current is first:
            if now - self._troubled_at >= STEADY_SECONDS:
                self._trouble.over(f"the chain's RPC at {first.where} is used again")
        elif self._current is not None:
            faults = [(m.where, m.fault) for m in self._members[: self._members.index(self._current)]]
            words = "; ".join(f"{where} {fault}" for where, fault in faults)
            kinds = [f"{where} {re.split('[:(]', fault)[0]}" for where, fault in faults]  # without the RPC's own words
            instead = f"{self._current.where} is asked instead"
            self._trouble.seen(f"of the chain's RPCs {words}; {instead}", "; ".join([*kinds, instead]))
            self._troubled_at = now


def _in_short(member: _Member, error: Exception) -> str:
    if isinstance(error, ChainMismatch):
        return "is of another chain, or not there yet"
    if isinstance(error, ChainUnavailable):
        return str(error).removeprefix(f"the chain's RPC at {member.where} ").partition(";")[0]
    return rpc.failure(error)[0]


def _none_answers(failed: Sequence[tuple[_Member, Exception]]) -> Exception:
    if all(isinstance(error, ChainMismatch) for _, error in failed):
        return failed[0][1]
    faults = "; ".join(f"{member.where} {_in_short(member, error)}" for member, error in failed)
    kind = rpc.NoneAnswersNow if any(isinstance(error, rpc.NotNow) for _, error in failed) else rpc.NoneAnswers
    return kind(f"none of the chain's RPCs answers: {faults}. Start one of them, or name others ([chain] rpc, --rpc)")
