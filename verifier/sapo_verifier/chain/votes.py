"""Who voted what about a batch: the reveals that the chain announced, each read as its voter's window says."""

from collections.abc import Sequence
from dataclasses import dataclass

from sapo_verifier import protocol
from sapo_verifier.chain.contracts import Call
from sapo_verifier.chain.events import ChainEvent, between
from sapo_verifier.chain.reader import ChainReader
from sapo_verifier.facts import BatchInfo
from sapo_verifier.schedule import REVEAL_AFTER, window_size


@dataclass(frozen=True)
class Vote:
    """One verdict about one batch, as its voter revealed it."""

    index: int  # of the batch
    round: int  # whose batches are judged
    stage: int
    voter: str
    verdict: int  # 0 abstain, 1 accept, 2 reject, 3 void
    report: bytes  # the digest of the report that says why


def votes_on(reader: ChainReader, batches: Sequence[BatchInfo], head: int) -> list[Vote]:
    """Every verdict about these batches that was revealed up to block `head`, in the order of the chain.

    Two requests for logs per round, and few for its voters' places. Raises ChainUnavailable.
    """
    found: list[Vote] = []
    for round_ in sorted({batch.round for batch in batches}):
        of_round = [batch for batch in batches if batch.round == round_]
        for stage, later in REVEAL_AFTER.items():
            first = reader.first_block_of(round_ + later)
            last = min(head, reader.first_block_of(round_ + later + 1) - 1)
            events = [
                event
                for event in (between(reader, first, last) if first <= last else [])
                if event.name == "VerdictsRevealed" and (event.args["round"], event.args["stage"]) == (round_, stage)
            ]
            found += _about(reader, of_round, stage, events)
    return found


def _about(reader: ChainReader, batches: Sequence[BatchInfo], stage: int, events: Sequence[ChainEvent]) -> list[Vote]:
    """What these reveals of one round and stage say about the batches."""
    if not events:
        return []
    round_ = batches[0].round
    head = reader.round_at(round_)
    owned = reader.call_many([Call("rounds", "batchOf", (event.args["voter"], round_)) for event in events])
    size = window_size(reader.deployment.spec.chain.draws, stage)
    votes = []
    for event, (exists, index) in zip(events, owned, strict=True):
        own = index - head.first if exists else None
        window = protocol.window(event.args["start"], head.count, own, size)
        for batch in batches:
            if batch.index - head.first in window:
                verdict = (event.args["verdicts"] >> (2 * window.index(batch.index - head.first))) & 3
                voter = str(event.args["voter"])
                votes.append(Vote(batch.index, round_, stage, voter, verdict, event.args["report"]))
    return votes
