"""Honest batches that others cannot, or cannot always, fetch; and batches that are held back."""

import contextlib
import logging
import socket
import threading
import time
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from sapo_client.batches.publish import Batch, Dealt
from sapo_client.state.settings import FILE_NAME, Settings
from sapo_devnet.adversaries.node import HostileBatches, HostileNode
from sapo_verifier import protocol

log = logging.getLogger(__name__)

SERVED_ROUNDS = 2  # r, r+1 and r+2: until stage 1 has decided
SAMPLES = 4  # batches by which the aborter learns what to expect


class Withholder(HostileNode):
    """Nobody gets a block of its batches."""

    def served(self, batch: Batch) -> Iterable[bytes]:
        return []


class HalfWithholder(HostileNode):
    """Serves the manifest, and nothing that it names."""

    def served(self, batch: Batch) -> Iterable[bytes]:
        return [batch.blocks[batch.manifest]]


class ServesThenWithholds(HostileNode):
    """Serves while stage 1 looks, and then no longer."""

    _blocks: dict[int, list[bytes]]

    def make(self, own: HostileBatches, dealt: Dealt) -> Batch | None:
        batch = own.honest(dealt)
        self._blocks = {**vars(self).get("_blocks", {}), dealt.round: list(batch.blocks)}
        return batch

    def _drop_old_blocks(self, round_: int) -> None:
        for digest in vars(self).get("_blocks", {}).pop(round_ - SERVED_ROUNDS, []):
            self._parts.store.unpin(digest)
            self._parts.pins.forget(digest)
        self._parts.store.collect()


class Trickler(HostileNode):
    """Its gateway gives a byte now and then."""

    @classmethod
    def prepare(cls, home: Path) -> None:
        """Begin to trickle, and name that in the settings as the endpoint."""
        listening = socket.create_server(("127.0.0.1", 0))
        threading.Thread(target=_accept, args=(listening,), daemon=True).start()
        settings = Settings.load(home)
        endpoint = f"/ip4/127.0.0.1/tcp/{listening.getsockname()[1]}/http"
        (home / FILE_NAME).unlink()
        ipfs = settings.ipfs.model_copy(update={"endpoint": endpoint})
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


class SelectiveAborter(HostileNode):
    """Submits only batches that score at least what it expects, and hopes that the others cost nothing.

    A batch has to be made before its score is known. What to expect follows from those that it has made, for the first
    from some made with other numbers, as if the beacon had been another.
    """

    _scores: list[int]

    def make(self, own: HostileBatches, dealt: Dealt) -> Batch | None:
        batch = own.honest(dealt)
        if "_scores" not in vars(self):
            others = [protocol.H("another", dealt.beacon, n) for n in range(SAMPLES)]
            self._scores = [own.honest(replace(dealt, beacon=other)).claim.bit_count() for other in others]
        expected = sum(self._scores) / len(self._scores)
        score = batch.claim.bit_count()
        self._scores.append(score)
        log.info("round %d: %d right, %.1f expected", dealt.round, score, expected)
        return batch if score >= expected else None
