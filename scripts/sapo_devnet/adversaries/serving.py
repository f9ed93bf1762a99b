"""Batches that others cannot, or cannot always, fetch; and batches that are held back."""

import contextlib
import logging
import socket
import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from sapo_client.batches.kept import KeptBlocks
from sapo_client.batches.publish import Batch
from sapo_client.generation.records import RecordStats
from sapo_client.node.compose import Makers
from sapo_client.state.settings import FILE_NAME, Settings
from sapo_devnet.adversaries.adversary import Adversary, HostileBatches
from sapo_devnet.adversaries.content import MadeUpIntervals, OneMadeUp
from sapo_verifier import protocol
from sapo_verifier.audit import Dealt
from sapo_verifier.facts import BatchFacts

log = logging.getLogger(__name__)

SERVED_ROUNDS = 2  # r, r+1 and r+2: until stage 1 has decided
SAMPLES = 4  # batches by which the aborter learns what to expect


class Hider(Adversary):
    """Submits hashes of nothing and claims everything: nobody can look at it, and nothing was generated."""

    def make(self, own: HostileBatches, facts: BatchFacts) -> Batch | None:
        manifest, root = (protocol.H(words, facts.beacon) for words in ("no manifest", "no root"))
        claim = (1 << facts.slots * own.spec.group_size) - 1
        return Batch(facts.made(manifest, root, claim), {}, Dealt([], []), RecordStats(0, 0, 0))

    def served(self, batch: Batch) -> Iterable[bytes]:
        return []


class Withholder(Adversary):
    """Nobody gets a block of its batches."""

    def served(self, batch: Batch) -> Iterable[bytes]:
        return []


class HalfWithholder(Adversary):
    """Serves the manifest, and nothing that it names."""

    def served(self, batch: Batch) -> Iterable[bytes]:
        return [batch.blocks[batch.facts.manifest]]


@dataclass
class Forgetful(KeptBlocks):
    """Lets go of a round's batch as soon as stage 1 has decided about it. mine: the batches' blocks, by round."""

    mine: dict[int, list[bytes]]

    def drop_old(self, round_: int) -> None:
        for digest in self.mine.pop(round_ - SERVED_ROUNDS, []):
            self.store.unpin(digest)
            self.pins.forget(digest)
        self.store.collect()


class ServesThenWithholds(Adversary):
    """Serves while stage 1 looks, and then no longer."""

    def __init__(self) -> None:
        self._mine: dict[int, list[bytes]] = {}

    def make(self, own: HostileBatches, facts: BatchFacts) -> Batch | None:
        batch = super().make(own, facts)
        if batch is not None:
            self._mine[facts.round] = list(batch.blocks)
        return batch

    def makers(self) -> Makers:
        return replace(super().makers(), blocks=partial(Forgetful, mine=self._mine))


class WithholdsAfterReject(ServesThenWithholds, MadeUpIntervals):
    """A false batch that only the model sees; served until stage 1 has decided, so that stage 2 finds nothing to look
    at, and void costs less than a bond."""


class WithholdsToHurt(ServesThenWithholds, OneMadeUp):
    """One false completion, which voters with few spots may miss, and nothing to look at once they have accepted it:
    who cannot show any more that its answers were right is to be taken for a liar."""


class Trickler(Adversary):
    """Its gateway gives a byte now and then."""

    def prepare(self, home: Path) -> None:
        """Begin to trickle, and name that in the settings as the endpoint."""
        listening = socket.create_server(("127.0.0.1", 0))
        threading.Thread(target=_accept, args=(listening,), daemon=True).start()
        name_endpoint(home, listening.getsockname()[1])


def name_endpoint(home: Path, port: int) -> None:
    """Peers are told of that port on loopback, and not of the daemon's."""
    settings = Settings.load(home)
    (home / FILE_NAME).unlink()
    ipfs = settings.ipfs.model_copy(update={"endpoint": f"/ip4/127.0.0.1/tcp/{port}/http"})
    settings.model_copy(update={"ipfs": ipfs}).write(home)


def _accept(listening: socket.socket) -> None:
    while True:
        connection, _ = listening.accept()
        threading.Thread(target=_trickle, args=(connection,), daemon=True).start()


def _trickle(connection: socket.socket) -> None:
    with connection, contextlib.suppress(OSError):  # the other side hangs up in the end
        connection.recv(65536)
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n")
        while True:
            connection.sendall(b" ")
            time.sleep(0.5)


class SelectiveAborter(Adversary):
    """Submits only batches that score at least what it expects, and hopes that the others cost nothing.

    A batch has to be made before its score is known. What to expect follows from those that it has made, for the first
    from some made with other numbers, as if the beacon had been another.
    """

    _scores: list[int]

    def make(self, own: HostileBatches, facts: BatchFacts) -> Batch | None:
        batch = own.honest(facts)
        if "_scores" not in vars(self):
            others = [protocol.H("another", facts.beacon, n) for n in range(SAMPLES)]
            self._scores = [own.honest(replace(facts, beacon=other)).facts.claim.bit_count() for other in others]
        expected = sum(self._scores) / len(self._scores)
        score = batch.facts.claim.bit_count()
        self._scores.append(score)
        log.info("round %d: %d right, %.1f expected", facts.round, score, expected)
        return batch if score >= expected else None
