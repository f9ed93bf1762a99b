"""What `scripts/simulate` prints: exact sums against draws, long tables that go on, and docs/economics.md."""

import math
import random
import subprocess

import numpy as np
import pytest

from sapo_devnet.checkout import ROOT
from sapo_lab.simulation import grinding, outage, values
from sapo_lab.simulation import rules as r
from sapo_lab.simulation.cells import Cells, CellsError
from sapo_lab.simulation.choices import Rules, Strategy
from sapo_lab.simulation.commands import main
from sapo_verifier import protocol

SEED = 20250908


# --- grinding --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("nodes", "cartel", "turnout"), [(20, 9, 0.6), (40, 20, 1.0)])
def test_the_chance_of_a_beacon_is_that_of_permutations(nodes, cartel, turnout):
    """Permutations dealt to one false batch among others: nobody honest in its windows, or two thirds of friends."""
    rng = np.random.default_rng(SEED)
    rules = Rules(draws=4)
    tries, paid = 1_500, np.zeros(2)
    own = np.arange(nodes)
    for _ in range(tries):
        members = rng.permutation(nodes)
        friends, against = members[1:cartel], members[cartel:][: round(turnout * (nodes - cartel))]
        for stage in (1, 2):
            positions, counted = r.windows(rng.permutation(nodes), nodes, own, rules.window_size(stage))
            voters = np.flatnonzero((counted & (positions == members[0])).any(axis=1))
            accepts, rejects = np.isin(voters, friends).sum(), np.isin(voters, against).sum()
            enough = rejects == 0 if stage == 1 else 3 * accepts >= 2 * (accepts + rejects)
            paid[stage - 1] += enough and accepts >= rules.min_accepts
    expected = grinding.chance(cartel, nodes, rules, turnout)
    assert max(paid) / tries == pytest.approx(expected, abs=4 * math.sqrt(expected / tries))


def test_the_chance_by_version_1_is_that_of_draws_one_by_one():
    rng = random.Random(SEED)
    nodes, cartel, tries, paid = 12, 6, 4_000, 0
    rules = Rules(draws=3)
    for _ in range(tries):
        windows = [protocol.window(rng.randrange(nodes), nodes, voter, 3) for voter in range(nodes)]
        voters = [voter for voter, window in enumerate(windows) if 0 in window]
        friends = [voter for voter in voters if voter % 2 == 0]
        paid += len(friends) >= 2 and friends == voters
    stage_1 = paid / tries
    assert stage_1 > 0.02
    assert grinding.first_chance(cartel, nodes, rules) >= 0.8 * stage_1


def test_a_cartel_of_four_buys_nothing():
    """Three friends are fewer than min_accepts; by version 1 a few thousand beacons bought one of four batches."""
    assert grinding.chance(4, 60, Rules()) == 0
    assert 2**13 < 1 / (4 * grinding.first_chance(4, 60, Rules())) < 2**15
    assert grinding.tries(0.0) == "never"
    assert grinding.tries(1 / 1024) == "2^10"


# --- being away ------------------------------------------------------------------------------------------------------


def test_four_rounds_away_cost_a_fee_more_and_two_batches_less_where_copies_count():
    now, alone = outage.cost(4, Rules()), outage.cost(4, Rules(), copies=False)
    first = outage.cost(4, Rules(withheld_fee=0.0), copies=False)
    assert now.total(Rules()) < first.total(Rules()) < alone.total(Rules())
    assert (alone.rounds, now.rounds) == (first.rounds, first.rounds - 2)
    assert now.fees - first.fees == pytest.approx(Rules.withheld_fee)
    # Who is back when stage 2 looks pays no more than what it promised and did not keep.
    assert outage.cost(3, Rules()).fees == pytest.approx(Rules.missed_batch_fee + Rules.missed_reveal_fee)


def test_no_outage_costs_nothing():
    assert outage.cost(0, Rules()).total(Rules()) == pytest.approx(0.0)


