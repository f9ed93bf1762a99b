"""What the devnet shows, from reports made by hand."""

from dataclasses import asdict
from typing import Any

import pytest

from sapo_client.state.report import RoundReport
from sapo_devnet.table import COLUMNS, checked_share, round_line, table, third_means


def row(round_: int, node: str = "node0", **values: Any) -> dict[str, Any]:
    return asdict(RoundReport(round=round_, **values)) | {"node": node}


def test_every_column_is_a_field_of_a_report() -> None:
    known = set(row(0))
    assert {key for _, key in COLUMNS} <= known


def test_a_table_has_a_line_per_row_and_aligned_columns() -> None:
    rows = [row(0), row(11, "node10", reward=3, completions=32, bytes_up=2048, seconds_training=1.25)]
    lines = table(rows).splitlines()
    assert len(lines) == 3
    assert len({len(line) for line in lines}) == 1
    assert lines[1].split()[:3] == ["0", "node0", "-"]
    assert lines[2].split()[:3] == ["11", "node10", "3/32"]
    assert " 2 " in lines[2]
    assert "1.2" in lines[2]


def test_a_table_of_nothing_is_its_head() -> None:
    assert len(table([]).splitlines()) == 1


def test_a_round_in_a_line() -> None:
    reports = {"node0": row(4, reward=2, completions=32, external_used=4), "node1": row(4)}
    line = round_line(4, reports, 2.25)
    assert "node0 2/32 right" in line
    assert "ext 4" in line
    assert line.endswith("node1 -")


def test_third_means_weigh_completions_not_nodes() -> None:
    rows = [
        row(1, reward=1, completions=10),
        row(1, "node1", reward=9, completions=90),
        row(2, reward=5, completions=10),
    ]
    rows += [row(3, reward=8, completions=10), row(0)]
    assert third_means(rows) == pytest.approx((0.1, 0.8))
    assert third_means([]) == (0.0, 0.0)
    assert third_means([row(1, reward=1, completions=4)]) == (0.25, 0.25)


def test_the_checked_share_begins_with_round_3() -> None:
    early = [row(2, external_drawn=100)]
    assert checked_share(early) == 1.0, "nothing was drawn"
    rows = [*early, row(3, external_drawn=6, external_checked=6), row(4, external_drawn=4, external_checked=1)]
    assert checked_share(rows) == pytest.approx(0.7)
