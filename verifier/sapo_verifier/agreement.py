"""What an auditor finds beside what the network decided: do they agree, and why is a batch void?"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from sapo_verifier.audit import CheckResult
from sapo_verifier.chain.audits import BatchOutcome, BatchState
from sapo_verifier.chain.events import between
from sapo_verifier.chain.reader import ChainReader, NodeState
from sapo_verifier.checks import Verdict, verdict
from sapo_verifier.facts import BatchInfo
from sapo_verifier.schedule import FINAL_AFTER, KEEP_AFTER, window_size
from sapo_verifier.spec import ChainRules

Agreed = Literal["agree", "disagree", "unknown"]
REJECTED_BATCH = 3  # of the contract's enum Debt
STOPPED = (BatchState.REJECTED, BatchState.PROVEN_FALSE)


@dataclass(frozen=True)
class Agreement:
    """agreed: whether the network decided as this machine would; words: why."""

    agreed: Agreed
    words: str


def is_expired(batch: BatchInfo, current: int, results: Sequence[CheckResult]) -> bool:
    """Whether the blocks were not to be had because nobody has to serve them any more. current: the round."""
    missing = any(result.check == "available" and result.status != "pass" for result in results)
    return missing and current > batch.round + KEEP_AFTER


def agreement(
    batch: BatchInfo, outcome: BatchOutcome, why_void: str, results: Sequence[CheckResult] | None, current: int
) -> Agreement:
    """results: of the checks here; None: none was run. why_void: as `why_void` has it, "" where it is not void.

    A false batch that ends void earns nothing, so the network decided as a reject would. One that is right and ends
    void, but for its node's slash, was not seen to be right: no agreement.
    """
    state = outcome.state
    if not outcome.is_final:
        return Agreement(
            "unknown", f"not final yet: {state.value}; nothing changes from round {batch.round + FINAL_AFTER} on"
        )
    decided = f"the network's word is {state.value}" + (f" ({why_void})" if why_void else "")
    if results is None:
        return Agreement("unknown", f"{decided}; no check was run here")
    if is_expired(batch, current, results):
        kept = batch.round + KEEP_AFTER
        return Agreement("unknown", f"{decided}; expired: nobody has to serve the blocks since round {kept}")
    mine, last = verdict(results), results[-1]
    if mine is Verdict.ABSTAIN:
        unknown = ", ".join(result.check for result in results if result.status == "unknown")
        return Agreement("unknown", f"{decided}; not known here: {unknown}")
    if mine is Verdict.VOID:
        agreed: Agreed = "agree" if state is BatchState.VOID else "unknown"
        return Agreement(agreed, f"{decided}; nothing can be said of it here: {last.check}")
    if mine is Verdict.REJECT:
        if state is BatchState.ACCEPTED:
            return Agreement("disagree", f"{decided}, though it is false: {last.check}")
        return Agreement("agree", f"{decided}, and it is false: {last.check}")
    if state is BatchState.ACCEPTED:
        return Agreement("agree", f"{decided}, and every check passes")
    if why_void.startswith("its node was slashed"):
        return Agreement("agree", f"{decided}; every check passes, and it goes with its node")
    return Agreement("disagree", f"{decided}, though every check passes")


def why_void(outcome: BatchOutcome, rules: ChainRules, count: int, slash: int | None) -> str:
    """Why a batch is void, by the rules of docs/protocol.md; "" for one that is not.

    count: of its round's batches. slash: the index for which its node was slashed, if that closed this batch.
    """
    if outcome.state is not BatchState.VOID:
        return ""
    if slash is not None:
        return f"its node was slashed for batch {slash}"
    votes = outcome.stage_2
    if votes.revealed == 0:
        first = outcome.stage_1
        return f"too few accepted: {first.accepts} of {first.revealed} in stage 1, and nobody revealed in stage 2"
    against, dealt = votes.rejects + votes.voids, min(window_size(rules.draws, 2), count - 1)
    enough = against >= rules.min_rejects and 3 * against >= 2 * votes.revealed and 2 * against >= dealt
    if enough and votes.voids:
        return f"nobody had it: {votes.voids} of {votes.revealed} found it void, {votes.rejects} false"
    abstained = votes.revealed - votes.accepts - against
    if abstained and 3 * abstained >= votes.revealed:
        return f"a third abstained: {abstained} of {votes.revealed}"
    words = f"{votes.accepts} of {votes.revealed} accepted it, {votes.rejects} rejected it, {votes.voids} found it void"
    if votes.rejects > votes.accepts:
        return f"too few rejected to slash: {words}"
    return f"too few accepted: {words}"


def slashes_of(reader: ChainReader, batches: Sequence[BatchInfo], head: int) -> dict[int, int]:
    """By index of a batch that closed with its node's slash, the index of the batch for which that was.

    Reads logs, up to block `head`, only of rounds in which a node of these was slashed. Raises ChainUnavailable.
    """
    nodes = sorted({batch.node for batch in batches})
    slashed = {info.node for info in reader.nodes_of(nodes) if info.state is NodeState.SLASHED}
    found: dict[int, int] = {}
    for round_ in sorted({batch.round for batch in batches if batch.node in slashed}):
        last = min(head, reader.first_block_of(round_ + FINAL_AFTER + 1) - 1)
        voided: dict[tuple[str, int], list[int]] = {}
        causes: dict[tuple[str, int], list[int]] = {}
        for event in between(reader, reader.first_block_of(round_), last):
            if event.name == "BatchVoided":
                voided.setdefault((event.args["node"], event.block), []).append(event.args["index"])
            elif event.name == "NodeProvenFalse" or (event.name == "Settled" and event.args["debt"] == REJECTED_BATCH):
                causes.setdefault((event.args["node"], event.block), []).append(event.args["index"])
        for where, indices in voided.items():
            for index in indices:
                found.setdefault(index, causes.get(where, [index])[0])
    return found
