"""What the node's account holds, against what its rounds cost; and the fee cap against what a block asks."""

from dataclasses import dataclass
from pathlib import Path

from sapo_client.duties.health.outbox import read
from sapo_verifier.chain.errors import coins
from sapo_verifier.chain.signing import GWEI

# Gas of a node's round before the outbox can tell: a policy, a batch, verdicts committed and revealed, a claim.
GAS_OF_A_ROUND = 700_000
MEASURED_ROUNDS = 10


@dataclass(frozen=True)
class Money:
    """What was read; wei, and wei per gas."""

    operator: str
    balance: int
    gas: int  # of a round
    price: int  # of gas: the latest block's, with the node's tip
    rounds: int  # that the balance is to last for: `[health] gas_rounds`
    base_fee: int
    fee_cap: int


def gas_of_a_round(path: Path, first_block: int, round_blocks: int) -> int:
    """Gas of the transactions that an outbox had mined, on the average of the last rounds that had any; by what they
    were signed with, a quarter above what they used."""
    rows = read(
        path,
        "SELECT entry.block, attempt.gas FROM entry JOIN attempt ON attempt.hash = entry.hash "
        "WHERE entry.status = 'mined' AND entry.block >= ? AND entry.key NOT LIKE 'register/%' "
        "ORDER BY entry.block DESC LIMIT 1000",
        first_block,
    )
    by_round: dict[int, int] = {}
    for block, gas in rows:
        round_ = (int(block) - first_block) // round_blocks
        by_round[round_] = by_round.get(round_, 0) + int(gas)
    latest = [by_round[round_] for round_ in sorted(by_round, reverse=True)[:MEASURED_ROUNDS]]
    return sum(latest) // len(latest) if latest else GAS_OF_A_ROUND


def tip_of(path: Path) -> int:
    """Wei per gas that the newest transaction offers beside the base fee; 0 where there is none."""
    rows = read(path, "SELECT tip FROM attempt ORDER BY rowid DESC LIMIT 1")
    return int(rows[0][0]) if rows else 0


def money_reasons(money: Money) -> list[str]:
    """Nothing left, little left, or fees above what the node may pay."""
    m, wrong = money, []
    round_ = m.gas * m.price
    needed = m.rounds * round_
    if m.balance == 0:
        wrong.append(f"the account {m.operator} is empty: no transaction can be sent; send it coins")
    elif m.balance < needed:
        wrong.append(
            f"the account {m.operator} holds {coins(m.balance)} coins, gas for {m.balance // round_} rounds, less than "
            f"the {m.rounds} of [health] gas_rounds: send it {coins(needed - m.balance)} more"
        )
    if m.base_fee > m.fee_cap:
        wrong.append(
            f"a block asks {m.base_fee / GWEI:g} gwei, above the cap of {m.fee_cap / GWEI:g} ([chain] fee_cap_gwei): "
            "nothing new is sent until a block asks less; raise the cap if a round is worth it"
        )
    return wrong


def runway(money: Money) -> int | None:
    """Rounds that the balance lasts for at this price; None where gas costs nothing."""
    round_ = money.gas * money.price
    return money.balance // round_ if round_ else None


def rounds_left(money: Money) -> str:
    """How long the balance lasts at this price, in words."""
    rounds = runway(money)
    return "for any number of rounds" if rounds is None else f"{rounds} rounds of {money.gas} gas"
