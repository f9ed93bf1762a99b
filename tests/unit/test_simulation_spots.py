"""Spot checks and answers in the simulation: exact sums against draws, and what docs/economics.md says of them."""

import math

import numpy as np
import pytest

from sapo_devnet.checkout import ROOT
from sapo_lab.simulation import answers, spots, turnouts
from sapo_lab.simulation import rules as r
from sapo_lab.simulation.answers import Costs, Faker, Others
from sapo_lab.simulation.choices import Rules
from sapo_lab.simulation.commands import main
from sapo_lab.simulation.exact import accepted_in_stage_1, fate

SEED = 20250908


# --- spots -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("completions", "false", "drawn"), [(128, 1, 4), (128, 64, 4), (32, 30, 4), (32, 5, 256)])
def test_spots_miss_as_often_as_draws_without_repetition_do(completions, false, drawn):
    drawn = min(drawn, completions)
    expected = math.comb(completions - false, drawn) / math.comb(completions, drawn)
    assert spots.missed(completions, false, drawn) == pytest.approx(expected)


def test_stage_1_with_spots_accepts_as_often_as_rounds_that_are_drawn():
    """A false batch with friends: every honest voter draws spots of its own, and one that finds something is enough."""
    rng = np.random.default_rng(SEED)
    rules, nodes, friends, honest, false, drawn = Rules(draws=6, completions=32), 50, 10, 25, 3, 2
    own, tries, accepted = np.arange(nodes), 3_000, 0
    for _ in range(tries):
        positions, counted = r.windows(rng.permutation(nodes), nodes, own, rules.window_size(1))
        voters = np.flatnonzero((counted & (positions == 0)).any(axis=1))
        looking = int(((voters > friends) & (voters <= friends + honest)).sum())
        found = [(rng.permutation(32)[:drawn] < false).any() for _ in range(looking)]
        accepted += not any(found) and int((voters <= friends).sum()) + looking >= rules.min_accepts
    expected = accepted_in_stage_1(friends, honest, nodes, rules, spots.missed(32, false, drawn))
    assert 0.1 < expected < 0.9
    assert accepted / tries == pytest.approx(expected, abs=4 * math.sqrt(0.25 / tries))


def test_who_misses_nothing_recomputes_all_and_who_misses_all_accepts():
    rules = Rules()
    assert accepted_in_stage_1(200, 600, 1_000, rules, 1.0) == pytest.approx(
        accepted_in_stage_1(800, 0, 1_000, rules), abs=1e-9
    )
    assert fate(200, 600, 1_000, rules, spots.missed(128, 1, 256)) == fate(200, 600, 1_000, rules)


def test_one_false_completion_breaks_even_at_n_over_voters_and_spots():
    """Four units at full turnout, for an author with no pay to lose; a bond of ten rounds' pay is 640."""
    author = spots.author_of(1_000, 0.0, 1.0, right=0.0)
    one = spots.worths(author, Rules(), 4)[0]
    assert one.false == 1
    assert one.units / one.lost == pytest.approx(128 / (8 * 4), rel=0.1)


@pytest.mark.parametrize(("completions", "draws", "drawn"), spots.SPECS)
@pytest.mark.parametrize("right", [0.0, 0.5])
def test_no_number_of_false_completions_pays_up_to_a_third_where_60_percent_vote(completions, draws, drawn, right):
    rules = Rules(completions=completions, draws=draws)
    for share in spots.SHARES:
        for turnout in (1.0, 0.6):
            found = spots.worst(spots.author_of(1_000, share, turnout, right), rules, drawn)
            assert found.gain < 0
            assert found.bond < 4


def test_below_that_it_pays_who_has_no_honest_work_to_lose():
    idle, honest = (spots.worst(spots.author_of(1_000, 1 / 3, 0.3, right), Rules(), 4) for right in (0.0, 0.5))
    assert idle.gain > 50
    assert idle.bond > 1_000
    assert idle.worth.false == Rules.completions
    assert honest.gain < 0


def test_hiding_after_a_reject_would_cost_a_fee_instead_of_a_bond():
    served, hidden = (
        spots.worst(spots.author_of(1_000, 1 / 3, 0.6, 0.0, hides), Rules(), 4) for hides in (False, True)
    )
    assert served.gain < 0 < hidden.gain
    assert hidden.worth.slashed == 0


# --- answers ---------------------------------------------------------------------------------------------------------


