"""Who was paid and who lost what, as a table; and whether the network did its job against its attackers."""

from collections.abc import Iterator, Mapping, Sequence

from sapo_devnet.accounts import Account, Books
from sapo_verifier.chain.audits import BatchState

STATES = {
    "acc": BatchState.ACCEPTED,
    "rej": BatchState.REJECTED,
    "false": BatchState.PROVEN_FALSE,
    "void": BatchState.VOID,
}
ETHER = 10**18
LUCK = 0.01  # pay is divided and rounded down in each round, which weigh differently
LEGEND = """acc, rej, false, void: how its batches ended (false: proven on chain); disp: of them went through stage 2.
Coins: bond left, fined, slashed, received for proofs and settling, and won or lost in all without gas. Tokens: earned
for right completions (work) and right verdicts (audit). why: checks behind rejects and voids, from honest reports."""


def pay_table(accounts: Sequence[Account]) -> str:
    head = ["node", "batches", *STATES, "disp", "bond", "fined", "slashed", "received", "coins", "work", "audit", "why"]
    lines = [head, *(_line(account) for account in accounts)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(head))]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if i in (0, len(head) - 1) else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    )


def _line(account: Account) -> list[str]:
    coins = (account.bond, account.fined, account.slashed, account.received, account.coins)
    return [
        account.name,
        str(sum(account.batches.values())),
        *(str(account.batches.get(state, 0)) for state in STATES.values()),
        str(account.disputed),
        *(f"{amount / ETHER:.3f}" for amount in coins),
        f"{account.producer / ETHER:.1f}",
        f"{account.auditor / ETHER:.1f}",
        _why(account),
    ]


def _why(account: Account) -> str:
    parts = [f"{check} ×{count}" for check, count in sorted(account.checks.items())]
    parts += [f"{debt} ×{count}" for debt, count in sorted(account.debts.items())]
    parts += (
        [f"{account.score} right, {account.paid_verdicts} verdicts paid"] if account.producer + account.auditor else []
    )
    return "; ".join(parts)


def failures(books: Books, false_batches: Mapping[str, int], rounds: int) -> Iterator[str]:
    """Everything that must not happen, in words.

    false_batches: attack → how many honest batches it may have. rounds: in which each node was to publish.
    """
    yield from books.errors
    honest = [account for account in books.accounts if account.attack is None]
    for account in books.accounts:
        accepted = account.batches.get(BatchState.ACCEPTED, 0)
        if account.attack is None:
            yield from _honest_harmed(account, rounds)
            continue
        if account.attack in false_batches and accepted > false_batches[account.attack]:
            yield f"{account.name} was paid for {accepted} batches, which are false or not to be had"
        yield from _attack_paid(account, honest)


def _attack_paid(account: Account, honest: Sequence[Account]) -> Iterator[str]:
    """An attacker may not end with more than it started with, nor be paid better than honest nodes for the same.

    Coins: without gas, which only makes it worse. Tokens for work are compared per right completion, with the mean of
    the honest nodes: how many are right is luck, and the policy's. Tokens for audits are not: everybody judges
    everybody, so the best honest node is the measure (the mean suffers where one of them missed a vote).
    """
    if account.coins > 0:
        yield f"the attacker {account.name} ends with {account.coins / ETHER:.3f} coins more than it started with"
    work, ones = sum(a.producer for a in honest), sum(a.ones for a in honest)
    if account.producer * ones > work * account.ones * (1 + LUCK):
        its, theirs = account.producer / max(1, account.ones) / ETHER, work / max(1, ones) / ETHER
        words = f"was paid {its:.2f} tokens for each right completion, and honest nodes {theirs:.2f}"
        yield f"the attacker {account.name} {words}"
    best = max((a.auditor for a in honest), default=0)
    if account.auditor > best * (1 + LUCK):
        yield f"the attacker {account.name} earned more by auditing than any honest node"


def _honest_harmed(account: Account, rounds: int) -> Iterator[str]:
    rejected = account.batches.get(BatchState.REJECTED, 0) + account.batches.get(BatchState.PROVEN_FALSE, 0)
    if rejected:
        yield f"{rejected} batches of the honest {account.name} were rejected"
    if account.batches.get(BatchState.VOID, 0):
        yield f"{account.batches[BatchState.VOID]} batches of the honest {account.name} ended void"
    if sum(account.batches.values()) < rounds:
        yield f"the honest {account.name} published {sum(account.batches.values())} batches in {rounds} rounds"
    if account.slashed:
        yield f"the honest {account.name} was slashed"
    if account.coins < 0:
        yield f"the honest {account.name} lost {-account.coins / ETHER:.3f} coins"
    if account.fined:
        yield f"the honest {account.name} was fined: {', '.join(account.debts)}"
    if account.producer + account.auditor == 0:
        yield f"the honest {account.name} earned nothing"
    if account.claimed < account.producer + account.auditor:
        yield f"the honest {account.name} has not got all that it earned"
