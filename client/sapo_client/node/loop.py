"""The node's loop: what happens in a round, in order, and how a node that was stopped anywhere goes on.

Everything is dated by the chain's round, read anew each time; a node has no count of its own. What a round has done is
read back from the chain, the outbox and the last checkpoint, so that playing a round twice does nothing twice.
"""

import logging
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from sapo_client.batches.auditing import AuditCounts, Auditor
from sapo_client.batches.kept import KeptBlocks
from sapo_client.batches.pool import Pool
from sapo_client.batches.seeds import Seeds
from sapo_client.batches.submitting import OwnRound
from sapo_client.duties.beacon import Capture
from sapo_client.duties.duties import Duties
from sapo_client.duties.elsewhere import KeyWatch, SecondProgram
from sapo_client.duties.promises import Promise, Promises
from sapo_client.duties.registration import why_silent
from sapo_client.duties.requests import Requests
from sapo_client.node.daemon import PHASE as WAITING_FOR_DAEMON
from sapo_client.node.history import History
from sapo_client.node.patience import CHAIN, DAEMON, Absence
from sapo_client.node.reporting import Stages, report_of, why_not_on_chain
from sapo_client.node.roles import Learns, Publisher
from sapo_client.node.round_log import RoundLog
from sapo_client.state.logs import fields
from sapo_client.state.report import RoundReport, SayOnce, StatusFile
from sapo_client.training.groups import Group
from sapo_client.transactions.outbox import Outbox
from sapo_client.transactions.turns import Turns, put_anew
from sapo_verifier.audit import Cost
from sapo_verifier.chain.contracts import Call
from sapo_verifier.chain.errors import ChainMismatch, ChainUnavailable
from sapo_verifier.chain.reader import ChainReader, NodeInfo, NodeState
from sapo_verifier.errors import SapoError
from sapo_verifier.ipfs import DaemonAway
from sapo_verifier.schedule import FINAL_AFTER

log = logging.getLogger(__name__)

NO_BEACON = "the round has no beacon: nobody captured it in its first half"


class RoundOver(Exception):  # noqa: N818 - control flow, never shown
    """The chain has moved on to another round while this one was being played."""


class BeaconChanged(Exception):  # noqa: N818 - control flow, never shown
    """A reorganization gave the round another beacon: what was generated for the first one is not its batch."""


class Stopped(Exception):  # noqa: N818 - control flow, never shown
    """The node was asked to stop."""


@dataclass(frozen=True)
class Parts:
    """What a node uses; compose.py makes them."""

    home: Path
    node: str  # the owner's address
    reader: ChainReader
    outbox: Outbox
    turns: Turns
    capture: Capture
    blocks: KeptBlocks
    auditor: Auditor
    pool: Pool
    own: Publisher
    learner: Learns
    seeds: Seeds
    promises: Promises
    history: History
    duties: Duties | None  # None: it only publishes
    elsewhere: KeyWatch
    requests: Requests
    is_over: Callable[[], bool]  # it has withdrawn, and nothing is left to do
    say: SayOnce
    status: StatusFile
    poll_seconds: float
    patience_minutes: float  # without a chain, until the node gives up; 0: never
    daemon_patience_minutes: float  # without the IPFS daemon, in the same way
    last_round: int | None  # to publish in; afterwards the node only does what it owes. None: no end


