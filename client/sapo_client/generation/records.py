"""Records: one float32 pass over finished completions states every token's interval, and repairs what misses its u.

The engine that generated may have rounded differently (another batch, a cache, another kernel). What is published comes
from the pass below alone, so an honest record always holds its u (docs/protocol.md, Record).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sapo_client.generation.engine import Engine
from sapo_client.policy.heap import give_back
from sapo_verifier.errors import SapoError
from sapo_verifier.intervals import WIDEN_TOLERANCE, miss
from sapo_verifier.model.forward import Passage
from sapo_verifier.model.positions import Position, positions
from sapo_verifier.objects import Record
from sapo_verifier.protocol import stream_values


class RecordError(SapoError):
    """Passes over the same tokens disagree so much that no record can be made."""


@dataclass(frozen=True)
class RecordStats:
    """positions: records made; widened: intervals widened to hold their u; repaired: cuts, each at one position."""

    positions: int
    widened: int
    repaired: int


def make_records(
    engine: Engine,
    model: Any,
    prompts: Sequence[Sequence[int]],
    keys: Sequence[bytes],
    *,
    vocab: int,
    max_new_tokens: int,
    batch_tokens: int = 8192,
) -> tuple[list[list[Record]], RecordStats]:
    """Generate one completion per prompt and key, and the records that hold their u.

    Every repair fixes its position for good, so `max_new_tokens` repairs of a completion are enough.
    Raises RecordError if they are not: then the model's passes over equal tokens differ from each other.
    """
    us = [stream_values(key, max_new_tokens) for key in keys]
    completions = engine.generate(prompts, [[] for _ in prompts], keys)
    records: list[list[Record]] = [[] for _ in prompts]
    widened = [0] * len(prompts)
    repaired = 0
    todo = list(range(len(prompts)))
    for _ in range(max_new_tokens + 1):
        passages = [Passage(prompts[i], completions[i]) for i in todo]
        values = [us[i][: len(completions[i])] for i in todo]
        fixed: dict[int, list[int]] = {}
        for i, found in zip(todo, positions(model, passages, values, vocab, batch_tokens=batch_tokens), strict=True):
            records[i], widened[i] = hold(completions[i], found, us[i])
            if (cut := len(records[i])) < len(completions[i]):
                fixed[i] = [*completions[i][:cut], found[cut].chosen]
        if not fixed:
            give_back()
            return records, RecordStats(sum(map(len, records)), sum(widened), repaired)
        repaired += len(fixed)
        todo = list(fixed)
        continued = engine.generate([prompts[i] for i in todo], list(fixed.values()), [keys[i] for i in todo])
        for i, tokens in zip(todo, continued, strict=True):
            completions[i] = tokens
    raise RecordError(
        f"after {max_new_tokens} repairs, passes of this model still disagree by more than 1e-5 of probability; "
        "it must run in float32 without TF32"
    )


def hold(tokens: Sequence[int], found: Sequence[Position], us: Sequence[int]) -> tuple[list[Record], int]:
    """Records up to the first position whose miss of u is no rounding, and how many intervals were widened.

    A token that owns nothing in this pass is never legal, however near its place is to u.
    """
    records: list[Record] = []
    widened = 0
    for token, position, u in zip(tokens, found, us, strict=False):
        off = miss(u, position.lo, position.last)
        if off > WIDEN_TOLERANCE or position.lo > position.last:
            break
        widened += off > 0
        records.append(Record(token, min(position.lo, u), max(position.last, u)))
    return records, widened
