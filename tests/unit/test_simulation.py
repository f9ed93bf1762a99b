"""The simulation's rules are the contract's: windows, stages, outcomes, penalties, pay."""

import random
from dataclasses import fields
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sapo_devnet.testkit.networks import small_spec
from sapo_lab.simulation import rules as r
from sapo_lab.simulation.choices import USUAL, Rules, Scores, Setting, Strategy
from sapo_lab.simulation.exact import fate, seats, voting
from sapo_lab.simulation.rounds import Played, play_many
from sapo_lab.simulation.strategies import Truth, swarm
from sapo_lab.simulation.values import mean_loss
from sapo_verifier import protocol

SEED = 20250908


def played(
    nodes: int, bad: int, strategy: Strategy, rounds: int = 20, setting: Setting = USUAL, **changes: Any
) -> tuple[Played, Any]:
    """Rounds, and which of their entries are of the `bad` nodes."""
    made = play_many(swarm(nodes, bad, strategy), Rules(**changes), np.random.default_rng(SEED), rounds, setting)
    return made, np.tile(np.arange(nodes) < bad, rounds)


# --- against the protocol and a transcription of Tallies.sol ---------------------------------------------------------


def test_windows_are_the_protocols():
    rng = random.Random(SEED)
    for _ in range(300):
        count, size = rng.randrange(1, 40), rng.choice((1, 4, 8, 32))
        own = [rng.choice((None, rng.randrange(count))) for _ in range(5)]
        starts = [rng.randrange(count) for _ in own]
        positions, counted = r.windows(
            np.array(starts), count, np.array([count if o is None else o for o in own]), size
        )
        for voter, (start, mine) in enumerate(zip(starts, own, strict=True)):
            assert positions[voter][counted[voter]].tolist() == protocol.window(start, count, mine, size)


def tallies_outcome(
    one: list[int], two: list[int], disputed: bool | None, proven: bool, count: int, rules: Rules
) -> tuple[bool, int, bool]:
    """Tallies.sol, line by line, for one batch: whether it is in stage 2, its outcome, whether it owes the fee.

    disputed: itself, only about its node's answers (False), or not at all (None).
    """

    def carries(given: int, least: int) -> bool:
        return given >= least and given * 3 >= sum(two) * 2

    def condemns(given: int) -> bool:
        return carries(given, rules.min_rejects) and given * 2 >= min(rules.window_size(2), count - 1)

    accepted_in_stage_1 = one[2] == 0 and one[1] >= rules.min_accepts and one[1] >= 2 * (one[0] + one[3])
    in_stage_2 = disputed is not None or not accepted_in_stage_1
    if proven:
        outcome = 3
    elif not in_stage_2 or carries(two[1], rules.min_accepts):
        outcome = 1
    elif condemns(two[2]):
        outcome = 2
    elif not disputed and accepted_in_stage_1:
        outcome = 1
    else:
        outcome = 0
    owes = not accepted_in_stage_1 and outcome == 0 and condemns(two[2] + two[3])
    return in_stage_2, outcome, owes


def test_every_small_tally_ends_as_in_the_contract():
    rules = Rules(draws=2, min_accepts=2, min_rejects=3)
    cases = [
        ([*one], [*two], disputed, proven)
        for one in product(range(2), range(4), range(2), range(2))
        for two in product(range(2), range(6), range(6), (0, 2))
        for disputed, proven in product((None, False, True), (False, True))
    ]
    votes_1, votes_2 = np.array([c[0] for c in cases]), np.array([c[1] for c in cases])
    disputed, proven = np.array([c[2] is not None for c in cases]), np.array([c[3] for c in cases])
    accepted = r.accepted_in_stage_1(votes_1, rules)
    itself = ~accepted | np.array([c[2] is True for c in cases])
    asked = r.Cases(accepted, ~accepted | disputed, itself, proven)
    ends = r.outcomes(asked, votes_2, rules)
    fees = r.withheld(asked, ends, votes_2, rules)
    doubts = r.doubted(votes_2)
    for i, (one, two, itself_, proven_) in enumerate(cases):
        expected = tallies_outcome(one, two, itself_, proven_, len(cases), rules)
        assert (asked.in_stage_2[i], ends[i], fees[i]) == expected, cases[i]
        assert doubts[i] == (two[2] + two[3] > 0 and 3 * (two[2] + two[3]) >= sum(two))


