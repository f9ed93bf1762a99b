"""The tables of docs/economics.md that come from playing rounds."""

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from sapo_lab.simulation import rules as r
from sapo_lab.simulation.choices import MEAN_SCORE, Rules, Scores, Setting, Strategy
from sapo_lab.simulation.rounds import Played, play_many
from sapo_lab.simulation.rules import Bools
from sapo_lab.simulation.strategies import Swarm, Truth, swarm
from sapo_lab.simulation.text import markdown, members, percent, whole
from sapo_lab.simulation.values import mean_loss, mean_pay

SIZES = (3, 4, 5, 6, 10, 50, 1_000)
SHARES = (0.0, 0.2, 1 / 3)
BATCHES = 20_000  # per cell of a table, so that small networks are played as often as large ones are large
MOST_ROUNDS = 400


def rounds_for(nodes: int) -> int:
    return max(5, min(MOST_ROUNDS, BATCHES // nodes))


def ends(played: Played, which: Bools) -> list[str]:
    """Paid, void and slashed, as shares of some batches."""
    of = played.ends[which]
    slashed = (of == r.ENDS_REJECTED) | (of == r.ENDS_PROVEN_FALSE)
    return [percent(float(np.mean(part))) for part in (of == r.ENDS_ACCEPTED, of == r.ENDS_VOID, slashed)]


def outcomes_by_size(rules: Rules, setting: Setting, seed: int) -> str:
    """What becomes of honest and of false batches, by size of the network and malicious share.

    Without a malicious share the false batches are those of one node that is alone with them.
    """
    rng = np.random.default_rng(seed)
    rows = []
    for nodes in SIZES:
        for share in SHARES:
            bad = members(nodes, share)
            who = swarm(nodes, max(bad, 1), Strategy.CARTEL if bad else Strategy.FALSE)
            played = play_many(who, rules, rng, rounds_for(nodes), setting)
            is_honest = played.truth == Truth.HONEST
            alone = "1 alone" if not bad else f"{bad} of {nodes} ({whole(bad / nodes)})"
            row = [f"{nodes:,}", alone, *ends(played, is_honest), *ends(played, ~is_honest)]
            if row not in rows:  # one node is a fifth and a third of few
                rows.append(row)
    head = ["nodes", "malicious", "honest: paid", "void", "slashed", "false: paid", "void", "slashed"]
    return markdown(head, rows)


def censorship(rules: Rules, cases: Iterable[tuple[int, int]], seed: int) -> str:
    """What censors earn of honest nodes whose scores differ: who void whatever they can, and who void the best.

    Beside that what the same votes would bring if the pool were divided by what is accepted, as in version 1. No cap
    binds here. cases: nodes, and how many of them are censors.
    """
    rng = np.random.default_rng(seed)
    free = replace(rules, max_per_unit=rules.pool, max_per_verdict=rules.pool)
    setting = Setting(scores=Scores.UNEQUAL)
    rows = []
    for count, bad in cases:
        rounds = max(rounds_for(count), 10)
        theirs = np.tile(np.arange(count) < bad, rounds)
        everybody = play_many(swarm(count, bad, Strategy.HONEST), free, rng, rounds, setting)
        row = [f"{count:,}", f"{bad} ({whole(bad / count)})"]
        for strategy in (Strategy.CENSORS, Strategy.BEST_CENSORS):
            played = play_many(swarm(count, bad, strategy), free, rng, rounds, setting)
            void = float(np.mean(played.ends[~theirs] == r.ENDS_VOID))
            as_accepted = float(np.mean(played.by_accepted[theirs]) / np.mean(everybody.by_accepted[theirs]))
            row += [
                percent(void), f"{_pay_of(played, everybody, theirs, unit=True):.3f}",
                f"{_pay_of(played, everybody, theirs):.3f}", f"{as_accepted:.3f}",
                f"{_pay_of(played, everybody, ~theirs):.3f}", f"{mean_loss(played, ~theirs):.4f}",
            ]  # fmt: skip
        rows.append(row)
    head = ["nodes", "censors"]
    for what in ("all", "the best"):
        head += [f"{what}: honest batches void", "a censor's pay per one claimed", "its whole pay",
                 "as producer, by version 1", "an honest node's pay", "bonds it loses"]  # fmt: skip
    return markdown(head, rows)


def _pay_of(played: Played, everybody: Played, which: Bools, *, unit: bool = False) -> float:
    """The pay of some nodes in what they get in an honest network; unit: as producers, for each one in their claims."""
    if not unit:
        return mean_pay(played, which) / mean_pay(everybody, which)
    now, before = (float(one.producer[which].sum() / one.units[which].sum()) for one in (played, everybody))
    return now / before


def junk(rules: Rules, nodes: int, seed: int) -> str:
    """What made-up hashes with full claims take from honest producers: alone, and of cartels that accept theirs."""
    rng = np.random.default_rng(seed)
    free = replace(rules, max_per_unit=rules.pool)
    rows = []
    for strategy in (Strategy.HIDER, Strategy.JUNK, Strategy.SHIELD):
        for share in (0.05, 0.1, 0.2, 1 / 3):
            bad, rounds = members(nodes, share), max(rounds_for(nodes), 10)
            theirs = np.tile(np.arange(nodes) < bad, rounds)
            row = [strategy.name.lower(), whole(bad / nodes)]
            for mean_score in (MEAN_SCORE, 0.05):
                setting = Setting(scores=Scores.EQUAL, mean_score=mean_score)
                base = play_many(swarm(nodes, bad, Strategy.HONEST), free, rng, rounds, setting)
                played = play_many(swarm(nodes, bad, strategy), free, rng, rounds, setting)
                if mean_score == MEAN_SCORE:
                    row += [*ends(played, theirs), f"{mean_loss(played, theirs):.4f}"]
                row.append(f"{_pay_of(played, base, ~theirs):.3f}")
            rows.append(row)
    head = ["strategy", "of the nodes", "junk: paid", "void", "slashed", "bonds it loses",
            "an honest node's pay, half of its completions right", "5 % right"]  # fmt: skip
    return markdown(head, rows)


def one_swarm(who: Swarm, rules: Rules, rounds: int, setting: Setting, seed: int) -> str:
    """What a swarm's rounds did, by strategy."""
    played = play_many(who, rules, np.random.default_rng(seed), rounds, setting)
    rows = []
    for strategy in Strategy:
        theirs = np.tile(who.strategy == strategy, rounds)
        if not theirs.any():
            continue
        rows.append(
            [
                strategy.name.lower(),
                f"{int(theirs.sum()) // rounds:,}",
                *ends(played, theirs),
                percent(float(played.disputed[theirs].mean())),
                f"{played.producer[theirs].mean():.3f}",
                f"{played.auditor[theirs].mean():.3f}",
                f"{played.fees[theirs].mean():.4f}",
                f"{played.won[theirs].mean():.4f}",
                f"{played.looked[theirs].mean():.1f}",
            ]
        )
    head = ["strategy", "nodes", "paid", "void", "slashed", "in stage 2", "tokens produced", "tokens audited",
            "bonds in fees", "won: proofs and bounties", "batches looked at"]  # fmt: skip
    paid = float(np.sum(played.producer + played.auditor)) / rounds
    end = f"Per round: {paid:,.1f} of {rules.pool:,.0f} tokens paid; {played.settled.mean():.4f} bonds to who settles."
    return markdown(head, rows) + "\n\n" + end
