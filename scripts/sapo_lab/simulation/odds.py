"""The tables of docs/economics.md that are sums, not samples."""

from collections.abc import Sequence
from dataclasses import replace

from sapo_lab.simulation.choices import MEAN_SCORE, Rules
from sapo_lab.simulation.exact import Fate, fate, seats, votes, voting
from sapo_lab.simulation.rules import BOUNTY
from sapo_lab.simulation.text import markdown, members, percent, scientific, whole

SIZES = (4, 10, 13, 25, 50, 100, 1_000, 10_000)
SHARES = (0.1, 0.2, 0.25, 0.3, 1 / 3, 0.4, 0.5, 0.6, 0.67)
TURNOUTS = (1.0, 0.6, 0.3)


def both(nodes: int, share: float, turnout: float, rules: Rules) -> tuple[Fate, Fate]:
    """An honest batch that a cartel rejects, and a cartel's false one. Without a share: false work of one alone."""
    bad = members(nodes, share)
    honest = fate(voting(nodes - 1 - bad, turnout), bad, nodes, rules)
    false = fate(max(bad - 1, 0), voting(nodes - max(bad, 1), turnout), nodes, rules)
    return honest, false


def convictions(
    rules: Rules, turnout: float = 1.0, sizes: Sequence[int] = SIZES, shares: Sequence[float] = SHARES
) -> str:
    """How likely an honest batch is rejected, if every malicious node rejects it and every honest one accepts it.

    If they void it instead, that is how likely it costs the withheld_fee: the marks are the same.
    """
    rows = [
        [f"{nodes:,}", *(scientific(both(nodes, share, turnout, rules)[0].rejected) for share in shares)]
        for nodes in sizes
    ]
    return markdown(["nodes", *map(whole, shares)], rows)


def thresholds(rules: Rules, nodes: int, turnout: float = 1.0, shares: Sequence[float] = SHARES) -> str:
    """Honest and false batches by malicious share, in one large network."""
    rows = []
    for share in (0.0, *shares):
        honest, false = both(nodes, share, turnout, rules)
        rows.append(
            [
                whole(share), scientific(1 - honest.stage_1_accepts),
                *map(scientific, (honest.accepted, honest.void, honest.rejected)),
                *map(scientific, (false.accepted, false.void, false.rejected)),
                bond_needed(false, rules),
            ]
        )  # fmt: skip
    head = ["malicious", "honest: to stage 2", "paid", "void", "slashed", "false: paid", "void", "slashed",
            "bond from which false work loses"]  # fmt: skip
    return markdown(head, rows)


def bond_needed(false: Fate, rules: Rules) -> str:
    """In rounds' pay: the bond from which a false batch with a full claim is worth less than nothing.

    Whoever sees a slash coming proves a fault of its own, and gets a prover's share back: so it costs no more than the
    rest of the bond, and the fines of friends.
    """
    won = false.accepted / MEAN_SCORE
    lost = (1 - BOUNTY) * false.rejected + rules.wrong_verdict_penalty * false.fined
    if won < 1e-15:
        return "any"
    if lost < 1e-15:
        return "none"
    bond = won / lost
    return f"{bond:.2g}" if bond < 100 else f"{bond:.3g}" if bond < 1e6 else f"{bond:.0e}"


def choices(rules: Rules, nodes: int, turnout: float = 1.0) -> str:
    """The same with other windows, least accepts and least rejects."""
    rows = []
    for draws in (4, 8, 16, 32):
        for accepts, rejects in ((2, 8), (4, 8), (4, 16)):
            tried = replace(rules, draws=draws, min_accepts=accepts, min_rejects=rejects)
            alone = both(nodes, 0.0, turnout, tried)[0]
            row = [str(draws), str(accepts), str(rejects), scientific(1 - alone.stage_1_accepts)]
            for share in (0.2, 1 / 3):
                honest, false = both(nodes, share, turnout, tried)
                row += map(scientific, (honest.void, honest.rejected, false.accepted, false.rejected))
            rows.append(row)
    head = ["draws", "min_accepts", "min_rejects", "no malice: honest to stage 2"]
    head += [f"{share}: {what}" for share in ("20 %", "33 %")
             for what in ("honest void", "honest slashed", "false paid", "false slashed")]  # fmt: skip
    return markdown(head, rows)


def detection(rules: Rules, nodes: int) -> str:
    """How likely at least one of some verifiers that run the model, and are honest, is dealt a false batch."""
    rows = []
    for share in (0.01, 0.02, 0.05, 0.1, 0.2, 1 / 3, 0.5, 0.66, 0.8, 1.0):
        able = round(share * (nodes - 1))
        missed = float(votes(0, able, nodes, rules.window_size(1))[0, 0])
        # The rest accepts unseen: the worst case, in which the batch is paid if nobody able sees it.
        rest = fate(nodes - 1 - able, able, nodes, rules)
        rows.append(
            [
                whole(share), f"{able * rules.window_size(1) / (nodes - 1):.2f}", scientific(1 - missed),
                *map(scientific, (rest.accepted, rest.void, rest.rejected)),
                bond_needed(rest, rules),
            ]
        )  # fmt: skip
    head = ["of the others run the model", "of them in a window (mean)", "false batch found in stage 1", "it is paid",
            "void", "slashed", "bond from which false work loses"]  # fmt: skip
    return markdown(head, rows)


def coverage(rules: Rules, sizes: Sequence[int] = (5, 10, 50, 1_000)) -> str:
    """How many voters see a batch in stage 1, and how often they are too few to accept it, by turnout."""
    rows = []
    for draws in (rules.draws, 2 * rules.draws):
        tried = replace(rules, draws=draws)
        for nodes in sizes:
            row = [str(draws), f"{nodes:,}"]
            row += [f"{voters}: {percent(chance)}" for voters, chance in seats(nodes, draws).items()][:3]
            row += [""] * (5 - len(row))
            for turnout in TURNOUTS:
                alone = fate(voting(nodes - 1, turnout), 0, nodes, tried)
                row += [scientific(1 - alone.stage_1_accepts), scientific(1 - alone.accepted)]
            rows.append(row)
    head = ["draws", "nodes", "voters: how often", "", ""]
    head += [f"{whole(turnout)} vote: {what}" for turnout in TURNOUTS for what in ("to stage 2", "void")]
    return markdown(head, rows)


def caps(rules: Rules, sizes: Sequence[int] = (5, 8, 10, 14, 25, 50)) -> str:
    """What max_per_verdict leaves of auditors' pay, where all are honest.

    Idle is a node that publishes one slot without a right completion, and accepts everything unseen.
    """
    rows = []
    for nodes in sizes:
        verdicts = min(rules.draws, nodes - 1)
        ones = MEAN_SCORE * rules.completions
        auditors = rules.pool * rules.auditors_share
        produced = ones * min((rules.pool - auditors) / (nodes * ones), rules.max_per_unit)
        row = [str(nodes), f"{auditors / (nodes * verdicts):.1f}"]
        for cap in (rules.pool, rules.max_per_verdict, 9.0):
            idle = verdicts * min(auditors / (nodes * verdicts), cap)
            row += [f"{idle:.0f}", percent(idle / (idle + produced))]
        rows.append(row)
    head = ["nodes", "tokens a verdict, uncapped"]
    for what in ("uncapped", f"at most {rules.max_per_verdict:g}", "at most 9"):
        head += [f"{what}: an idle node's tokens", "of an honest node's"]
    return markdown(head, rows)
