"""The node's loop: what happens in a round, in order, and how a node that was stopped anywhere goes on.

Everything is dated by the chain's round, read anew each time; a node has no count of its own. What a round has done is
read back from the chain, the outbox and the last checkpoint, so that playing a round twice does nothing twice.
"""

import dataclasses
import logging
import random
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sapo_client import home as layout
from sapo_client.auditing import KEEP_ROUNDS, Auditor
from sapo_client.ballots import BallotBox
from sapo_client.checkpoint import latest_checkpoint, save_checkpoint
from sapo_client.committed import PUBLISHED
from sapo_client.outbox import Outbox
from sapo_client.own_batch import OwnBatches
from sapo_client.pins import PinBook
from sapo_client.policy import Policy, Published
from sapo_client.pool import Pool
from sapo_client.report import RoundReport, StatusFile, read_rounds
from sapo_client.sapo import Group, TrainConfig, build_training_set, make_optimizer, train_step
from sapo_client.voting import FINAL_AFTER, Voting
from sapo_verifier.bases import Bases
from sapo_verifier.chain.audits import AuditsReader
from sapo_verifier.chain.contracts import Call
from sapo_verifier.chain.errors import ChainMismatch, ChainUnavailable
from sapo_verifier.chain.reader import ChainReader
from sapo_verifier.cid import block_digest
from sapo_verifier.errors import SapoError
from sapo_verifier.evidence import PolicyModel
from sapo_verifier.ipfs import BlockStore
from sapo_verifier.tasks import TaskWorker

log = logging.getLogger(__name__)

