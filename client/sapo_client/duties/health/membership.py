"""The node's place in the contracts: its state, its bond, where peers look for it, and what it owes."""

from collections.abc import Sequence
from dataclasses import dataclass

from sapo_client.duties.debts import Debt
from sapo_verifier.chain.errors import coins
from sapo_verifier.chain.reader import NodeInfo, NodeState

LATE_PART = 2 / 3  # of a round, after which what is to be revealed in it is late


@dataclass(frozen=True)
class Unrevealed:
    """Verdicts that are committed and not revealed. overdue: too late, and a fee is due; else until `last_block`."""

    round: int
    stage: int
    overdue: bool
    last_block: int


@dataclass(frozen=True)
class Member:
    """What was read. bond: wei of a full one; endpoint: the one that the node serves at, by its own word."""

    info: NodeInfo
    bond: int
    endpoint: str
    debts: Sequence[Debt]
    unrevealed: Sequence[Unrevealed]
    leaves: bool = False  # its operator asked to exit


def member_reasons(member: Member) -> list[str]:
    """What keeps the node from taking part, or from being found."""
    info, wrong = member.info, []
    if info.state is NodeState.SLASHED:
        return ["the node was slashed: its bond is gone, and it can take no part again; start over with another key"]
    if info.state is not NodeState.REGISTERED and not (info.state is NodeState.EXITING and member.leaves):
        wrong.append(f"the chain says that the node is {info.state.value}: it cannot publish")
    if info.state not in (NodeState.REGISTERED, NodeState.EXITING):
        return wrong
    if info.state is NodeState.REGISTERED and info.bond < member.bond:
        wrong.append(
            f"the bond is short of {coins(member.bond - info.bond)} coins, so the node can promise nothing; while it "
            f"runs it tops it up by itself if {info.operator} holds enough"
        )
    if member.debts:
        rounds = ", ".join(str(debt.round) for debt in member.debts)
        wrong.append(
            f"overdue of round {rounds}: {coins(sum(debt.fee for debt in member.debts))} coins in fees; while the "
            "node runs it settles that by itself, in its next round"
        )
    wrong += [_unrevealed(verdicts) for verdicts in member.unrevealed]
    if info.endpoint != member.endpoint:
        wrong.append(
            f"peers look for its blocks at {info.endpoint[:300]!a}, as the chain says, and the node serves them at "
            f"{member.endpoint}: `sapo set-endpoint` corrects that, or says what its owner"
            " has to call"
        )
    return wrong


def _unrevealed(verdicts: Unrevealed) -> str:
    what = f"the verdicts on round {verdicts.round}, stage {verdicts.stage}, were committed and"
    if verdicts.overdue:
        return f"{what} not revealed in time: a fee is due; ballots.sqlite has to stay, and the node to run every round"
    return (
        f"{what} are not revealed yet: the node has until block {verdicts.last_block}, or they cost a fee; see what "
        "its outbox waits for"
    )
