"""What a node promised on chain and did not do: until it is settled, it can promise nothing and is paid nothing."""

from dataclasses import dataclass

from sapo_verifier.chain.audits import AuditsReader, BallotState
from sapo_verifier.chain.contracts import Call
from sapo_verifier.chain.errors import ChainError, ChainUnavailable
from sapo_verifier.chain.events import events_of
from sapo_verifier.chain.reader import ChainReader
from sapo_verifier.schedule import NO_BATCH, REVEAL_AFTER

LOOK_BACK = 10  # rounds; whoever owes something can promise nothing new, so all debts lie close together


@dataclass(frozen=True)
class Debt:
    """Something overdue of a round. fee: wei, taken from the bond by `call`, which anybody may send; somebody else may
    do so first."""

    round: int
    fee: int
    call: Call


def debts_of(reader: ChainReader, audits: AuditsReader, node: str, current: int) -> list[Debt]:
    """Everything that the node owes in round `current`, by round; [] if it is settled. Raises ChainUnavailable.

    What somebody else settles between two questions is not among it, and a fee of 0 only where the network's rules say
    so: without a settlement that node could promise nothing, either.
    """
    if audits.is_settled(node):
        return []
    # However long ago the node was stopped: what it owes is about the rounds before its last policy.
    _, last, _ = reader.call(Call("rounds", "missedOf", (node,)))
    rounds = {round_ for end in (last, current - 1) for round_ in range(max(0, end - LOOK_BACK), end + 1)}
    calls = [(round_, Call("disputes", "settle", (node, round_, NO_BATCH))) for round_ in sorted(rounds)]
    due = [(round_, call) for round_, call in calls if would_pass(reader, call, node)]
    # The chain may have gone on since `current` was read, and what it settles is what is overdue for the chain.
    current = max(current, reader.current_round())
    fees = [(round_, _fee(reader, audits, node, round_, current), call) for round_, call in due]
    return [Debt(round_, fee, call) for round_, fee, call in fees if fee is not None]


def taken_by(reader: ChainReader, settlement: bytes, node: str) -> tuple[int, int]:
    """Wei that a mined transaction took from the node's bond, and of those what its sender got, as the contracts
    announced it. Raises ChainUnavailable."""
    fines = [e.args for e in events_of(reader, settlement) if e.name == "NodeFined" and e.args["node"] == node]
    return sum(fine["paid"] + fine["burned"] for fine in fines), sum(fine["paid"] for fine in fines)


def would_pass(reader: ChainReader, call: Call, sender: str) -> bool:
    """Whether the contract takes a call in the latest block's state. Raises ChainUnavailable."""
    try:
        reader.call(call, sender=sender)
    except ChainUnavailable:
        raise
    except ChainError:
        return False
    return True


def _fee(reader: ChainReader, audits: AuditsReader, node: str, round_: int, current: int) -> int | None:
    """Wei; None where nothing is owed of the round."""
    terms = audits.terms()
    missed = reader.policy_of(node, round_) is not None and reader.batch_of(node, round_) is None
    ballots = [
        audits.verdicts_of(node, round_, stage)[0] for stage in REVEAL_AFTER if current > round_ + REVEAL_AFTER[stage]
    ]
    hidden = ballots.count(BallotState.COMMITTED)
    return missed * terms.missed_batch_fee + hidden * terms.missed_reveal_fee if missed or hidden else None