def test_a_voter_is_looked_at_as_often_as_in_rounds_that_are_drawn():
    """Windows of a permutation, some of the nodes vote, each of these picks a pair among what others accepted."""
    rng = np.random.default_rng(SEED)
    rules, nodes, turnout, tries = Rules(draws=4), 80, 0.6, 1_500
    others = Others(nodes, turnout, share=0.2)
    own, escapes = np.arange(nodes), np.ones(tries)
    for i in range(tries):
        positions, counted = r.windows(rng.permutation(nodes), nodes, own, rules.window_size(1))
        kind = rng.permutation(np.arange(1, nodes))
        honest, friends = kind[: others.honest], kind[others.honest :][: others.friends]
        windows = {voter: set(positions[voter][counted[voter]].tolist()) for voter in (0, *honest, *friends)}
        for looker in honest:
            pairs = sum(len(windows[looker] & window) for voter, window in windows.items() if voter != looker)
            escapes[i] *= 1 - len(windows[looker] & windows[0]) / max(pairs, 1)
    found = answers.caught(Faker(4, 0.0), others, rules, np.random.default_rng(SEED))
    assert found.mean() == pytest.approx(1 - escapes.mean(), abs=0.02)


def test_who_fakes_all_is_looked_at_with_63_percent_and_who_fakes_one_with_12():
    everybody, rng = Others(1_000, 1.0), np.random.default_rng(SEED)
    all_, one = (answers.caught(Faker(batches, 0.0), everybody, Rules(), rng).mean() for batches in (8, 1))
    expected = 1 - math.prod(1 - (8 - abs(d)) / 56 for d in range(-7, 8) if d)
    assert all_ == pytest.approx(expected)
    assert all_ == pytest.approx(1 - math.exp(-1), abs=0.03)
    assert one == pytest.approx(1 - math.exp(-1 / 8), abs=0.005)


def worth(faker: Faker, turnout: float, share: float = 0.0) -> answers.Worth:
    others = Others(1_000, turnout, share)
    return answers.worth(faker, others, Rules(), 4, np.random.default_rng(SEED), Costs(), draws=4_000)


@pytest.mark.parametrize("guess", answers.GUESSES)
@pytest.mark.parametrize("batches", [1, 8])
def test_faking_loses_ten_times_what_it_saves_where_60_percent_vote(batches, guess):
    for turnout in (1.0, 0.6):
        found = worth(Faker(batches, guess**4), turnout)
        assert found.lost - 4 * found.error > 10 * found.saved


def test_where_stage_2_slashes_nobody_answers_deter_nobody():
    assert worth(Faker(8, 0.85**4), 0.3).value > 0
    assert worth(Faker(8, 0.85**4), 0.6, 1 / 3).value < 0


def test_an_author_of_a_valid_batch_can_hand_out_answers_and_one_of_a_false_batch_cannot():
    handed = worth(Faker(1, 1.0), 1.0)
    assert handed.lost == 0
    assert handed.value == pytest.approx(1.0), "a look's cost: s passes, half of what generating costs"
    assert worth(Faker(1, spots.missed(128, 32, 4)), 1.0).value < 0


def test_a_friend_that_disputes_first_only_pays():
    alone, shielded = (worth(Faker(8, 0.85**4, shield), 1.0) for shield in (False, True))
    assert shielded.caught == alone.caught
    assert shielded.slashed == alone.slashed
    assert shielded.lost > alone.lost


def test_an_audit_costs_an_eighth_of_generating_where_draws_times_spots_are_a_quarter():
    for completions, draws, drawn in spots.SPECS[:3]:
        assert Costs().audit(Rules(completions=completions, draws=draws), drawn) == 1 / 8


# --- turnout ---------------------------------------------------------------------------------------------------------


def test_the_least_turnout_is_where_something_begins_to_lose():
    assert [turnouts.least(lambda turnout, at=at: turnout >= at) for at in (0.345, 0.6, 1.0, 0.0, 2.0)] == [
        "35 %", "60 %", "100 %", "any", "never",
    ]  # fmt: skip
    for turnout, loses in ((0.35, False), (0.36, True)):
        assert turnouts.making_up_loses(Rules(), 4, 1_000, 0.2, 0.0, turnout) == loses
    for turnout, loses in ((0.4, False), (0.5, True)):
        assert turnouts.faking_loses(Rules(), 4, 1_000, 0.2, SEED, Costs(), turnout) == loses


# --- the command -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("what", ["spots", "spots --right 0", "answers", "turnouts"])
def test_the_page_shows_what_the_commands_print(what, capsys):
    page = (ROOT / "docs" / "economics.md").read_text(encoding="utf-8")
    assert main(what.split()) == 0
    for part in capsys.readouterr().out.strip().split("\n\n"):
        assert part in page, f"docs/economics.md: paste `scripts/simulate {what}` again"


@pytest.mark.parametrize("words", ["spots --right 100", "answers --spot 0", "answers --pass -1", "turnouts --nodes 63"])
def test_nonsense_is_refused(words, capsys):
    with pytest.raises(SystemExit):
        main(words.split())
    assert "error" in capsys.readouterr().err
