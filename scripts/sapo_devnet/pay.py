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


def failures(books: Books, false_batches: Mapping[str, int]) -> Iterator[str]:
    """Everything that must not happen, in words. false_batches: attack → how many honest batches it may have."""
    yield from books.errors
    for account in books.accounts:
        accepted = account.batches.get(BatchState.ACCEPTED, 0)
        if account.attack is None:
            yield from _honest_harmed(account)
        elif account.attack in false_batches and accepted > false_batches[account.attack]:
            yield f"{account.name} was paid for {accepted} batches, which are false or not to be had"


def _honest_harmed(account: Account) -> Iterator[str]:
    rejected = account.batches.get(BatchState.REJECTED, 0) + account.batches.get(BatchState.PROVEN_FALSE, 0)
    if rejected:
        yield f"{rejected} batches of the honest {account.name} were rejected"
    if account.slashed:
        yield f"the honest {account.name} was slashed"
    if account.fined:
        yield f"the honest {account.name} was fined: {', '.join(account.debts)}"
    if account.producer + account.auditor == 0:
        yield f"the honest {account.name} earned nothing"
    if account.claimed < account.producer + account.auditor:
        yield f"the honest {account.name} has not got all that it earned"