def test_few_who_vote_decide_nothing():
    """Version 1 slashed with nine liars of 30 where four others voted, and paid what three of 30 accepted."""
    assert fate(4, 9, 30, Rules()).rejected == 0
    assert fate(3, 0, 30, Rules()).accepted == 0
    assert fate(4, 0, 30, Rules()).accepted > 0.9


def test_what_costs_a_voter_a_penalty():
    """Accepts of what ends proven false, of stage 2 accepts of what ends rejected, and rejects of what it accepts."""
    ends = np.arange(4)
    found, standing = (
        {
            (verdict, stage, int(end))
            for verdict, stage in product(range(4), (1, 2))
            for end in ends[r.punished(np.full(4, verdict), ends, np.full(4, carried), stage)]
        }
        for carried in (True, False)
    )
    expected = {(r.ACCEPT, 1, r.ENDS_PROVEN_FALSE), (r.ACCEPT, 2, r.ENDS_PROVEN_FALSE), (r.ACCEPT, 2, r.ENDS_REJECTED)}
    assert found == expected | {(r.REJECT, 1, r.ENDS_ACCEPTED), (r.REJECT, 2, r.ENDS_ACCEPTED)}
    assert standing == expected, "too few rejected what its node answered: it stands, and they were not wrong"


def test_who_rejects_false_answers_is_not_fined_where_too_few_vote():
    """Twenty nodes, all of one batch's six voters in stage 2 reject its node's answers: half of all dealt are more."""
    nodes, rules = 20, Rules()
    positions = np.zeros((nodes, 1), dtype=np.int64)
    rejects = np.full((nodes, 1), r.REJECT)
    voting_two = (np.arange(nodes) < 6)[:, None]
    marks = [np.arange(nodes) == 0] * 2  # accepted in stage 1, and in stage 2
    two = r.Ballots(positions, rejects, voting_two)
    one = r.Ballots(positions, rejects, np.zeros((nodes, 1), dtype=np.bool_))
    for itself, end in ((False, r.ENDS_ACCEPTED), (True, r.ENDS_VOID)):
        cases = r.Cases(*marks, np.full(nodes, itself), np.zeros(nodes, dtype=np.bool_))
        judged = r.judge(one, two, cases, rules)
        assert judged.ends[0] == end
        assert not judged.wrong.any()


def test_half_of_all_dealt_have_to_reject():
    """Few who reveal, while others cannot, slash nobody; where the network is small, half of it is enough."""
    rules = Rules()
    for count, least in ((1_000, 16), (25, 12), (17, 8), (9, 8)):
        for rejects in range(7, 18):
            got = r.condemned(np.array(rejects), np.array(rejects), count, rules)
            assert got == (rejects >= max(least, rules.min_rejects))


# --- what the economics rest on --------------------------------------------------------------------------------------


def test_the_defaults_are_the_devnets_but_for_its_size(monkeypatch):
    from sapo_verifier import networks

    monkeypatch.setattr(networks, "base_rule", lambda *_, **__: small_spec().bases[0])
    spec = networks.pocket_spec(Path())
    bond, token = int(spec.chain.bond, 16), 10**18
    expected = {
        "draws": spec.chain.draws,
        "min_accepts": 4,  # docs/economics.md; fewer on a devnet, as the next one
        "min_rejects": 8,
        "max_per_verdict": int(spec.chain.max_per_verdict, 16) / token,
        "completions": spec.max_slots * spec.group_size,
        "auditors_share": spec.chain.auditors_share / 10_000,
        "pool": int(spec.chain.initial_pool, 16) / token,
        "max_per_unit": int(spec.chain.max_per_unit, 16) / token,
    }
    taken = ("dispute_bond", "missed_batch_fee", "missed_reveal_fee", "wrong_verdict_penalty", "withheld_fee")
    expected |= {name: int(getattr(spec.chain, name), 16) / bond for name in taken}
    assert {f.name: getattr(Rules(), f.name) for f in fields(Rules)} == expected


