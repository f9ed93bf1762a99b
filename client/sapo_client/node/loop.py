"""The node's loop: what happens in a round, in order, and how a node that was stopped anywhere goes on.

Everything is dated by the chain's round, read anew each time; a node has no count of its own. What a round has done is
read back from the chain, the outbox and the last checkpoint, so that playing a round twice does nothing twice.
"""

import dataclasses
import logging
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from sapo_client.batches.auditing import Auditor
from sapo_client.batches.own_batch import OwnBatches
from sapo_client.batches.pins import PinBook
from sapo_client.batches.pool import Pool
from sapo_client.batches.presence import Presence
from sapo_client.duties.ballots import BallotBox
from sapo_client.duties.registration import why_silent
from sapo_client.duties.settling import Settler
from sapo_client.duties.voting import Voting
from sapo_client.generation.engine import Engine
from sapo_client.node.learner import Learner
from sapo_client.policy.policy import Policy
from sapo_client.state import home as layout
from sapo_client.state.report import RoundReport, StatusFile, read_rounds
from sapo_client.training.sapo import Group, TrainConfig
from sapo_client.transactions.outbox import Outbox
from sapo_client.transactions.turns import Turns
from sapo_verifier.audit import PolicyModel
from sapo_verifier.bases import Bases
from sapo_verifier.chain.audits import AuditsReader
from sapo_verifier.chain.contracts import Call
from sapo_verifier.chain.errors import ChainMismatch, ChainUnavailable
from sapo_verifier.chain.reader import ChainReader, NodeInfo, NodeState
from sapo_verifier.cid import block_digest
from sapo_verifier.errors import SapoError
from sapo_verifier.ipfs import BlockStore, GatewayReader
from sapo_verifier.schedule import FINAL_AFTER, KEEP_AFTER
from sapo_verifier.tasks import TaskWorker

log = logging.getLogger(__name__)

SERVED = "GatewayBytesServed"  # in the embedded daemon's repo/stat
CHAIN_PATIENCE = 1800.0  # seconds without a chain before the node gives up
FEW = 3  # nodes that are thought to wait for a beacon where the last round had no batch to tell


class RoundOver(Exception):  # noqa: N818 - control flow, never shown
    """The chain has moved on to another round while this one was being played."""


class BeaconChanged(Exception):  # noqa: N818 - control flow, never shown
    """A reorganization gave the round another beacon: what was generated for the first one is not its batch."""


class Stopped(Exception):  # noqa: N818 - control flow, never shown
    """The node was asked to stop."""


@dataclasses.dataclass
class Parts:
    """What a node is made of; start.py puts it together."""

    home: Path
    node: str  # the owner's address
    reader: ChainReader
    outbox: Outbox
    store: BlockStore
    peers: GatewayReader  # looks whether producers still serve what they published
    worker: TaskWorker
    policy: Policy
    engine: Engine  # what generates, with the policy's weights
    bases: Bases
    model: PolicyModel | None  # answers the policy check; None: that check is left out
    pins: PinBook
    ballots: BallotBox | None  # where the node's verdicts are kept; None: it does not vote
    config: TrainConfig
    seed: int
    poll_seconds: float
    audit_seconds: float = 120.0  # for fetching all batches that a round wants
    last_round: int | None = None  # to publish in; afterwards the node only does what it owes. None: no end


