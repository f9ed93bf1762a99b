"""A batch is fetched and checked once, whoever asks; one that was away is looked for again where that matters, and
one that was recomputed in part is recomputed whole in stage 2."""

from dataclasses import dataclass, field, replace
from typing import Any

from sapo_client.batches.auditing import AuditCounts, Seen
from sapo_client.batches.pool import Pool
from sapo_verifier.audit import CheckResult, Status
from sapo_verifier.facts import BatchInfo
from sapo_verifier.spots import Spots

NODE = "0x" + "11" * 20
COMPLETIONS = 8


@dataclass
class Answers:
    """An auditor that finds what the test says."""

    status: dict[int, Status] = field(default_factory=dict)
    audited: list[int] = field(default_factory=list)
    asked: list[Spots | None] = field(default_factory=list)  # of each of those
    peers: list[list[str]] = field(default_factory=list)
    spot: int = 256
    beacon: bytes = b"b" * 32

    def endpoints(self, batches: list[BatchInfo]) -> dict[str, str]:
        return {batch.node: "/ip4/10.0.0.1/tcp/80/http" for batch in batches}

    def endpoints_of(self, nodes: list[str]) -> list[str]:
        return [f"of {node}" for node in nodes]

    def spots(self, batches: list[BatchInfo]) -> list[Spots]:
        return [Spots.of(self.beacon, bytes(32), batch.index, COMPLETIONS, self.spot) for batch in batches]

    def audit(self, batch: BatchInfo, *others: Any) -> tuple[Seen, AuditCounts]:
        spots = others[-1]
        self.audited.append(batch.index)
        self.peers.append(others[0])
        self.asked.append(spots)
        results = [CheckResult("available", self.status.get(batch.index, "pass"))]
        return Seen(batch, results, [], None, spots), AuditCounts(drawn=batch.slots)


def made() -> tuple[Pool, Answers]:
    auditor: Any = Answers()
    unused: Any = None
    return Pool(auditor, unused, 10.0, lambda: None), auditor


def batch(index: int, manifest: bytes = bytes(32)) -> BatchInfo:
    return BatchInfo(index, NODE, 3, 1, bytes(32), manifest, bytes(32), 1)


def statuses(pool: Pool, *batches: BatchInfo, again: bool = False) -> list[str]:
    return [seen.results[0].status for seen in pool.look(batches, again=again)[0]]


def test_a_batch_is_looked_at_once() -> None:
    pool, auditor = made()
    assert statuses(pool, batch(1), batch(2)) == ["pass", "pass"]
    assert statuses(pool, batch(2), batch(1), batch(3)) == ["pass", "pass", "pass"]
    assert auditor.audited == [1, 2, 3]
    assert pool.producers() == {NODE}


def test_what_was_looked_at_now_is_counted_and_nothing_twice() -> None:
    pool, _ = made()
    assert pool.look([batch(1), batch(2)])[1] == AuditCounts(drawn=2)
    assert pool.look([batch(2), batch(3)])[1] == AuditCounts(drawn=1)


def test_another_batch_under_the_same_index_is_another_one() -> None:
    pool, auditor = made()
    statuses(pool, batch(1))
    statuses(pool, batch(1, b"m" * 32))
    assert auditor.audited == [1, 1]


def test_only_what_was_void_is_looked_at_again_and_only_where_asked() -> None:
    """Its producer restarted just when it was fetched: in stage 2 it is there, and what was false stays false."""
    pool, auditor = made()
    auditor.status = {1: "void", 2: "fail", 3: "unknown"}
    batches = [batch(index) for index in (1, 2, 3, 4)]
    assert statuses(pool, *batches) == ["void", "fail", "unknown", "pass"]
    auditor.status, auditor.audited = {}, []
    assert statuses(pool, *batches) == ["void", "fail", "unknown", "pass"]
    assert auditor.audited == []
    assert statuses(pool, *batches, again=True) == ["pass", "fail", "unknown", "pass"]
    assert statuses(pool, *batches, again=True) == ["pass", "fail", "unknown", "pass"]
    assert auditor.audited == [1]


def test_who_found_it_void_looks_anew_on_its_spots_and_asks_who_has_it() -> None:
    pool, auditor = made()
    auditor.spot, auditor.status = 2, {1: "void", 2: "fail"}
    statuses(pool, batch(1), batch(2))
    auditor.status, auditor.asked = {}, []
    looked, _ = pool.look([batch(1), batch(2)], anew=True, holders={1: ["0x" + "22" * 20]})
    assert [seen.results[0].status for seen in looked] == ["pass", "fail"], "what failed was there"
    assert auditor.asked == auditor.spots([batch(1)])
    assert auditor.peers[-1] == ["/ip4/10.0.0.1/tcp/80/http", "of 0x" + "22" * 20], "its producer first"


def test_what_can_be_learned_from_is_offered_as_long_as_it_is_asked_for() -> None:
    """Also in a later round, after it was trained on: rare right answers are worth more than one step."""
    pool, _ = made()
    statuses(pool, batch(1), batch(2))
    group: Any = object()
    pool._seen[(1, bytes(32))] = replace(pool._seen[(1, bytes(32))], groups=[group])
    assert pool.offer([batch(1), batch(2)]) == pool.offer([batch(2), batch(1)]) == [group]


def test_stage_2_recomputes_all_of_what_was_only_spot_checked_once() -> None:
    """Also of what was false: a stage-1 finding does not answer it."""
    pool, auditor = made()
    auditor.spot, auditor.status = 7, {2: "fail"}
    batches = [batch(1), batch(2)]
    statuses(pool, *batches)
    assert auditor.asked == auditor.spots(batches)
    assert statuses(pool, *batches, again=True) == ["pass", "fail"]
    assert statuses(pool, *batches, again=True) == ["pass", "fail"]
    assert (auditor.audited, auditor.asked[2:]) == ([1, 2, 1, 2], [None, None])


def test_what_was_recomputed_whole_in_stage_1_is_not_again() -> None:
    pool, auditor = made()
    auditor.spot = COMPLETIONS
    statuses(pool, batch(1))
    statuses(pool, batch(1), again=True)
    assert auditor.audited == [1]


def test_another_beacon_draws_other_spots() -> None:
    """After a reorganization the window's batch is the same, and what it asks is not."""
    pool, auditor = made()
    auditor.spot = 1
    statuses(pool, batch(1))
    auditor.beacon = b"c" * 32
    statuses(pool, batch(1))
    (seen,), _ = pool.look([batch(1)])
    assert [seen.spots] == auditor.spots([batch(1)]) == auditor.asked[1:]
