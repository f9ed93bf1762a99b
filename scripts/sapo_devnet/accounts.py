"""Who published what, what became of it, and who paid and earned what: from the chain's events and views alone.

Only the name of the check behind a reject comes from elsewhere: from the reports that honest voters named on chain.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from sapo_devnet.chain import FUNDS, Chain
from sapo_verifier.chain.audits import AuditsReader, BatchOutcome, Payout
from sapo_verifier.chain.contracts import Call
from sapo_verifier.chain.events import ChainEvent, pages
from sapo_verifier.chain.reader import ChainReader
from sapo_verifier.facts import BatchInfo
from sapo_verifier.objects import VerdictReport

NOBODY = "0x" + "00" * 20  # burned coins go there
VERDICTS = ("abstain", "accept", "reject", "void")


AMOUNTS = {
    *("bonded", "bond", "fined", "slashed", "received", "dispute_bonds", "disputes_returned", "gas", "balance"),
    *("producer", "auditor", "claimed", "tokens", "coins"),
}


@dataclass
class Account:
    """One node. Coins and tokens in wei."""

    name: str
    node: str
    attack: str | None
    batches: dict[str, int] = field(default_factory=dict)  # by their final state
    disputed: int = 0  # of them went through stage 2
    checks: dict[str, int] = field(default_factory=dict)  # honest voters' findings against them, by check
    verdicts: dict[str, int] = field(default_factory=dict)  # its own, by word
    bonded: int = 0  # registered with, and topped up
    bond: int = 0  # left
    fined: int = 0
    slashed: int = 0
    debts: dict[str, int] = field(default_factory=dict)  # what it was fined or slashed for
    received: int = 0  # for proofs, settling and bounties
    dispute_bonds: int = 0  # locked
    disputes_returned: int = 0
    gas: int = 0
    balance: int = 0
    ones: int = 0  # of the claims of all its batches
    score: int = 0  # of those that are paid
    paid_verdicts: int = 0
    producer: int = 0  # tokens
    auditor: int = 0
    claimed: int = 0
    tokens: int = 0

    @property
    def coins(self) -> int:
        """Won or lost, without gas."""
        return self.received - self.fined - self.slashed - self.dispute_bonds + self.disputes_returned

    def to_json(self) -> dict[str, Any]:
        """Amounts as text: they do not fit other readers' numbers."""
        values = asdict(self) | {"coins": self.coins}
        return {key: str(value) if key in AMOUNTS else value for key, value in values.items()}


@dataclass(frozen=True)
class BatchAccount:
    """One batch: its producer, how it ended, and the checks that honest voters say failed or were void."""

    batch: BatchInfo
    outcome: BatchOutcome
    checks: Counter[str]

    def to_json(self, names: Mapping[str, str]) -> dict[str, Any]:
        return {
            "index": self.batch.index,
            "node": names[self.batch.node],
            "round": self.batch.round,
            "state": self.outcome.state,
            "disputed": self.outcome.in_stage_2,
            "checks": self.checks,
        }


@dataclass(frozen=True)
class Books:
    """All accounts, all batches of final rounds, and the sums that are off, in words."""

    accounts: list[Account]
    batches: list[BatchAccount]
    burned: int
    errors: list[str]

    def to_json(self) -> dict[str, Any]:
        names = {account.node: account.name for account in self.accounts}
        return {
            "accounts": {account.name: account.to_json() for account in self.accounts},
            "burned": str(self.burned),
            "ends": [entry.to_json(names) for entry in self.batches],
        }


DEBTS = ("missed batch", "missed reveal", "wrong verdict", "rejected batch", "withheld batch")


