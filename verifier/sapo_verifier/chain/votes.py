"""Who voted what: the reveals that the chain announced, each read as its voter's window says, and who doubts them."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from sapo_verifier import protocol
from sapo_verifier.chain.contracts import Call
from sapo_verifier.chain.events import ChainEvent, between
from sapo_verifier.chain.reader import ChainReader
from sapo_verifier.errors import ObjectError
from sapo_verifier.facts import BatchInfo
from sapo_verifier.schedule import DISPUTE_AFTER, REVEAL_AFTER, window_size
from sapo_verifier.spots import decode_answers


@dataclass(frozen=True)
class Vote:
    """One verdict about one batch, as its voter revealed it."""

    index: int  # of the batch
    round: int  # whose batches are judged
    stage: int
    voter: str
    verdict: int  # 0 abstain, 1 accept, 2 reject, 3 void
    report: bytes  # the digest of the report that says why


@dataclass(frozen=True)
class Revealed:
    """All that one voter revealed about a round in one stage.

    own: the index of its own batch of the round; None: it has none. window: the indices that it was dealt, in order.
    answers: the bytes of what the spots of accepted batches asked; salt: what those spots were drawn with (stage 1).
    """

    round: int
    stage: int
    voter: str
    own: int | None
    window: tuple[int, ...]
    verdicts: int  # bits 2j and 2j+1 for the j-th batch of the window
    report: bytes
    answers: bytes
    salt: bytes

    def verdict(self, index: int) -> int | None:
        """About the batch at `index`; None where the voter was not dealt it."""
        return (self.verdicts >> (2 * self.window.index(index))) & 3 if index in self.window else None

    @property
    def accepted(self) -> list[int]:
        """The batches about which it owes answers, in the window's order."""
        return [index for index in self.window if self.verdict(index) == 1]

    def answers_about(self, spots: Mapping[int, int]) -> dict[int, list[int]] | None:
        """By accepted batch what it answered, in the draw's order; None where that is not one answer for each spot.

        spots: how many there are in each accepted batch.
        """
        try:
            given = decode_answers(self.answers)
        except ObjectError:
            return None
        counts = [spots[index] for index in self.accepted]
        if len(given) != sum(counts):
            return None
        left = iter(given)
        return {index: [next(left) for _ in range(count)] for index, count in zip(self.accepted, counts, strict=True)}


@dataclass(frozen=True)
class Disputed:
    """Somebody doubts a batch: itself if `about` is its own index, else what its node said of the batch `about`."""

    index: int
    about: int
    disputer: str


def votes_on(reader: ChainReader, batches: Sequence[BatchInfo], head: int) -> list[Vote]:
    """Every verdict about these batches that was revealed up to block `head`, in the order of the chain.

    Two requests for logs per round, and few for its voters' places. Raises ChainUnavailable.
    """
    found: list[Vote] = []
    for round_ in sorted({batch.round for batch in batches}):
        indices = [batch.index for batch in batches if batch.round == round_]
        for stage in REVEAL_AFTER:
            for each in reveals_of(reader, round_, stage, head, about=indices):
                said = [(index, verdict) for index in indices if (verdict := each.verdict(index)) is not None]
                found += [Vote(index, round_, stage, each.voter, verdict, each.report) for index, verdict in said]
    return found


def reveals_of(
    reader: ChainReader, round_: int, stage: int, head: int, *, about: Collection[int], by: Collection[str] = ()
) -> list[Revealed]:
    """What was revealed up to block `head` by voters that were dealt a batch of `about`, and by those of `by`.

    about: indices, all of the round. In the order of the chain. One request for logs, and few for the voters' places.
    Raises ChainUnavailable.
    """
    return read_reveals(
        reader, round_, stage, _announced(reader, round_ + REVEAL_AFTER[stage], head), about=about, by=by
    )


def read_reveals(
    reader: ChainReader,
    round_: int,
    stage: int,
    events: Iterable[ChainEvent],
    *,
    about: Collection[int],
    by: Collection[str] = (),
) -> list[Revealed]:
    """The same of events that are at hand: those that are no reveals of this round and stage are passed over."""
    head_of = reader.round_at(round_)
    size = window_size(reader.deployment.spec.chain.draws, stage)
    events = [
        event
        for event in events
        if event.name == "VerdictsRevealed"
        and (event.args["round"], event.args["stage"]) == (round_, stage)
        and (event.args["voter"] in by or _may_hold(event.args["start"], head_of.count, size, head_of.first, about))
    ]
    if not events:
        return []
    owned = reader.call_many([Call("rounds", "batchOf", (event.args["voter"], round_)) for event in events])
    found = []
    for event, (exists, index) in zip(events, owned, strict=True):
        own = index - head_of.first if exists else None
        window = tuple(
            head_of.first + place for place in protocol.window(event.args["start"], head_of.count, own, size)
        )
        if event.args["voter"] in by or any(index in window for index in about):
            args = [event.args[name] for name in ("verdicts", "report", "answers", "salt")]
            voter = str(event.args["voter"])
            found.append(Revealed(round_, stage, voter, index if exists else None, window, *args))
    return found


def disputes_of(reader: ChainReader, round_: int, head: int) -> list[Disputed]:
    """What was disputed of a round's batches up to block `head`, in order. One request for logs. Raises
    ChainUnavailable."""
    return [
        Disputed(event.args["index"], event.args["about"], str(event.args["disputer"]))
        for event in _announced(reader, round_ + DISPUTE_AFTER, head)
        if event.name == "BatchDisputed" and event.args["round"] == round_
    ]


def _announced(reader: ChainReader, round_: int, head: int) -> Iterator[ChainEvent]:
    """The events of the blocks of one round, up to block `head`."""
    first = reader.first_block_of(round_)
    last = min(head, reader.first_block_of(round_ + 1) - 1)
    yield from between(reader, first, last) if first <= last else []


def _may_hold(start: int, count: int, size: int, first: int, about: Collection[int]) -> bool:
    """Whether a window that begins at position `start` can hold one of these batches: it skips its voter's own."""
    return any((index - first - start) % count <= size for index in about)