# --- long tables -----------------------------------------------------------------------------------------------------


def test_every_strategy_is_worth_no_more_than_honesty(monkeypatch, tmp_path):
    """A sample of `scripts/simulate values`: small, and above zero by no more than the auditors' part explains."""
    monkeypatch.setattr(values, "NODE_ROUNDS", 60)
    file = tmp_path / "cells.jsonl"
    for strategy in list(Strategy)[1:]:
        for turnout in (1.0, 0.3):
            found = values.cell(strategy, 30, 1 / 3, turnout, Rules(), Cells(SEED, file))
            assert found["value"] < Rules.auditors_share, (strategy, turnout)
            if strategy in (Strategy.FALSE, Strategy.PROVABLE, Strategy.QUIET, Strategy.CARTEL, Strategy.JUNK):
                assert found["value"] < -0.1
    assert len(file.read_text().splitlines()) >= 2 * len(Strategy)


def test_where_honesty_is_not_paid_nothing_is_compared(monkeypatch):
    """Of ten nodes three vote, and four accepts are asked for."""
    monkeypatch.setattr(values, "NODE_ROUNDS", 10)
    found = values.cell(Strategy.LAZY, 10, 0.01, 0.3, Rules(), Cells(SEED))
    assert values.signed(found["value"]) == "no pay"
    assert values.signed(0.25) == "**+0.250**"
    assert values.signed(-0.25) == "−0.250"
    assert values.signed(0.001) == "0"


def test_a_table_that_was_cut_short_goes_on(tmp_path):
    file = tmp_path / "cells.jsonl"
    computed: list[str] = []

    def numbers(name: str) -> dict[str, float]:
        def compute(rng: np.random.Generator) -> dict[str, float]:
            computed.append(name)
            return {"x": float(rng.random())}

        return Cells(SEED, file).get(name, compute)

    first, second = numbers("one"), numbers("two")
    assert first != second
    with file.open("r+") as half:
        half.truncate(file.stat().st_size - 5)
    assert (numbers("one"), numbers("two")) == (first, second)
    assert computed == ["one", "two", "two"]
    file.write_text("no cell\n")
    with pytest.raises(CellsError, match="no cell"):
        Cells(SEED, file)


# --- the command -----------------------------------------------------------------------------------------------------


def test_the_command_is_the_same_for_a_seed_and_quick(capsys):
    arguments = ["--nodes", "2000", "--malicious", "20", "--rounds", "2", "--seed", "7"]
    assert main(arguments) == 0
    once = capsys.readouterr().out
    assert main(arguments) == 0
    assert capsys.readouterr().out == once
    assert "cartel" in once


def test_the_script_runs_and_refuses_nonsense():
    script = str(ROOT / "scripts" / "simulate")
    run = subprocess.run([script, "--nodes", "50", "--rounds", "1"], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    run = subprocess.run([script, "--nodes", "1"], capture_output=True, text=True)
    assert run.returncode == 2
    assert "2 to" in run.stderr


def test_the_page_shows_what_the_exact_commands_print(capsys):
    page = (ROOT / "docs" / "economics.md").read_text(encoding="utf-8")
    commands = ["thresholds", "thresholds --turnout 60", "thresholds --turnout 30", "convictions",
                "convictions --turnout 30", "convictions --turnout 30 --draws 16", "detection",
                "coverage", "choices", "choices --turnout 60", "grinding", "outage", "caps"]  # fmt: skip
    for what in commands:
        main(what.split())
        assert capsys.readouterr().out.strip() in page, f"docs/economics.md: paste `scripts/simulate {what}` again"


def test_the_protocol_page_has_the_tries_of_a_beacon(capsys):
    main(["grinding"])
    assert capsys.readouterr().out.strip() in (ROOT / "docs" / "protocol.md").read_text(encoding="utf-8")