def books(
    chain: Chain,
    reader: ChainReader,
    accounts: Sequence[Account],
    reports: Sequence[VerdictReport],
    last_round: int,
) -> Books:
    """Fill in the accounts, given with name, node and attack. reports: of the honest voters.

    last_round: the last one that is final.
    """
    audits = AuditsReader(reader)
    by_node = {account.node: account for account in accounts}
    events = [event for page in pages(reader, None) for event in page.events]
    bond = audits.terms().dispute_bond
    for event in events:
        _enter(event, by_node, bond)
    batches = _batches(reader, audits, reports, last_round)
    for entry in batches:
        _add(by_node[entry.batch.node].batches, entry.outcome.state)
        by_node[entry.batch.node].disputed += entry.outcome.in_stage_2
        by_node[entry.batch.node].ones += entry.batch.claim.bit_count()
        for check, count in entry.checks.items():
            _add(by_node[entry.batch.node].checks, check, count)
    payouts = {account.node: audits.payouts_of(account.node, range(last_round + 1)) for account in accounts}
    gas = _gas(chain, reader)
    for account, info in zip(accounts, reader.nodes_of([account.node for account in accounts]), strict=True):
        account.bond, account.balance, account.gas = info.bond, reader.balance(account.node), gas[account.node]
        account.tokens = reader.call(Call("token", "balanceOf", (account.node,)))
        account.score = sum(pay.score for pay in payouts[account.node])
        account.paid_verdicts = sum(pay.verdicts for pay in payouts[account.node])
        account.producer = sum(pay.producer for pay in payouts[account.node])
        account.auditor = sum(pay.auditor for pay in payouts[account.node])
    burned = _burned(events, bond)
    errors = [*_errors(reader, audits, accounts, payouts, events, last_round)]
    return Books(list(accounts), batches, burned, errors)


def _enter(event: ChainEvent, accounts: Mapping[str, Account], dispute_bond: int) -> None:
    """What one event says of coins and votes. Strangers (a beneficiary 0, a bounty's keeper) have no account."""
    args = event.args
    node = accounts.get(args.get("node", args.get("voter", args.get("disputer", NOBODY))))
    match event.name:
        case "NodeRegistered" if node:
            node.bonded += args["bond"]
        case "BondToppedUp" if node:
            node.bonded += args["amount"]
        case "NodeFined" if node:
            node.fined += args["paid"] + args["burned"]
            if caller := accounts.get(args["caller"]):
                caller.received += args["paid"]
        case "NodeSlashed" if node:
            node.slashed += args["paid"] + args["burned"]
            if beneficiary := accounts.get(args["beneficiary"]):
                beneficiary.received += args["paid"]
        case "NodeProvenFalse" if node:
            _add(node.debts, "proven false")
        case "Settled" if node:
            _add(node.debts, DEBTS[args["debt"]])
        case "BatchDisputed" if node:
            node.dispute_bonds += args["bond"]
        case "DisputeClosed" if node:
            returned = dispute_bond if args["paidBack"] else 0
            node.disputes_returned += returned
            node.received += args["amount"] - returned
        case "BountyClaimed" if node:
            node.received += args["part"]
        case "VerdictsRevealed" if node:
            word = args["verdicts"]
            while word:
                if word & 3:
                    _add(node.verdicts, VERDICTS[word & 3])
                word >>= 2
        case "RewardClaimed" if node:
            node.claimed += args["producer"] + args["auditor"]
        case _:
            pass


def _batches(
    reader: ChainReader, audits: AuditsReader, reports: Sequence[VerdictReport], last_round: int
) -> list[BatchAccount]:
    infos = [info for info in reader.batches_at(range(reader.batch_count())) if info.round <= last_round]
    checks: dict[int, Counter[str]] = {info.index: Counter() for info in infos}
    for report in reports:
        for entry in report.batches:
            decisive = [finding for finding in entry.findings if finding.status in ("fail", "void")]
            if decisive and entry.index in checks:
                checks[entry.index][decisive[0].check] += 1
    outcomes = audits.outcomes_of([info.index for info in infos])
    return [BatchAccount(info, outcome, checks[info.index]) for info, outcome in zip(infos, outcomes, strict=True)]


