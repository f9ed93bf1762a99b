"""What is watched of a node's place on chain: what it holds, owes, earns, and what is said of its batches and by it.

The chain's numbers are those of the last look (standing.Told.numbers); what it did not read is not shown.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sapo_client.duties.health.judged import ACCEPT, REJECT, VOID
from sapo_client.duties.health.outbox import read
from sapo_verifier.metric import Metric, Value

COIN = 10**18
NAMES = {ACCEPT: "accept", REJECT: "reject", VOID: "void"}
Numbers = Mapping[str, Any]


def _amount(name: str, key: str, words: str) -> Metric[Numbers]:
    def of(numbers: Numbers) -> Value:
        found = numbers.get(key)
        return None if found is None else found / COIN

    return Metric(f"sapo_{name}", words, of)


def _last_pay(numbers: Numbers) -> Value:
    paid = numbers.get("pay")
    return paid[max(paid)] / COIN if paid else None


STANDING: tuple[Metric[Numbers], ...] = (
    _amount("balance_coins", "balance", "Coins that the node's account holds for gas."),
    Metric("sapo_runway_rounds", "Rounds that these coins last for at the latest price.", lambda n: n.get("runway")),
    _amount("bond_coins", "bond", "The node's bond."),
    _amount("bond_asked_coins", "bond_asked", "A full bond."),
    _amount("pay_ready_tokens", "pay_ready", "Pay of final rounds that is not claimed yet."),
    _amount("pay_held_tokens", "tokens", "Tokens that the node's owner holds."),
    Metric("sapo_pay_last_round_tokens", "What the last final round pays this node.", _last_pay),
    Metric("sapo_batches_not_final", "Own batches whose pay is still open.", lambda n: n.get("pay_open")),
    Metric(
        "sapo_verdicts_received", "Verdicts of others on own batches of the last ten rounds.",
        lambda n: n.get("received"), "verdict",
    ),
)  # fmt: skip

GIVEN: tuple[Metric[Path], ...] = (
    Metric(
        "sapo_verdicts_given", "Verdicts of this node on rounds that are not final.", lambda p: verdicts_given(p),
        "verdict",
    ),
)  # fmt: skip


def verdicts_given(ballots: Path) -> dict[str, float]:
    """By kind, without abstentions, as the node's ballots have them; zeros where there are none."""
    counts = dict.fromkeys(NAMES.values(), 0.0)
    for (word,) in read(ballots, "SELECT word FROM ballot"):
        left = int(word, 16)
        while left:
            if name := NAMES.get(left & 3):
                counts[name] += 1
            left >>= 2
    return counts


class Earned:
    """Pay of the rounds that became final while this is here, by the looks at the chain."""

    def __init__(self) -> None:
        self.amount = 0
        self._last: int | None = None  # the last round that is counted, or was final at the first look

    def look(self, numbers: Numbers) -> None:
        """numbers: of a look; one that did not get as far as the pay tells nothing."""
        paid: Mapping[int, int] | None = numbers.get("pay")
        if paid is None:
            return
        if self._last is not None:
            self.amount += sum(amount for round_, amount in paid.items() if round_ > self._last)
        self._last = max([*paid, -1 if self._last is None else self._last])


EARNED: tuple[Metric[Earned], ...] = (
    Metric(
        "sapo_pay_earned_tokens_total", "Pay of the rounds that became final since the node started.",
        lambda earned: earned.amount / COIN,
    ),
)  # fmt: skip
