"""What it costs an honest node to be away for some rounds, beside version 1.

The node is up until round 0 begins, away for whole rounds, and up again; all others are honest and vote. It commits a
policy a round ahead, as the client does, and nothing is disputed but what its absence brings there.
"""

from dataclasses import dataclass, replace

import numpy as np

from sapo_lab.simulation import rules as r
from sapo_lab.simulation.choices import Rules
from sapo_lab.simulation.text import markdown

LENGTHS = (1, 2, 3, 4, 8)
BOND = 10.0  # what a bond is worth, in rounds' pay of an honest node


@dataclass(frozen=True)
class Cost:
    """rounds: of pay as a producer; verdicts: of pay as an auditor; fees: in bonds."""

    rounds: int
    verdicts: int
    fees: float

    def total(self, rules: Rules) -> float:
        """In rounds' pay."""
        share = rules.auditors_share
        return (1 - share) * self.rounds + share * self.verdicts + BOND * self.fees


def cost(away: int, rules: Rules, *, copies: bool = True) -> Cost:
    """Of being away for rounds 0 … away − 1.

    copies: whether the presence check of r + 3 is content with what accepters serve, or asks the producer alone.
    """

    def up(round_: int) -> bool:
        return not 0 <= round_ < away

    # Without a policy committed in the round before, a round has no batch: so the first one back has none either.
    missing = [round_ for round_ in range(away + 1) if not up(round_) or not up(round_ - 1)]
    unpaid, withheld = [], 0
    for round_ in range(-6, 0):
        accepted, fee = _fate(up(round_ + 1), up(round_ + 3) or copies, up(round_ + 4), rules)
        if not accepted:
            unpaid.append(round_)
        withheld += fee
    # Verdicts about r are committed in r + 1 and revealed in r + 2, and are paid to who is paid for its own batch.
    silent = [round_ for round_ in range(-6, 0) if not (up(round_ + 1) and up(round_ + 2)) or round_ in unpaid]
    unrevealed = sum(up(round_ + 1) and not up(round_ + 2) for round_ in range(-6, 0))
    promised = not up(0)  # the policy for round 0
    fees = promised * rules.missed_batch_fee + unrevealed * rules.missed_reveal_fee + withheld * rules.withheld_fee
    return Cost(len(missing) + len(unpaid), len(missing) + len(silent), fees)


def _fate(served_1: bool, present: bool, served_2: bool, rules: Rules) -> tuple[bool, bool]:
    """Whether an honest batch ends accepted, and whether it costs the fee, by when it could be fetched."""
    count = rules.window_size(2) + 1  # the least that fills stage 2's windows

    def votes(served: bool, number: int) -> r.Ints:
        row = np.zeros((count, 4), dtype=np.int64)
        row[0, r.ACCEPT if served else r.VOID] = number
        return row

    accepted = r.accepted_in_stage_1(votes(served_1, rules.draws), rules)
    itself = np.array([not accepted[0] or not present] * count)
    cases = r.Cases(accepted, itself, itself, np.zeros(count, dtype=np.bool_))
    votes_2 = votes(served_2, rules.window_size(2))
    ends = r.outcomes(cases, votes_2, rules)
    return bool(ends[0] == r.ENDS_ACCEPTED), bool(r.withheld(cases, ends, votes_2, rules)[0])


def table(rules: Rules) -> str:
    """Costs of outages of some lengths, by version 1 and by these rules, these without and with accepters' copies."""
    columns = {
        "version 1": (replace(rules, withheld_fee=0.0), False),
        "version 2": (rules, False),
        "and accepters' copies count": (rules, True),
    }
    rows = []
    for away in LENGTHS:
        row = [str(away)]
        for tried, copies in columns.values():
            one = cost(away, tried, copies=copies)
            row += [str(one.rounds), f"{one.fees:.2f}", f"{one.total(rules):.1f}"]
        rows.append(row)
    head = ["rounds away"]
    for name in columns:
        head += [f"{name}: batches unpaid", "bonds in fees", "all, in rounds' pay"]
    return markdown(head, rows)