@pytest.mark.parametrize("nodes", [5, 10, 200])
def test_honest_networks_pay_everybody(nodes):
    made, _ = played(nodes, 0, Strategy.HONEST, max_per_unit=1e9, max_per_verdict=1e9)
    assert np.mean(made.ends == r.ENDS_ACCEPTED) == 1
    assert not made.slashed.any()
    assert made.fees.sum() == 0
    assert (made.producer + made.auditor).sum() == pytest.approx(20 * Rules.pool)


def test_every_batch_has_draws_voters_but_for_one():
    made, _ = played(40, 0, Strategy.HONEST, rounds=200)
    expected = seats(40, Rules.draws)
    assert sorted(expected) == [7, 8, 9]
    for voters, chance in expected.items():
        assert np.mean(made.seen == voters) == pytest.approx(chance, abs=0.02)
    assert np.isin(made.seen, list(expected)).all()
    made, _ = played(9, 0, Strategy.HONEST)
    assert (made.seen == 8).all()
    assert seats(9, 8) == {8: 1.0}


def test_who_has_no_batch_has_no_verdicts():
    made, _ = played(30, 10, Strategy.ABORTER)
    assert made.looked[made.truth == Truth.MISSING].sum() == 0
    assert (made.looked[made.truth == Truth.HONEST] >= Rules.draws).all()


@pytest.mark.parametrize(("share", "turnout"), [(0.2, 1.0), (0.33, 1.0), (0.33, 0.6), (0.33, 0.3)])
def test_exact_and_played_agree(share, turnout):
    nodes, bad = 300, round(300 * share)
    made, theirs = played(nodes, bad, Strategy.CARTEL, rounds=60, setting=Setting(turnout))
    honest = fate(voting(nodes - 1 - bad, turnout), bad, nodes, Rules())
    false = fate(bad - 1, voting(nodes - bad, turnout), nodes, Rules())
    assert np.mean(made.ends[~theirs] == r.ENDS_ACCEPTED) == pytest.approx(honest.accepted, abs=0.05)
    assert np.mean(made.ends[theirs] == r.ENDS_ACCEPTED) == pytest.approx(false.accepted, abs=0.05)
    assert np.mean(made.slashed[theirs]) == pytest.approx(false.rejected, abs=0.05)


@pytest.mark.parametrize(
    "strategy",
    [Strategy.FALSE, Strategy.PROVABLE, Strategy.HIDER, Strategy.WITHHOLDER, Strategy.DISPUTER, Strategy.LIAR,
     Strategy.SILENT],
)  # fmt: skip
def test_alone_it_does_not_pay(strategy):
    made, theirs = played(300, 3, strategy)
    pay = made.producer + made.auditor
    lost = np.where(made.slashed, 1.0, made.fees)
    assert pay[theirs].mean() < 1.02 * pay[~theirs].mean()
    assert lost[~theirs].sum() == 0
    assert (lost[theirs] > 0).all()
    if strategy in (Strategy.FALSE, Strategy.PROVABLE, Strategy.HIDER, Strategy.WITHHOLDER):
        assert pay[theirs].sum() == 0
    if strategy in (Strategy.HIDER, Strategy.WITHHOLDER):
        assert (lost[theirs] == Rules.withheld_fee).all(), "more than a missed batch"


def test_looking_in_stage_2_alone_loses_nothing():
    """The lazy lose where stage 2 rejects what they accepted; who looks there alone loses nothing, so far."""

    def lost(strategy: Strategy, fee: float) -> float:
        who = swarm(500, 50, strategy, also=[(Strategy.FALSE, 5)])
        made = play_many(who, Rules(missed_reveal_fee=fee), np.random.default_rng(SEED), 20)
        theirs = np.tile(who.strategy == strategy, 20)
        assert made.fees[np.tile(who.strategy == Strategy.HONEST, 20)].sum() == 0
        return float(made.fees[theirs].mean())

    lazy = lost(Strategy.LAZY, Rules.missed_reveal_fee)
    assert lazy > 0.01
    assert lost(Strategy.DOZER, Rules.missed_reveal_fee) == 0
    # Silence is not the cheap way out, as the fee is as much as a wrong verdict.
    assert 0.8 * lazy < lost(Strategy.DODGER, Rules.missed_reveal_fee) < lazy
    assert lost(Strategy.DODGER, 0.4 * Rules.wrong_verdict_penalty) < 0.6 * lazy


