"""Spot checks: which completions of a batch a voter recomputes in stage 1, and the question that each of them asks.

A voter's draw follows from a seed that nobody else knows before it is revealed. The answer to a question is a token
that only a pass of the declared policy tells, so who did not run the model cannot say that it did (docs/protocol.md,
Answers).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from sapo_verifier import protocol
from sapo_verifier.errors import ObjectError
from sapo_verifier.intervals import FULL
from sapo_verifier.objects import Record

ANSWER_BYTES = 4


class Question(NamedTuple):
    """Which token owns u at position t of a completion? u: None where every token but one owns nothing: answer 0."""

    t: int
    u: int | None


@dataclass(frozen=True)
class Spots:
    """A voter's spots in one batch. key: of the draw; completions: how many the batch has; count: the spec's `spot`."""

    key: bytes
    completions: int
    count: int

    @classmethod
    def of(cls, beacon: bytes, seed: bytes, index: int, completions: int, count: int) -> "Spots":
        """beacon: of the round after the batch's; seed: of the voter, for the batch's round; index: on chain."""
        return cls(protocol.spot_key(beacon, seed, index), completions, count)

    @cached_property
    def leaves(self) -> tuple[int, ...]:
        """The completions i = slot · G + k, in the draw's order."""
        return tuple(protocol.spots(self.key, self.completions, self.count))

    def question(self, i: int, records: Sequence[Record]) -> Question:
        """About completion i, whose records these are. Raises ValueError for an interval that is none."""
        t = place(records)
        return Question(t, protocol.probe(self.key, i, records[t].lo, records[t].last))


def place(records: Sequence[Record]) -> int:
    """The last position whose interval is neither nearly nothing nor nearly all, a tenth to nine tenths; if there is
    none, the last position."""
    for t in range(len(records) - 1, -1, -1):
        if FULL <= 10 * (records[t].last - records[t].lo + 1) <= 9 * FULL:
            return t
    return len(records) - 1


def encode_answers(tokens: Sequence[int]) -> bytes:
    """Four bytes each, big-endian: batch by batch that is accepted, in the window's order, spots in the draw's."""
    return b"".join(token.to_bytes(ANSWER_BYTES, "big") for token in tokens)


def decode_answers(data: bytes) -> list[int]:
    """Raises ObjectError where bytes are left."""
    if len(data) % ANSWER_BYTES:
        raise ObjectError(f"{len(data)} bytes are no whole number of answers of {ANSWER_BYTES} bytes")
    return [int.from_bytes(data[at : at + ANSWER_BYTES], "big") for at in range(0, len(data), ANSWER_BYTES)]