class Node:
    """One node. `run` returns when `stop` is set; everything it has to remember is on disk by then."""

    def __init__(self, parts: Parts, stop: threading.Event) -> None:
        self._parts = parts
        self._stop = stop
        self._spec = parts.reader.deployment.spec
        self._status = StatusFile(parts.home)
        self._checkpoints = parts.home / layout.CHECKPOINTS
        auditor = Auditor(
            parts.reader,
            parts.store,
            self._spec,
            parts.worker,
            parts.bases.tokenizer,
            parts.model,
            parts.pins,
            parts.node,
        )
        self._pool = Pool(auditor, parts.policy, parts.audit_seconds, self._raise_if_stopped)
        name = f"{parts.seed}/{parts.node}"
        self._learner = Learner(parts.policy, parts.config, self._checkpoints, name)
        self._presence = Presence(auditor, parts.peers)
        self._turns = Turns(parts.node, parts.outbox)
        audits = AuditsReader(parts.reader)
        self._settler = Settler(parts.reader, audits, parts.outbox, self._turns, parts.node, self._pool)
        self._voting: Voting | None = None  # of the round that is or was played last
        self._said: set[str] = set()  # what the operator was told, and need not be told every round
        self._own = OwnBatches(
            parts.reader,
            parts.outbox,
            parts.store,
            parts.worker,
            parts.policy,
            parts.engine,
            self._spec,
            parts.node,
            self._checkpoints,
            self._keep,
        )
        self._played: bytes | None = None  # the beacon of the round that is or was played last, once it is known
        self._done = -1  # the last round that was played to its end
        self._reported = -1  # the last round that was reported
        self._waited = 0.0  # seconds between rounds
        self._bytes = (0, 0)  # up and down, when last counted

    # -- the loop --

    def run(self) -> None:
        """Play rounds until asked to stop. Raises ChainUnavailable after half an hour without a chain."""
        self._resume()
        chain_seen = time.monotonic()
        troubles = 0
        while not self._stop.is_set():
            round_ = -1
            try:
                round_ = self._parts.reader.current_round()
                chain_seen = time.monotonic()
                if round_ > self._done:
                    self._play(round_)
                    self._done, troubles = round_, 0
                    self._status.update(done_round=round_, phase="waiting for the next round")
                else:
                    self._wait_between_rounds(round_)
            except RoundOver as over:
                log.warning("round %d was not finished: %s", round_, over)
            except BeaconChanged:
                log.warning("round %d has another beacon after a reorganization; it is played again", round_)
                self._done = self._reported = min(self._done, round_ - 1)
            except Stopped:
                break
            except ChainMismatch as error:
                # For ever, unless the RPC's address leads to another chain for a while: said once, then waited.
                if self._status.get("trouble") != str(error):
                    log.error("%s", error)
                self._status.update(phase="waiting for the chain", trouble=str(error))
                self._stop.wait(self._parts.poll_seconds)
            except ChainUnavailable as error:
                self._status.update(phase="waiting for the chain", trouble=str(error))
                log.warning("%s", error)
                if time.monotonic() - chain_seen > CHAIN_PATIENCE:
                    raise
                self._stop.wait(self._parts.poll_seconds)
            except SapoError as error:
                troubles += 1
                self._status.update(trouble=str(error))
                log.error("round %d: %s", round_, error)
                if troubles == 3:  # the same again: leave this round, the next may be better
                    self._done, troubles = round_, 0
                    self._status.update(done_round=round_, phase="waiting for the next round")
                self._stop.wait(self._parts.poll_seconds)
        self._status.update(phase="stopped")

    def _play(self, round_: int) -> None:
        """One round. Each step finds out by itself what an earlier run has done already."""
        report = RoundReport(round=round_, seconds_waiting=self._waited)
        self._waited, self._played, self._voting = 0.0, None, None
        self._learner.roll_back()
        self._status.update(round=round_, phase="waiting for the beacon", trouble="")
        with self._timed(report, "waiting"):
            beacon = self._played = self._beacon(round_)
        info = self._standing()
        with self._timed(report, "generating"):
            self._status.update(phase="generating")
            own = self._publish(round_, beacon, info, report)
        with self._timed(report, "auditing"):
            pool = self._audit(round_, report)
            self._vote(round_, report)
        if own and self._learner.trained < round_:
            with self._timed(report, "training"):
                self._status.update(phase="training")
                self._learner.train(round_, own, pool)
        if self._learner.trained == round_:
            vars(report).update(self._learner.learned)
        self._commit(round_, info)
        self._status.update(phase="waiting for its transactions")
        with self._timed(report, "waiting"):
            self._wait_for_transactions(round_)
        self._drop_old_blocks(round_)
        self._count_bytes(report)
        if report.completions and self._parts.reader.batch_of(self._parts.node, round_) is None:
            reason = self._parts.outbox.state(self._own.key(round_, beacon)).reason
            report.skipped = f"the batch did not get on chain: {reason or 'the round ended before'}"
        if round_ != self._reported:
            report.append_to(self._parts.home)
            self._reported = round_
        log.info(
            "round=%d reward=%d/%d own_with_advantage=%d/%d external_used=%d external_missing=%d repaired=%d/%d "
            "skipped=%r",
            *(round_, report.reward, report.completions, report.own_with_advantage, report.own_groups),
            *(report.external_used, report.external_missing, report.repaired, report.positions, report.skipped),
        )

    # -- its steps --

    def _resume(self) -> None:
        self._learner.resume()
        reports = read_rounds(self._parts.home)
        self._reported = reports[-1]["round"] if reports else -1
        self._bytes = self._bytes_so_far()
        self._status.update(node=self._parts.node, phase="starting", round=-1, done_round=-1)

    def _beacon(self, round_: int) -> bytes:
        """The round's beacon; pokes the contract when it is this node's turn, and again where that came to nothing."""
        reader, crowd = self._parts.reader, 0
        while (beacon := reader.beacon(round_)) is None:
            # In the round's first block the contract refuses.
            if reader.block_number() > reader.first_block_of(round_):
                crowd = crowd or reader.round_at(max(0, round_ - 1)).count or FEW
                self._turns.offer(
                    f"poke/{round_}",
                    Call("rounds", "poke"),
                    crowd=crowd,
                    needed=lambda: reader.beacon(round_) is None,
                    deadline_round=round_,
                )
            self._step(round_)
        return beacon

    def _standing(self) -> NodeInfo:
        """What the chain says of this node; why it can promise nothing is said once."""
        info = self._parts.reader.node_of(self._parts.node)
        if words := why_silent(info, int(self._spec.chain.bond, 16)):
            self._say(words)
        return info

    def _publish(self, round_: int, beacon: bytes, info: NodeInfo, report: RoundReport) -> list[Group]:
        if info.state in (NodeState.REGISTERED, NodeState.EXITING):
            return self._own.publish(round_, beacon, self._learner.published, report)
        report.skipped = f"the node is {info.state.value}: it cannot publish"
        return []

    def _audit(self, round_: int, report: RoundReport) -> list[Group]:
        """The groups of the last rounds' windows that passed, without those that were trained on."""
        parts = self._parts
        if parts.config.external_groups == 0:
            return []
        self._status.update(phase="auditing")
        past = range(max(0, round_ - self._spec.pool_rounds), round_)
        batches = [batch for window in (self._pool.window(r, 1) for r in past) for batch in window]
        self._pool.look(batches, report)
        self._pool.forget_before(round_ - FINAL_AFTER)
        return self._pool.offer(batches)

    def _vote(self, round_: int, report: RoundReport) -> None:
        """Say on chain what was found, and what follows from it."""
        if self._parts.ballots is None:
            return
        self._status.update(phase="voting")
        self._voting = Voting(
            reader=self._parts.reader,
            audits=AuditsReader(self._parts.reader),
            outbox=self._parts.outbox,
            ballots=self._parts.ballots,
            turns=self._turns,
            settler=self._settler,
            presence=self._presence,
            voter=self._parts.node,
            pool=self._pool,
            report=report,
            keep=lambda block: self._keep([block], round_),
            say=self._say,
        )
        self._voting.play(round_)
        self._parts.outbox.pump()

    def _commit(self, round_: int, info: NodeInfo) -> None:
        """Publish the weights and commit them for the next round that can still be committed for."""
        parts = self._parts
        target = max(round_, parts.reader.current_round()) + 1
        if parts.last_round is not None and target > parts.last_round:
            return
        if not info.active and parts.outbox.call_of(f"top-up/{round_}") is None:
            return  # it can promise nothing
        if (
            parts.outbox.call_of(f"commit/{target}") is not None
            or parts.reader.policy_of(parts.node, target) is not None
        ):
            return
        self._status.update(phase="committing its policy")
        self._keep([self._learner.published.manifest, *self._learner.published.blocks], target)
        slots = min(parts.config.own_groups, self._spec.max_slots)
        call = Call("rounds", "commitPolicy", (parts.node, target, self._learner.published.digest, slots))
        parts.outbox.put(f"commit/{target}", call, deadline_round=target - 1)
        parts.outbox.pump()

    # -- small things --

    def _say(self, words: str) -> None:
        """Once, as long as the node runs."""
        if words not in self._said:
            self._said.add(words)
            log.warning("%s", words)

    def _keep(self, blocks: Iterable[bytes], round_: int) -> None:
        """Put blocks to IPFS, to be served until the round is final plus a margin."""
        kept = list(blocks)
        # Noted first: a block that nobody noted would stay for ever.
        self._parts.pins.keep(map(block_digest, kept), round_ + KEEP_AFTER)
        for block in kept:
            self._parts.store.put(block)

    def _drop_old_blocks(self, round_: int) -> None:
        expired = self._parts.pins.expired(round_)
        for digest in expired:
            self._parts.store.unpin(digest)
            self._parts.pins.forget(digest)
        if expired and SERVED in self._parts.store.stat():
            self._parts.store.collect()  # a Kubo daemon may be shared, and collects by its own rules

    def _count_bytes(self, report: RoundReport) -> None:
        """What peers fetched from the embedded daemon (Kubo does not tell), and what was fetched from peers."""
        now = self._bytes_so_far()
        report.bytes_up, report.bytes_down = now[0] - self._bytes[0], now[1] - self._bytes[1]
        self._bytes = now

    def _bytes_so_far(self) -> tuple[int, int]:
        store = self._parts.store
        return int(store.stat().get(SERVED, 0)), store.bytes_down

    def _step(self, round_: int) -> None:
        """Let everything go on, wait one poll. Raises RoundOver once the round is over, Stopped if asked to."""
        if self._voting is not None:
            self._voting.go_on()
        if self._turns:
            self._turns.step(self._parts.reader.block_number())
        self._parts.outbox.pump()
        self._stop.wait(self._parts.poll_seconds)
        self._raise_if_stopped()
        if (current := self._parts.reader.current_round()) != round_:
            raise RoundOver(f"the chain is in round {current}")
        self._raise_if_beacon_changed(round_)

    def _wait_for_transactions(self, round_: int) -> None:
        """Until they are settled and nothing is waited for, or the round is over: then what is late expires."""
        try:
            while self._parts.outbox.pending() or self._turns or (self._voting and not self._voting.finished):
                self._step(round_)
        except RoundOver as over:
            log.warning("round %d ended while transactions were on their way: %s", round_, over)
            self._parts.outbox.pump()

    def _wait_between_rounds(self, round_: int) -> None:
        started = time.monotonic()
        self._parts.outbox.pump()
        if round_ == self._done:
            self._raise_if_beacon_changed(round_)
        self._stop.wait(self._parts.poll_seconds)
        self._waited += time.monotonic() - started

    def _raise_if_beacon_changed(self, round_: int) -> None:
        """Also where a reorganization took the beacon away: it has to be captured again."""
        if self._played is not None and self._parts.reader.beacon(round_) != self._played:
            raise BeaconChanged

    def _raise_if_stopped(self) -> None:
        if self._stop.is_set():
            raise Stopped

    @contextmanager
    def _timed(self, report: RoundReport, what: str) -> Iterator[None]:
        started = time.monotonic()
        yield
        name = f"seconds_{what}"
        setattr(report, name, getattr(report, name) + time.monotonic() - started)
