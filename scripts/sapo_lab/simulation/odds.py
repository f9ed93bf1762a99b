"""The tables of docs/economics.md that are sums, not samples."""

from collections.abc import Sequence
from dataclasses import replace

from sapo_lab.simulation.choices import Rules
from sapo_lab.simulation.exact import binomial, fate
from sapo_lab.simulation.rules import PROVERS_SHARE
from sapo_lab.simulation.tables import markdown, members, percent

SIZES = (4, 10, 13, 25, 50, 100, 1_000, 10_000)
SHARES = (0.1, 0.2, 0.25, 0.3, 0.34, 0.4, 0.5, 0.6, 0.67)


def scientific(p: float) -> str:
    if p < 1e-15:
        return "0"
    return f"{p:.1e}" if p < 1e-3 else percent(p)


def convictions(rules: Rules, sizes: Sequence[int] = SIZES, shares: Sequence[float] = SHARES) -> str:
    """How likely an honest batch is rejected, if every malicious node rejects it and every honest one accepts it."""
    rows = []
    for nodes in sizes:
        row = [f"{nodes:,}"]
        for share in shares:
            bad = members(nodes, share)
            row.append(scientific(fate(nodes - 1 - bad, bad, nodes, rules).rejected))
        rows.append(row)
    return markdown(["nodes", *(f"{share:.0%}".replace("%", " %") for share in shares)], rows)


def thresholds(rules: Rules, nodes: int, shares: Sequence[float] = SHARES) -> str:
    """Honest and false batches by malicious share, in one large network."""
    rows = []
    for share in (0.0, *shares):
        bad = members(nodes, share)
        honest = fate(nodes - 1 - bad, bad, nodes, rules)
        false = fate(max(bad - 1, 0), nodes - max(bad, 1), nodes, rules)
        rows.append(
            [
                f"{share:.0%}".replace("%", " %"), scientific(1 - honest.stage_1_accepts),
                *map(scientific, (honest.accepted, honest.void, honest.rejected)),
                *map(scientific, (false.accepted, false.void, false.rejected)),
                _price(false.accepted, false.rejected, rules),
            ]
        )  # fmt: skip
    head = ["malicious", "honest: to stage 2", "paid", "void", "slashed", "false: paid", "void", "slashed",
            "unit price at which false work pays"]  # fmt: skip
    return markdown(head, rows)


def choices(rules: Rules, nodes: int) -> str:
    """The same with other windows and other least numbers of rejects."""
    rows = []
    for draws in (4, 8, 16, 32):
        for least in (8, 16, 24):
            tried = replace(rules, draws=draws, min_rejects=least)
            row = [str(draws), str(least)]
            for share in (0.2, 0.3, 0.34):
                bad = members(nodes, share)
                honest = fate(nodes - 1 - bad, bad, nodes, tried)
                false = fate(bad - 1, nodes - bad, nodes, tried)
                row += map(scientific, (honest.void, honest.rejected, false.accepted, false.rejected))
            rows.append(row)
    head = ["draws", "min_rejects"]
    head += [f"{share}: {what}" for share in ("20 %", "30 %", "34 %")
             for what in ("honest void", "honest slashed", "false paid", "false slashed")]  # fmt: skip
    return markdown(head, rows)


def _price(accepted: float, rejected: float, rules: Rules) -> str:
    """The price of a unit, in bonds, from which a full false claim is worth its risk. A self-proof saves a quarter."""
    if accepted == 0:
        return "never"
    price = (1 - PROVERS_SHARE) * rejected / (accepted * rules.completions)
    return "any" if price < 1e-6 else f"{price:.2g}"


def detection(rules: Rules, nodes: int) -> str:
    """How likely at least one of some verifiers that run the model, and are honest, is dealt a false batch."""
    rows = []
    for share in (0.01, 0.02, 0.05, 0.1, 0.2, 0.34, 0.5, 0.66, 0.8, 1.0):
        able = round(share * (nodes - 1))
        missed = [float(binomial(able, min(1.0, rules.window_size(s) / (nodes - 1)))[0]) for s in (1, 2)]
        expected = able * rules.window_size(1) / (nodes - 1)
        # The rest accepts unseen: the worst case, in which the batch is paid if nobody able sees it.
        rest = fate(nodes - 1 - able, able, nodes, rules)
        row = [f"{share:.0%}".replace("%", " %"), f"{expected:.2f}", scientific(1 - missed[0])]
        row += [
            *map(scientific, (rest.accepted, rest.void, rest.rejected)),
            _price(rest.accepted, rest.rejected, rules),
        ]
        rows.append(row)
    head = ["of the others run the model", "of them in a window (mean)", "false batch found in stage 1", "it is paid",
            "void", "slashed", "unit price at which false work pays"]  # fmt: skip
    return markdown(head, rows)