SERVED = "GatewayBytesServed"  # in the embedded daemon's repo/stat
CHAIN_PATIENCE = 1800.0  # seconds without a chain before the node gives up


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
    worker: TaskWorker
    policy: Policy
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
        self._optimizer = make_optimizer(parts.policy, parts.config)
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
        self._own = OwnBatches(
            parts.reader,
            parts.outbox,
            parts.store,
            parts.worker,
            parts.policy,
            self._spec,
            parts.node,
            self._checkpoints,
            self._keep,
        )
        self._played: bytes | None = None  # the beacon of the round that is or was played last, once it is known
        self._learned: dict[str, Any] = {}  # what the report says of the training in the weights
        self._trained = -1  # the last round whose training is in the weights
        self._done = -1  # the last round that was played to its end
        self._reported = -1  # the last round that was reported
        self._waited = 0.0  # seconds between rounds
        self._bytes = (0, 0)  # up and down, when last counted
        self._published: Published

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
        self._waited, self._played = 0.0, None
        self._status.update(round=round_, phase="waiting for the beacon", trouble="")
        with self._timed(report, "waiting"):
            beacon = self._played = self._beacon(round_)
        with self._timed(report, "generating"):
            self._status.update(phase="generating")
            own = self._own.publish(round_, beacon, self._published, report)
        with self._timed(report, "auditing"):
            pool = self._audit(round_, report)
            self._vote(round_, report)
        if own and self._trained < round_:
            with self._timed(report, "training"):
                self._train(round_, own, pool)
        if self._trained == round_:
            vars(report).update(self._learned)
        self._commit(round_)
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
            "round=%d reward=%d/%d own_with_advantage=%d/%d external_used=%d external_missing=%d skipped=%r",
            *(round_, report.reward, report.completions, report.own_with_advantage, report.own_groups),
            *(report.external_used, report.external_missing, report.skipped),
        )

    # -- its steps --

    def _resume(self) -> None:
        checkpoint = latest_checkpoint(self._checkpoints, log.warning)
        if checkpoint is not None:
            checkpoint.restore(self._parts.policy, self._optimizer)
            self._trained = checkpoint.round
            self._pool.used = {(index, slot) for index, slot in checkpoint.state["used"]}
            self._learned = checkpoint.state.get("report", {})
            log.info("resumed from the checkpoint of round %d", self._trained)
        self._published = self._parts.policy.publish()
        reports = read_rounds(self._parts.home)
        self._reported = reports[-1]["round"] if reports else -1
        self._bytes = self._bytes_so_far()
        self._status.update(node=self._parts.node, phase="starting", round=-1, done_round=-1)

    def _beacon(self, round_: int) -> bytes:
        """The round's beacon; pokes the contract if nobody else does within a few polls."""
        reader = self._parts.reader
        patience = int(self._parts.node, 16) % 3
        while (beacon := reader.beacon(round_)) is None:
            # In the round's first block the contract refuses, and what it refused the outbox does not send again.
            if reader.block_number() > reader.first_block_of(round_):
                if patience == 0:
                    self._parts.outbox.put(f"poke/{round_}", Call("rounds", "poke"), deadline_round=round_)
                patience -= 1
            self._step(round_)
        return beacon

    def _audit(self, round_: int, report: RoundReport) -> list[Group]:
        """The groups of the last rounds' windows that passed, without those that were trained on."""
        parts = self._parts
        if parts.config.external_groups == 0:
            return []
        self._status.update(phase="auditing")
        past = range(max(0, round_ - self._spec.pool_rounds), round_)
        batches = [batch for window in (self._pool.window(r, 1) for r in past) for batch in window]
        self._pool.look(batches, report)
        self._pool.forget_used(batches)
        self._pool.forget_before(round_ - FINAL_AFTER)
        return self._pool.unused_groups(batches)

    def _vote(self, round_: int, report: RoundReport) -> None:
        """Say on chain what was found, and what follows from it."""
        if self._parts.ballots is None:
            return
        self._status.update(phase="voting")
        voting = Voting(
            reader=self._parts.reader,
            audits=AuditsReader(self._parts.reader),
            outbox=self._parts.outbox,
            ballots=self._parts.ballots,
            voter=self._parts.node,
            pool=self._pool,
            report=report,
            keep=lambda block: self._keep([block], round_),
        )
        voting.play(round_)
        self._parts.outbox.pump()

    def _train(self, round_: int, own: list[Group], pool: list[Group]) -> None:
        """One SAPO step and the checkpoint that holds it."""
        parts = self._parts
        self._status.update(phase="training")
        rng = random.Random(f"{parts.seed}/{parts.node}/{round_}")
        groups, counts = build_training_set(own, pool, parts.config, round_=round_, rng=rng)
        stats = train_step(parts.policy, self._optimizer, groups, parts.config)
        self._pool.used |= {(group.index, group.slot) for group in groups if group.external and group.index is not None}
        published = parts.policy.publish()
        learned = {
            "external_used": counts.external_used,
            "external_missing": counts.external_missing,
            "training": dataclasses.asdict(stats),
        }
        state = {"used": sorted(self._pool.used), PUBLISHED: "0x" + published.digest.hex(), "report": learned}
        save_checkpoint(self._checkpoints, parts.policy, self._optimizer, round_=round_, state=state)
        self._trained, self._published, self._learned = round_, published, learned
        if counts.external_missing and round_ > 1:
            log.warning(
                "only %d of %d external groups were to be had", counts.external_used, parts.config.external_groups
            )

    def _commit(self, round_: int) -> None:
        """Publish the weights and commit them for the next round that can still be committed for."""
        parts = self._parts
        target = max(round_, parts.reader.current_round()) + 1
        if parts.last_round is not None and target > parts.last_round:
            return
        if (
            parts.outbox.call_of(f"commit/{target}") is not None
            or parts.reader.policy_of(parts.node, target) is not None
        ):
            return
        self._status.update(phase="committing its policy")
        self._keep([self._published.manifest, *self._published.blocks], target)
        slots = min(parts.config.own_groups, self._spec.max_slots)
        call = Call("rounds", "commitPolicy", (parts.node, target, self._published.digest, slots))
        parts.outbox.put(f"commit/{target}", call, deadline_round=target - 1)
        parts.outbox.pump()

    # -- small things --

    def _keep(self, blocks: Iterable[bytes], round_: int) -> None:
        """Put blocks to IPFS, to be served until the round is final plus a margin."""
        kept = list(blocks)
        # Noted first: a block that nobody noted would stay for ever.
        self._parts.pins.keep(map(block_digest, kept), round_ + KEEP_ROUNDS)
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
        """Let the outbox work, wait one poll. Raises RoundOver once the round is over, Stopped if asked to."""
        self._parts.outbox.pump()
        self._stop.wait(self._parts.poll_seconds)
        self._raise_if_stopped()
        if (current := self._parts.reader.current_round()) != round_:
            raise RoundOver(f"the chain is in round {current}")
        self._raise_if_beacon_changed(round_)

    def _wait_for_transactions(self, round_: int) -> None:
        """Until they are settled, or the round is over: then those that are late expire by themselves."""
        try:
            while self._parts.outbox.pending():
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
