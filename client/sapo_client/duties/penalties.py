"""Wrong verdicts of others: they cost nothing until somebody settles them, for a tenth of the penalty."""

from collections.abc import Sequence

from sapo_verifier import protocol
from sapo_verifier.chain.audits import BatchOutcome, BatchState
from sapo_verifier.chain.contracts import Call
from sapo_verifier.chain.reader import ChainReader
from sapo_verifier.facts import BatchInfo
from sapo_verifier.schedule import COMMIT_AFTER, window_size


def has_wrong_verdicts(outcome: BatchOutcome) -> bool:
    """Whether the tally of a final batch holds verdicts that are punished."""
    one, two = outcome.stage_1, outcome.stage_2
    match outcome.state:
        case BatchState.PROVEN_FALSE:
            return bool(one.accepts or two.accepts)
        case BatchState.REJECTED:
            return bool(two.accepts)
        case BatchState.ACCEPTED:
            # One that stands only because too few rejected what its node answered punishes nobody.
            return 3 * two.accepts >= 2 * two.revealed and bool(one.rejects or two.rejects)
    return False


def wrong_verdicts(reader: ChainReader, round_: int, outcomes: Sequence[BatchOutcome]) -> list[tuple[str, int, Call]]:
    """(voter, index, call) that may settle a wrong verdict: for each such batch, each node that was dealt it.

    Only the round's producers vote on it. Reads nothing but the outcomes as long as nobody voted wrong; else all
    batches of the round.
    """
    wrong = [outcome.index for outcome in outcomes if has_wrong_verdicts(outcome)]
    if not wrong:
        return []
    batches = reader.batches_of(round_)
    beacons = {stage: reader.beacon(round_ + later) for stage, later in COMMIT_AFTER.items()}
    calls = []
    for voter in batches:
        dealt: set[int] = set()
        for stage, beacon in beacons.items():
            if beacon is not None:
                dealt |= _dealt(reader, beacon, voter, stage, batches)
        calls += [
            (voter.node, index, Call("disputes", "settle", (voter.node, round_, index)))
            for index in wrong
            if index in dealt
        ]
    return calls


def _dealt(reader: ChainReader, beacon: bytes, voter: BatchInfo, stage: int, batches: Sequence[BatchInfo]) -> set[int]:
    """The indices in a producer's window."""
    first, count = batches[0].index, len(batches)
    own = voter.index - first
    size = window_size(reader.deployment.spec.chain.draws, stage)
    start = protocol.window_start(beacon, voter.node, stage, count, own)
    return {first + position for position in protocol.window(start, count, own, size)}
