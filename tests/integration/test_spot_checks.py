"""Spot checks on a real chain: what voters recompute and answer, and that anybody can tell from the chain whether it is
right."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sapo_devnet import Devnet
from sapo_devnet.formula.policy import formula_spec
from sapo_verifier.networks import with_changes

JUDGE = Path(__file__).parents[1] / "answer_judge.py"
LAST = 4
JUDGED = LAST - 2  # revealed in the last round


@pytest.fixture(scope="module")
def net(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Devnet]:
    """Two nodes with batches of eight completions, one of which each voter recomputes."""
    spec = with_changes(formula_spec(), spot=1)
    with Devnet(formula=2, pace="hand", spec=spec, folder=tmp_path_factory.mktemp("spots")) as made:
        made.until_round(LAST)
        made.until(lambda: all(node.done(LAST) for node in made.nodes), what="all are done with the round")
        yield made


def judged(net: Devnet) -> list[dict[str, Any]]:
    """As another process finds it that has the chain and the gateways only."""
    command = [sys.executable, str(JUDGE), str(net.deployment_file), net.rpc, str(JUDGED)]
    env = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, env=env)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_another_process_finds_the_answers_right(net: Devnet) -> None:
    found = judged(net)
    assert {line["voter"] for line in found} == {node.address for node in net.nodes}
    assert len(found) == 2, "each is dealt the other's batch"
    for line in found:
        assert (line["completions"], len(line["spots"]), len(line["told"])) == (8, 1, 1)
        assert line["told"] == line["true"]
        assert line["vouched"], "the salt is the seed that the voter's policy of the round vouches for"


def test_the_node_says_how_many_completions_it_recomputed(net: Devnet) -> None:
    for node in net.nodes:
        for report in node.rounds():
            assert report["external_recomputed"] == (1 if 2 <= report["round"] <= LAST else 0)