def _gas(chain: Chain, reader: ChainReader) -> Counter[str]:
    """What each sender paid for gas since the deployment, in wei."""
    paid: Counter[str] = Counter()
    for block in range(reader.deployment.block + 1, reader.block_number() + 1):
        for receipt in chain.rpc("eth_getBlockReceipts", hex(block)):
            paid[receipt["from"].lower()] += int(receipt["gasUsed"], 16) * int(receipt["effectiveGasPrice"], 16)
    return paid


def _burned(events: Sequence[ChainEvent], dispute_bond: int) -> int:
    bonds: int = sum(event.args["burned"] for event in events if event.name in ("NodeFined", "NodeSlashed"))
    return bonds + sum(dispute_bond for e in events if e.name == "DisputeClosed" and not e.args["paidBack"])


def _bounties(events: Sequence[ChainEvent], disputes: str, dispute_bond: int) -> int:
    """What was set aside of slashed bonds, and nobody has fetched yet."""
    left: int = sum(e.args["paid"] for e in events if e.name == "NodeSlashed" and e.args["beneficiary"] == disputes)
    for event in events:
        if event.name == "BountyClaimed":
            left -= event.args["part"]
        elif event.name == "DisputeClosed":
            left -= event.args["amount"] - (dispute_bond if event.args["paidBack"] else 0)
    return left


def _errors(
    reader: ChainReader,
    audits: AuditsReader,
    accounts: Sequence[Account],
    payouts: Mapping[str, Sequence[Payout]],
    events: Sequence[ChainEvent],
    last_round: int,
) -> Iterator[str]:
    """Every sum that is off."""
    contracts = reader.deployment.contracts
    for round_ in range(last_round + 1):
        paid, pool = sum(pay[round_].amount for pay in payouts.values()), audits.reward_pool(round_)
        if paid > pool:
            yield f"round {round_} pays {paid}, more than its pool of {pool}"
    if not all(pay.is_final for node in payouts.values() for pay in node):
        yield f"not all rounds up to {last_round} are final"
    yield from _unequal("bonds and what Nodes holds", sum(a.bond for a in accounts), reader.balance(contracts.nodes))
    bond = audits.terms().dispute_bond
    open_bonds = sum(a.dispute_bonds for a in accounts) - bond * sum(e.name == "DisputeClosed" for e in events)
    kept = open_bonds + _bounties(events, contracts.disputes, bond)
    yield from _unequal("open disputes, bounties, and what Disputes holds", kept, reader.balance(contracts.disputes))
    burned = _burned(events, bond)
    yield from _unequal("burned coins and what nobody holds", burned, reader.balance(NOBODY))
    lost = sum(a.fined + a.slashed + a.dispute_bonds - a.disputes_returned for a in accounts) - kept
    yield from _unequal("lost bonds less rewards, and burned", lost - sum(a.received for a in accounts), burned)
    supply: int = reader.call(Call("token", "totalSupply"))
    held: int = reader.call(Call("token", "balanceOf", (contracts.rewards,)))
    yield from _unequal("tokens and the supply", sum(a.tokens for a in accounts) + held, supply)
    for account in accounts:
        yield from _unequal(f"{account.name}'s claims and tokens", account.claimed, account.tokens)
        yield from _unequal(f"{account.name}'s bond", account.bonded, account.bond + account.fined + account.slashed)
        kept = account.balance + account.gas + account.bonded + account.dispute_bonds
        yield from _unequal(f"{account.name}'s coins", kept - account.received - account.disputes_returned, FUNDS)


def _unequal(what: str, left: int, right: int) -> Iterator[str]:
    if left != right:
        yield f"{what}: {left} and {right} differ by {left - right}"


def _add(counts: dict[str, int], key: str, count: int = 1) -> None:
    counts[key] = counts.get(key, 0) + count
