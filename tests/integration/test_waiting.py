"""What waiting asks of an RPC is counted, and `poll_seconds` says how much it is."""

from pathlib import Path

import pytest

from sapo_devnet import formula_nodes
from sapo_lab.sweeps.waiting import asked

SECONDS = 5.0


def test_who_polls_less_often_asks_less(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(formula_nodes, "POLL_SECONDS", formula_nodes.POLL_SECONDS)  # put back afterwards
    counted = {}
    for poll_seconds in (0.1, 1.0):
        (tmp_path / str(poll_seconds)).mkdir()
        rounds = list(asked(tmp_path / str(poll_seconds), 2, SECONDS, poll_seconds))
        assert len(rounds) == 2
        counted[poll_seconds] = rounds[1]
    assert counted[1.0].requests > SECONDS, "some, in every poll"
    assert counted[1.0].calls >= counted[1.0].requests
    assert counted[0.1].requests > 2 * counted[1.0].requests