class Node:
    """One node. `run` returns when `stop` is set; everything it has to remember is on disk by then."""

    def __init__(self, parts: Parts, stop: threading.Event) -> None:
        self._parts = parts
        self._stop = stop
        self._reader = parts.reader
        self._spec = parts.reader.deployment.spec
        self._status = parts.status
        self._rounds = RoundLog(parts.home)
        self._played: bytes | None = None  # the beacon of the round that is or was played last, once it is known
        self._done = -1  # the last round that was played to its end
        self._waited = 0.0  # seconds between rounds
        self._chain = Absence(log, parts.patience_minutes, parts.poll_seconds, CHAIN)
        self._daemon = Absence(log, parts.daemon_patience_minutes, parts.poll_seconds, DAEMON)
        self._bytes = (0, 0)  # up and down, when last counted
        self._cost = Cost()  # of running policies, in the same way

    # -- the loop --

    def run(self) -> None:
        """Play rounds until asked to stop. Raises ChainUnavailable or DaemonAway when the patience with what is absent
        ends, and SecondProgram."""
        self._resume()
        troubles = 0
        while not self._stop.is_set():
            round_ = -1
            try:
                round_ = self._reader.current_round()
                self._chain.answered()
                if round_ > self._done:
                    self._rounds.begins(round_)
                    self._play(round_)
                    self._daemon.over()
                    self._done, troubles = round_, 0
                    self._status.update(done_round=round_, phase="waiting for the next round")
                    if self._parts.is_over():
                        log.warning("the bond is withdrawn, and nothing is left to do or to claim: the node ends")
                        break
                else:
                    self._wait_between_rounds(round_)
                self._chain.over()
            except RoundOver as over:
                log.warning("round %d was not finished: %s", round_, over)
                self._rounds.because(round_, f"the round ended before its beacon was captured: {over}")
            except BeaconChanged:
                log.warning("round %d has another beacon after a reorganization; it is played again", round_)
                self._done = min(self._done, round_ - 1)
                self._rounds.anew(round_)
            except Stopped:
                break
            except SecondProgram as error:
                self._status.update(phase="stopped", trouble=str(error))
                raise
            except ChainMismatch as error:
                # For ever, unless the RPC's address leads to another chain for a while: said once, then waited.
                if self._status.get("trouble") != str(error):
                    log.error("%s", error)
                self._chain_is_away(error)
                self._stop.wait(self._parts.poll_seconds)
            except ChainUnavailable as error:
                self._chain_is_away(error)
                self._stop.wait(self._chain.seen(error))
            except DaemonAway as error:
                self._status.update(phase=WAITING_FOR_DAEMON, trouble=str(error))
                self._rounds.because(round_, f"the IPFS daemon was away: {error}")
                self._stop.wait(self._daemon.seen(error))
            except SapoError as error:
                troubles += 1
                self._status.failed(error)
                self._status.update(trouble=str(error))
                log.error("round %d: %s", round_, error)
                self._rounds.because(round_, str(error))
                if troubles == 3:  # the same again: leave this round, the next may be better
                    if round_ >= 0:
                        self._rounds.report(RoundReport(round_, skipped=f"given up after three tries: {error}"))
                    self._done, troubles = round_, 0
                    self._status.update(done_round=round_, phase="waiting for the next round")
                self._stop.wait(self._parts.poll_seconds)
        self._status.update(phase="stopped")

    def _play(self, round_: int) -> None:
        """One round. Each step finds out by itself what an earlier run has done already."""
        parts, stages = self._parts, Stages(waiting=self._waited)
        self._waited, self._played = 0.0, None
        parts.learner.roll_back()
        if parts.duties is not None:
            parts.duties.begin()
        self._status.update(round=round_, phase="waiting for the beacon", trouble="", **self._pace())
        with stages.timed("waiting"):
            beacon = self._played = self._beacon(round_)
        info = self._standing(round_)
        if words := parts.blocks.look_after(round_):
            parts.say(words)
        with stages.timed("generating"):
            self._status.update(phase="generating")
            own = self._publish(round_, beacon, info)
        with stages.timed("auditing"):
            offered, counts = self._audit(round_)
            counts += self._vote(round_)
        if own.groups and parts.learner.trained < round_:
            with stages.timed("training"):
                self._status.update(phase="training")
                parts.learner.train(round_, own.groups, offered)
        self._commit(round_, info)
        self._status.update(phase="waiting for its transactions")
        with stages.timed("waiting"):
            self._wait_for_transactions(round_)
        parts.blocks.drop_old(round_)
        self._report(round_, beacon, own, counts, stages)
        parts.history.forget(round_)

    def _report(self, round_: int, beacon: bytes | None, own: OwnRound, audited: AuditCounts, stages: Stages) -> None:
        parts, skipped = self._parts, ""
        if beacon is not None and own.completions and self._reader.batch_of(parts.node, round_) is None:
            skipped = why_not_on_chain(parts.outbox.state(parts.own.key(round_, beacon)))
        before, self._bytes = self._bytes, parts.blocks.traffic()
        spent, self._cost = self._cost, parts.auditor.cost()
        report = report_of(
            round_,
            own,
            learned=parts.learner.learned if parts.learner.trained == round_ else {},
            seconds=stages.seconds,
            audited=audited,
            traffic=(self._bytes[0] - before[0], self._bytes[1] - before[1]),
            cost=self._cost - spent,
            skipped=skipped,
        )
        self._rounds.report(report)
        log.info(
            "round=%d reward=%d/%d own_with_advantage=%d/%d external_used=%d external_missing=%d repaired=%d/%d "
            "skipped=%r",
            *(round_, report.reward, report.completions, report.own_with_advantage, report.own_groups),
            *(report.external_used, report.external_missing, report.repaired, report.positions, report.skipped),
            extra=fields(**report.told()),
        )

    # -- its steps --

    def _resume(self) -> None:
        self._parts.learner.resume()
        self._parts.history.resume()
        with suppress(ChainUnavailable):  # which the loop waits for
            if words := self._parts.capture.why_too_short():
                self._parts.say(words)
        with suppress(DaemonAway):  # the first round waits for it
            self._bytes = self._parts.blocks.traffic()
        self._status.update(node=self._parts.node, phase="starting", round=-1, done_round=-1)

    def _pace(self) -> dict[str, float]:
        """How long a round takes on this chain, for `sapo status`; {} while no two blocks tell."""
        blocks = self._spec.chain.round_blocks
        seconds = self._reader.seconds_per_block(blocks)
        return {} if seconds is None else {"round_seconds": seconds * blocks}

    def _beacon(self, round_: int) -> bytes | None:
        """The round's beacon, captured by this node when it is its turn; None where it never will be: what is owed in
        the round is done all the same."""
        while (beacon := self._reader.beacon(round_)) is None and self._parts.capture.step(round_):
            self._step(round_)
        return beacon

    def _standing(self, round_: int) -> NodeInfo:
        """What the chain says of this node; why it can promise nothing, and what seems to be another program's
        doing, is said once."""
        info = self._reader.node_of(self._parts.node)
        if words := why_silent(info, int(self._spec.chain.bond, 16)):
            self._parts.say(words)
        self._parts.requests.tell_exit(info)
        if words := self._parts.elsewhere.look(round_, info):
            self._status.update(trouble=words)
        return info

    def _publish(self, round_: int, beacon: bytes | None, info: NodeInfo) -> OwnRound:
        if beacon is None:
            return OwnRound([], skipped=NO_BEACON)
        if info.state in (NodeState.REGISTERED, NodeState.EXITING):
            own = self._parts.own.publish(round_, beacon, self._parts.learner.published)
            words = self._parts.requests.why_no_batch(round_)
            if words and not own.groups and self._reader.policy_of(info.node, round_) is None:
                own = replace(own, skipped=words)
            return own
        return OwnRound([], skipped=f"the node is {info.state.value}: it cannot publish")

    def _audit(self, round_: int) -> tuple[list[Group], AuditCounts]:
        """The groups of the last rounds' windows that passed. An external group may be trained on again while it is on
        offer."""
        parts = self._parts
        parts.pool.forget_before(round_ - FINAL_AFTER)
        if parts.learner.config.external_groups == 0:
            return [], AuditCounts()
        self._status.update(phase="auditing")
        past = range(max(0, round_ - self._spec.pool_rounds), round_)
        batches = [batch for window in (parts.auditor.window(r, 1) for r in past) for batch in window]
        _, counts = parts.pool.look(batches)
        return parts.pool.offer(batches), counts

    def _vote(self, round_: int) -> AuditCounts:
        """Say on chain what was found, and what follows from it."""
        if self._parts.duties is None:
            return AuditCounts()
        self._status.update(phase="voting")
        counts = self._parts.duties.play(round_)
        self._parts.outbox.pump()
        return counts

    def _commit(self, round_: int, info: NodeInfo) -> None:
        """Publish the weights and commit them for the next round that can still be committed for."""
        parts = self._parts
        target = max(round_, self._reader.current_round()) + 1
        if parts.last_round is not None and target > parts.last_round:
            return
        if info.state is not NodeState.REGISTERED or not parts.requests.may_promise(target - 1):
            return  # it can promise nothing, or is not to
        if words := parts.capture.why_no_promise():
            parts.say(words)
            return
        key = f"commit/{target}"
        if parts.outbox.call_of(key) is not None or self._reader.policy_of(parts.node, target) is not None:
            return
        self._status.update(phase="committing its policy")
        published = parts.learner.published.under(parts.seeds.audit(target))
        parts.blocks.keep([published.manifest, *published.blocks], target)
        slots = min(parts.learner.config.own_groups, self._spec.max_slots)
        call = Call("rounds", "commitPolicy", (parts.node, target, published.digest, slots))
        put = partial(put_anew, parts.outbox, key, call, deadline_round=target - 1)
        parts.promises.make(Promise(key, target - 1, put))
        parts.outbox.pump()

    # -- waiting --

    def _chain_is_away(self, error: Exception) -> None:
        self._status.failed(error)
        self._status.update(phase="waiting for the chain", trouble=str(error))
        self._rounds.meanwhile(f"the chain was away: {error}")

    def _step(self, round_: int) -> None:
        """Let everything go on, wait one poll. Raises RoundOver once the round is over, Stopped if asked to."""
        parts = self._parts
        parts.requests.go_on()
        if parts.duties is not None:
            parts.duties.go_on()
        else:
            parts.promises.go_on()
        if parts.turns:
            parts.turns.step(self._reader.block_number())
        parts.outbox.pump()
        self._status.progress(parts.outbox.pending())
        self._stop.wait(self._parts.poll_seconds)
        self._raise_if_stopped()
        if (current := self._reader.current_round()) != round_:
            raise RoundOver(f"the chain is in round {current}")
        self._raise_if_beacon_changed(round_)

    def _wait_for_transactions(self, round_: int) -> None:
        """Until they are settled and nothing is waited for, or the round is over: then what is late expires."""
        try:
            while self._is_waiting():
                self._step(round_)
        except RoundOver as over:
            log.warning("round %d ended while transactions were on their way: %s", round_, over)
            self._parts.outbox.pump()

    def _is_waiting(self) -> bool:
        parts = self._parts
        watching = parts.duties is not None and not parts.duties.finished
        return bool(parts.outbox.pending() or parts.turns or watching)

    def _wait_between_rounds(self, round_: int) -> None:
        started = time.monotonic()
        self._parts.requests.go_on()
        self._parts.promises.go_on()
        self._parts.outbox.pump()
        self._status.progress(self._parts.outbox.pending())
        if self._status.get("phase") in ("starting", "waiting for the chain"):  # it answers
            self._status.update(phase="waiting for the next round", trouble="")
        if round_ == self._done:
            self._raise_if_beacon_changed(round_)
        self._stop.wait(self._parts.poll_seconds)
        self._waited += time.monotonic() - started

    def _raise_if_beacon_changed(self, round_: int) -> None:
        """Also where a reorganization took the beacon away: it has to be captured again."""
        if self._played is not None and self._reader.beacon(round_) != self._played:
            raise BeaconChanged

    def _raise_if_stopped(self) -> None:
        raise_if(self._stop)


def raise_if(stop: threading.Event) -> None:
    """Raises Stopped once the node was asked to stop."""
    if stop.is_set():
        raise Stopped
