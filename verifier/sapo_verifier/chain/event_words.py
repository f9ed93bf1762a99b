"""What every event of the contracts means, in words. A test holds this table against the ABIs.

In braces: the event's arguments, as `words_of` writes them: amounts in coins or tokens, digests of blocks as CIDs.
"""

from typing import Any

from sapo_verifier.chain.errors import coins
from sapo_verifier.chain.events import ChainEvent
from sapo_verifier.cid import cid
from sapo_verifier.schedule import NO_BATCH

OUTCOMES = ("void", "accepted", "rejected", "proven false")
DEBTS = ("a missed batch", "missed reveals", "a wrong verdict", "a rejected batch", "a withheld batch")
FAULTS = ("a false record", "a false length", "a false chunk", "a false pad leaf")
NAMES = {"from": OUTCOMES, "to": OUTCOMES, "debt": DEBTS, "fault": FAULTS}  # arguments that are enums
AMOUNTS = {"bond", "amount", "paid", "burned", "bondLeft", "part", "fee", "producer", "auditor"}
BLOCKS = {"policy", "manifest", "report"}  # arguments that name a block

WORDS = {
    "NodeRegistered": "the node {node} registered with a bond of {bond} coins; its operator is {operator}, and it "
    "serves blocks at {endpoint}",
    "OperatorChanged": "the operator of the node {node} is {operator} from here on",
    "EndpointChanged": "the node {node} serves blocks at {endpoint} from here on",
    "ExitRequested": "the node {node} asked to leave; its bond can be withdrawn from block {exitBlock} on",
    "BondWithdrawn": "the bond of the node {node}, {amount} coins, went to {to}; it is no node any more",
    "BondToppedUp": "{payer} paid {amount} coins into the bond of the node {node}, which is full again",
    "NodeSlashed": "the node {node} lost its whole bond for ever: {paid} coins went to {beneficiary}, {burned} were "
    "burned",
    "NodeFined": "the node {node} was fined: {paid} coins went to {caller}, who called, {burned} were burned; "
    "{bondLeft} of its bond are left",
    "PolicyCommitted": "the node {node} committed the policy {policy} for round {round}, with {slots} groups to come",
    "BatchSubmitted": "the node {node} submitted batch {index} in round {round}: manifest {manifest}, {slots} groups, "
    "claim {claim}",
    "BeaconCaptured": "round {round} got its beacon {beacon}, which deals its tasks and windows",
    "EntropyCaptured": "the entropy of round {round} was captured: {entropy}",
    "EntropyRequested": "round {round} waits for the signature of drand's round {drandRound}",
    "VerdictsCommitted": "{voter} committed to its verdicts on round {round}, stage {stage}: hash {hash}",
    "VerdictsRevealed": "{voter} revealed its verdicts on round {round}, stage {stage}: {verdicts}, for its window "
    "from position {start} on; its report is {report}",
    "BatchOutcomeChanged": "batch {index} of round {round} would end {to}, and not {from}, if nothing more happened",
    "BatchVoided": "batch {index} of round {round} is void, since its node {node} was slashed for another batch",
    "BatchDisputed": "{disputer} disputed batch {index} of round {round} with {bond} coins, about {about}",
    "DisputeClosed": "the dispute of batch {index} of round {round} about {about} is over: {disputer} got {amount} "
    "coins, its bond came back: {paidBack}",
    "BountyOffered": "for batch {index} of round {round} {parts} bounties of {part} coins wait",
    "BountyClaimed": "{voter} fetched {part} coins for rejecting batch {index} of round {round}",
    "Settled": "the node {node} paid for {debt} of round {round} ({index}): {fee} coins; {caller} called",
    "NodeProvenFalse": "{prover} proved {fault} in batch {index} of round {round}; its node {node} is slashed",
    "RewardClaimed": "the node {node} was paid for round {round}: {producer} tokens for its batch, {auditor} for its "
    "verdicts",
}


def words_of(event: ChainEvent) -> str:
    """One sentence."""
    written = {name: _written(event.name, name, value) for name, value in event.args.items()}
    return WORDS[event.name].format_map(written)


def _written(event: str, name: str, value: Any) -> str:
    if isinstance(value, bytes):
        return cid(value) if name in BLOCKS else "0x" + value.hex()
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int) and name in NAMES:
        return NAMES[name][value] if value < len(NAMES[name]) else str(value)
    if name in AMOUNTS:
        return coins(value)
    if name == "index" and event == "Settled":
        return "no batch of its own" if value == NO_BATCH else f"batch {value}"
    if name in ("claim", "verdicts"):
        return hex(value)
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in str(value))