def test_a_prover_and_the_first_to_reject_get_a_tenth():
    made, theirs = played(50, 1, Strategy.PROVABLE)
    assert (made.ends[theirs] == r.ENDS_PROVEN_FALSE).all()
    assert made.won.sum() == pytest.approx(20 * r.PROVERS_SHARE)
    made, theirs = played(50, 1, Strategy.FALSE)
    assert (made.ends[theirs] == r.ENDS_REJECTED).all()
    assert made.won.sum() == pytest.approx(20 * r.BOUNTY)
    assert made.won[theirs].sum() == 0


def test_who_slashes_itself_first_does_not_free_its_friends():
    made, theirs = played(50, 10, Strategy.SELF_SLASHERS)
    assert (made.ends[theirs] == r.ENDS_PROVEN_FALSE).all()
    assert made.won[~theirs].sum() < 0.2 * made.won[theirs].sum(), "mostly they prove their own, for a tenth"
    assert mean_loss(made, theirs) > 0.89
    assert made.fees[theirs].mean() > 0.5 * Rules.wrong_verdict_penalty, "who accepts it is fined"


def test_a_starved_voter_sends_nothing_to_stage_2():
    made, theirs = played(50, 15, Strategy.STARVER)
    assert not made.disputed.any()
    assert (made.ends == r.ENDS_ACCEPTED).all()
    assert made.auditor[~theirs].mean() < made.auditor[theirs].mean()


def test_a_friends_dispute_keeps_nobody_elses_away():
    """Of what stage 1 accepts for the coalition, all is void or worse if anybody finds nothing there."""
    shielded, theirs = played(60, 30, Strategy.SHIELD, rounds=60)
    bare, _ = played(60, 30, Strategy.JUNK, rounds=60)
    assert np.mean(shielded.ends[theirs] == r.ENDS_ACCEPTED) == pytest.approx(
        np.mean(bare.ends[theirs] == r.ENDS_ACCEPTED), abs=0.02
    )
    # Only the friend's dispute, about an answer: the batch would stand, though nobody can fetch it.
    votes = np.array([[0, 8, 0, 24]])
    alone, both = (r.Cases(*(np.array([mark]) for mark in (True, True, itself, False))) for itself in (False, True))
    assert [int(r.outcomes(cases, votes, Rules())[0]) for cases in (alone, both)] == [r.ENDS_ACCEPTED, r.ENDS_VOID]


def test_junk_takes_from_others_only_with_friends():
    alone, theirs = played(100, 5, Strategy.HIDER, max_per_unit=1e9)
    honest, _ = played(100, 0, Strategy.HONEST, max_per_unit=1e9)
    friends, many = played(100, 33, Strategy.JUNK, max_per_unit=1e9)
    assert alone.producer[~theirs].mean() > 1.04 * honest.producer.mean(), "five claims fewer to divide by"
    assert friends.producer[~many].mean() < honest.producer.mean(), "and thirty-three that count double"
    assert friends.fees[many].mean() > 0.03


def test_no_verdict_changes_what_others_get_for_a_unit():
    setting = Setting(scores=Scores.UNEQUAL)
    honest, _ = played(200, 0, Strategy.HONEST, setting=setting, max_per_unit=1e9)
    made, theirs = played(200, 68, Strategy.BEST_CENSORS, setting=setting, max_per_unit=1e9)
    void = ~theirs & (made.ends == r.ENDS_VOID)
    assert np.mean(void[~theirs]) > 0.1
    assert made.units[void].mean() > 1.2 * made.units[~theirs].mean()
    per_unit = [one.producer.sum() / one.units[one.ends == r.ENDS_ACCEPTED].sum() for one in (honest, made)]
    assert per_unit[1] == pytest.approx(per_unit[0], rel=0.02)
    assert made.by_accepted[theirs].mean() > 1.1 * honest.by_accepted.mean(), "by version 1 it paid"


def test_small_networks_only_void():
    made, theirs = played(6, 2, Strategy.CARTEL)
    assert (made.truth[theirs] == Truth.FALSE).all()
    assert (made.ends == r.ENDS_VOID).all()
