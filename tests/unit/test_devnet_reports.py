"""The devnet reads verdict reports in the round in which they are revealed: later nobody has them."""

from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from sapo_devnet import reports as module
from sapo_devnet.reports import Reports
from sapo_verifier.chain.events import ChainEvent, Cursor, Page
from sapo_verifier.cid import block_digest
from sapo_verifier.ipfs import BlockUnavailable
from sapo_verifier.objects import BatchVerdict, VerdictReport

HONEST, LIAR, ENDPOINT = "0x" + "11" * 20, "0x" + "22" * 20, "/ip4/127.0.0.1/tcp/80/http"


class Daemon:
    """Serves what it holds now."""

    def __init__(self) -> None:
        self.blocks: dict[bytes, bytes] = {}

    def get(self, digest: bytes, *, peers: Sequence[str]) -> bytes:
        assert peers == [ENDPOINT]
        if digest not in self.blocks:
            raise BlockUnavailable("it does not have it")
        return self.blocks[digest]


def revealed(voter: str, digest: bytes, block: int) -> ChainEvent:
    return ChainEvent("VerdictsRevealed", "audits", {"voter": voter, "report": digest}, block, bytes(32), 0)


def test_reports_are_read_once_and_before_nodes_let_go_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    events: list[ChainEvent] = []
    daemon, nobody = Daemon(), Any

    def pages(_: object, cursor: Cursor | None) -> Iterator[Page]:
        since = -1 if cursor is None else cursor.block
        new = [event for event in events if event.block > since]
        yield Page(new, Cursor(((max([since, *(event.block for event in new)]), bytes(32)),)))

    monkeypatch.setattr(module, "pages", pages)
    reports = Reports(nobody, {HONEST: ENDPOINT})  # type: ignore[arg-type]
    reports._store.close()
    reports._store = daemon  # type: ignore[assignment]

    def reveal(voter: str, round_: int, *, served: bool = True) -> None:
        block = VerdictReport(
            round=round_, stage=1, voter=voter, batches=[BatchVerdict(index=0, verdict=1, findings=[])]
        ).encode()
        events.append(revealed(voter, block_digest(block), len(events)))
        if served:
            daemon.blocks[block_digest(block)] = block

    reveal(HONEST, 1)
    reveal(LIAR, 2)
    reports.look()
    daemon.blocks.clear()
    reveal(HONEST, 3, served=False)
    reports.look()
    assert [report.round for report in reports.read] == [1]
    assert [voter for voter, _ in reports.missing] == [HONEST]
    reveal(HONEST, 3)  # its daemon is back
    events.pop()
    reports.look()
    assert [report.round for report in reports.read] == [1, 3]
    assert reports.missing == []
