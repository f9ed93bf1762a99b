"""The tables of docs/economics.md that come from playing rounds."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from sapo_lab.simulation import rules as r
from sapo_lab.simulation.choices import Rules, Strategy
from sapo_lab.simulation.rounds import MEAN_SCORE, Played, play_many
from sapo_lab.simulation.rules import Bools
from sapo_lab.simulation.strategies import Swarm, Truth, swarm

SIZES = (3, 4, 5, 10, 50, 1_000)
SHARES = (0.0, 0.2, 0.34)
BATCHES = 20_000  # per cell of a table, so that small networks are played as often as large ones are large
MOST_ROUNDS = 400


def markdown(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def percent(share: float) -> str:
    """Never rounded to 0 or 100 % if it is not."""
    if share in (0, 1):
        return "100 %" if share else "0 %"
    digits = 0 if 0.1 <= share <= 0.9 else 1 if 0.005 <= share <= 0.995 else 2
    text = f"{100 * share:.{digits}f} %"
    if float(text[:-2]) in (0, 100):
        return "> 99.99 %" if share > 0.5 else "< 0.01 %"
    return text


def members(nodes: int, share: float) -> int:
    """How many nodes a share is: the nearest number, at least one."""
    return max(1, round(share * nodes)) if share else 0


def rounds_for(nodes: int) -> int:
    return max(5, min(MOST_ROUNDS, BATCHES // nodes))


def ends(played: Played, which: Bools) -> list[str]:
    """Paid, void and slashed, as shares of some batches."""
    of = played.ends[which]
    slashed = (of == r.ENDS_REJECTED) | (of == r.ENDS_PROVEN_FALSE)
    return [percent(float(np.mean(part))) for part in (of == r.ENDS_ACCEPTED, of == r.ENDS_VOID, slashed)]


def outcomes_by_size(rules: Rules, seed: int) -> str:
    """What becomes of honest and of false batches, by size of the network and malicious share.

    Without a malicious share the false batches are those of one node that is alone with them.
    """
    rng = np.random.default_rng(seed)
    rows = []
    for nodes in SIZES:
        for share in SHARES:
            bad = members(nodes, share)
            who = swarm(nodes, max(bad, 1), Strategy.CARTEL if bad else Strategy.FALSE)
            played = play_many(who, rules, rng, rounds_for(nodes))
            is_honest = played.truth == Truth.HONEST
            alone = "1 alone" if not bad else f"{bad} of {nodes} ({bad / nodes:.0%})".replace("%", " %")
            rows.append([f"{nodes:,}", alone, *ends(played, is_honest), *ends(played, ~is_honest)])
    head = ["nodes", "malicious", "honest: paid", "void", "slashed", "false: paid", "void", "slashed"]
    return markdown(head, rows)


def attacks(rules: Rules, nodes: int, shares: Sequence[float], seed: int) -> str:
    """What one node of each strategy wins and loses per round, the rest of the network being honest."""
    rng = np.random.default_rng(seed)
    rounds = max(rounds_for(nodes), 20)
    everybody = _mean_pay(play_many(swarm(nodes, 0, Strategy.HONEST), rules, rng, rounds), slice(None))
    rows = []
    for strategy in list(Strategy)[1:]:
        for share in shares:
            bad = members(nodes, share)
            who = swarm(nodes, bad, strategy)
            played = play_many(who, rules, rng, rounds)
            rows.append(_attack_row(strategy, bad, who, played, rounds, everybody))
    head = ["strategy", "of the nodes", "pay", "bonds lost", "honest: pay", "bonds lost", "batches looked at",
            "unit price at which it pays"]  # fmt: skip
    return markdown(head, rows)


def _attack_row(strategy: Strategy, bad: int, who: Swarm, played: Played, rounds: int, base: float) -> list[str]:
    theirs = np.tile(np.arange(who.nodes) < bad, rounds)
    pay, honest_pay = _mean_pay(played, theirs) / base, _mean_pay(played, ~theirs) / base
    lost, honest_lost = _mean_loss(played, theirs), _mean_loss(played, ~theirs)
    return [
        strategy.name.lower(),
        f"{bad / who.nodes:.1%}".replace("%", " %"),
        f"{pay:.3f}",
        f"{lost:.4f}",
        f"{honest_pay:.3f}",
        f"{honest_lost:.4f}",
        f"{played.looked[~theirs].mean():.1f}",
        break_even(pay, lost),
    ]


def break_even(pay: float, lost: float) -> str:
    """From which price of a unit of pay, in bonds, a strategy earns more than if all its nodes were honest.

    pay: in what a round pays a node of an honest network; lost: in bonds.
    """
    units = (pay - 1) * MEAN_SCORE * Rules.completions
    noise = 0.005 * MEAN_SCORE * Rules.completions
    if units <= noise:
        return "never"
    return "always" if lost <= 0 else f"{lost / units:.3g}"


def _mean_pay(played: Played, which: Bools | slice) -> float:
    return float(np.mean(played.producer[which] + played.auditor[which]))


def _mean_loss(played: Played, which: Bools) -> float:
    """Bonds per node and round: fees and slashes, less what it proved."""
    return float(np.mean(np.where(played.slashed, 1.0, played.fees)[which] - played.won[which]))


def coverage(rules: Rules, nodes: Sequence[int], seed: int) -> str:
    """How many voters see a batch, when everybody votes."""
    rng = np.random.default_rng(seed)
    rows = []
    for count in nodes:
        for stage in (1, 2):
            size = rules.window_size(stage)
            seen = _seen(count, size, max(20, min(1_000, 200_000 // count)), rng)
            rows.append(
                [
                    f"{count:,}", str(stage), f"{seen.mean():.2f}", f"{seen.std():.2f}", str(seen.min()),
                    str(int(np.percentile(seen, 1))), str(int(np.percentile(seen, 99))), str(seen.max()),
                    percent(float(np.mean(seen == 0))), percent(float(np.mean(seen < rules.min_accepts))),
                ]
            )  # fmt: skip
    head = ["nodes", "stage", "mean", "deviation", "least", "1 % below", "99 % below", "most", "unseen", "too few"]
    return markdown(head, rows)


def _seen(nodes: int, size: int, rounds: int, rng: np.random.Generator) -> r.Ints:
    own = np.arange(nodes)
    seen = []
    for _ in range(rounds):
        positions, counted = r.windows(rng.integers(0, nodes, nodes), nodes, own, size)
        seen.append(np.bincount(positions[counted], minlength=nodes))
    return np.concatenate(seen)


def censorship(rules: Rules, cases: Iterable[tuple[int, int]], seed: int) -> str:
    """What censors earn, against honest nodes: without a cap on a unit of pay, and with one that just binds.

    cases: nodes, and how many of them are censors.
    """
    rng = np.random.default_rng(seed)
    rows = []
    whole = rules.pool * (1 - rules.auditors_share)
    for count, bad in cases:
        rounds = max(rounds_for(count), 10)
        who = swarm(count, bad, Strategy.CENSORS)
        theirs = np.tile(np.arange(count) < bad, rounds)
        row = [f"{count:,}", f"{bad} ({bad / count:.0%})".replace("%)", " %)")]
        for cap in (rules.pool, whole / (count * MEAN_SCORE * rules.completions)):
            tried = replace(rules, max_per_unit=cap)
            everybody = _mean_pay(play_many(swarm(count, 0, Strategy.HONEST), tried, rng, rounds), slice(None))
            played = play_many(who, tried, rng, rounds)
            if cap == rules.pool:
                void = float(np.mean(played.ends[~theirs] == r.ENDS_VOID))
                row += [percent(void), f"{_mean_loss(played, theirs):.4f}"]
            row += [f"{_mean_pay(played, which) / everybody:.3f}" for which in (theirs, ~theirs)]
        rows.append(row)
    head = ["nodes", "censors", "honest batches void", "bonds they lose", "pay of a censor", "of an honest node",
            "with a binding cap: a censor", "an honest node"]  # fmt: skip
    return markdown(head, rows)


def one_swarm(who: Swarm, rules: Rules, rounds: int, seed: int) -> str:
    """What a swarm's rounds did, by strategy."""
    played = play_many(who, rules, np.random.default_rng(seed), rounds)
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
            "bonds in fees", "won by proofs", "batches looked at"]  # fmt: skip
    paid = float(np.sum(played.producer + played.auditor)) / rounds
    end = f"Per round: {paid:,.1f} of {rules.pool:,.0f} tokens paid; {played.settled.mean():.4f} bonds to who settles."
    return markdown(head, rows) + "\n\n" + end
