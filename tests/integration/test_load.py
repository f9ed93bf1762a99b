"""A sample of `scripts/load` (docs/results/load.md): a few nodes publish, two real ones play, and are measured."""

from dataclasses import replace

import pytest

from sapo_devnet.checkout import ROOT
from sapo_devnet.pocket import QUICK_STEPS, pocket_policy
from sapo_devnet.testkit.alive import users_of
from sapo_lab.load.measure import REAL, Load, LoadRun
from sapo_lab.load.table import MOST_GROWTH, grown, round_line, settled, table

NODES, ROUNDS = 5, 2


@pytest.fixture(scope="module")
def loads(tmp_path_factory: pytest.TempPathFactory) -> list[Load]:
    policy = pocket_policy(ROOT, steps=QUICK_STEPS)
    folder = tmp_path_factory.mktemp("load")
    with LoadRun(folder / "run", policy, NODES) as run:
        found = list(run.rounds(ROUNDS))
    assert not users_of(folder), "everything that started has ended"
    return found


def test_everybody_publishes_and_the_real_nodes_check_what_they_are_dealt(loads: list[Load]) -> None:
    assert [(load.nodes, load.round, load.batches) for load in loads] == [(NODES, r, NODES + REAL) for r in (1, 2)]
    assert [load.checked for load in loads] == [0, NODES + REAL - 1], "every group of round 1, by the round after it"
    assert [load.drawn for load in loads] == [load.checked for load in loads]


def test_what_a_real_node_needs_is_counted(loads: list[Load]) -> None:
    for load in loads:
        assert 10 < load.rpc_requests <= load.rpc_calls < 2000
        assert load.rpc_bytes > 100 * load.rpc_calls
        assert load.gas > 100_000
        assert 0.5 < load.gas / load.crowd_gas < 2.0, "they do the same on chain"
        assert load.cpu_seconds > 0
    assert loads[1].peer_bytes > loads[0].peer_bytes


def test_growth_is_told(loads: list[Load]) -> None:
    more = [replace(load, nodes=10 * NODES, rpc_calls=load.rpc_calls * MOST_GROWTH * 1.1) for load in loads]
    assert grown(loads) == []
    (fault,) = grown([*loads, *more])
    assert fault.startswith("RPC calls grow from ")
    assert list(settled([*loads, *more])) == [NODES, 10 * NODES]
    assert len(table([*loads, *more]).splitlines()) == 4
    assert f"{NODES} nodes, round 1" in round_line(loads[0])
