"""What a person can judge a batch by: each question with its right answer, each completion with its claimed and found
reward, each token with its interval, the number that forces it and, with the model, this machine's own interval."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from sapo_verifier import protocol
from sapo_verifier.audit import Audit
from sapo_verifier.chain.deployment import Deployment
from sapo_verifier.chain.pinned import PinnedReader, Source
from sapo_verifier.chain.reader import open_chain
from sapo_verifier.chain.urls import RPC
from sapo_verifier.checks import plain
from sapo_verifier.cid import cid
from sapo_verifier.errors import ObjectError, SapoError, UnableError, UsageError
from sapo_verifier.ipfs import BlockError
from sapo_verifier.tasks import TaskError, rewards
from sapo_verifier.verify import Verifier, open_verifier

MAX_TEXT = 20_000  # characters of one text in a report


@dataclass(frozen=True)
class Interval:
    """Of 2^64, both ends inclusive, as hex. lo above last: the token owns nothing."""

    lo: str
    last: str


@dataclass(frozen=True)
class ShownPosition:
    """A token, what it claims and the number that forces it. own: this machine's interval, or "" and why_not."""

    position: int
    token: int
    text: str | None  # None: without the base's tokenizer
    claimed: Interval
    u: str
    holds: bool  # whether the interval holds u
    own: Interval | None
    why_not: str


@dataclass(frozen=True)
class ShownCompletion:
    """found: the reward that the text earns here; None where that could not be told."""

    completion: int
    text: str
    claimed: bool
    found: bool | None
    tokens: list[int]


@dataclass(frozen=True)
class ShownSlot:
    """A group: what was asked, and what was answered. why_not: why question, answer and rewards are not known here."""

    slot: int
    dataset: str
    question: str | None
    answer: str | None
    group: str  # CID
    records: str  # CID
    completions: list[ShownCompletion]
    why_not: str


@dataclass(frozen=True)
class Shown:
    """A part of a batch. path: batch/slot/completion/position as far as it was given."""

    source: Source
    path: str
    index: int
    round: int
    node: str
    slots: list[ShownSlot]  # all, or the one that the path names, with its one completion
    position: ShownPosition | None


def parse_path(text: str) -> tuple[int, ...]:
    """`17/3/0/2`: batch, slot, completion, position; shorter ones too. Raises UsageError."""
    parts = text.split("/")
    if not 1 <= len(parts) <= 4 or not all(part.isdecimal() and len(part) < 20 for part in parts):
        raise UsageError(
            f"{text!r} is no path: give batch/slot/completion/position, such as 17/3/0/2, or its first parts"
        )
    return tuple(map(int, parts))


def show_in(verifier: Verifier, path: str) -> Shown:
    """The part of a batch that `path` names. Raises UsageError for a path that cannot be, UnableError where there is no
    such part or its blocks are not to be had."""
    index, *places = parse_path(path)
    assert isinstance(verifier.reader, PinnedReader)
    batch = verifier.batch(index)
    audit = verifier.audit(batch)
    slots = slots_of(audit, only=places[0] if places else None)
    if not places or len(places) == 1:
        return Shown(verifier.reader.source, path, index, batch.round, batch.node, slots, None)
    slot, k = slots[0], places[1]
    if k >= len(slot.completions):
        raise UnableError(
            f"slot {slot.slot} of batch {index} has completions 0 to {len(slot.completions) - 1}, and no {k}"
        )
    one = ShownSlot(**{**slot.__dict__, "completions": [slot.completions[k]]})
    position = None
    if len(places) == 3:
        position = _position(verifier, audit, slot.slot, k, places[2])
    return Shown(verifier.reader.source, path, index, batch.round, batch.node, [one], position)


def show(
    path: str,
    deployment: Deployment,
    *,
    rpc: str | Sequence[str] = RPC,
    gateways: Sequence[str] = (),
    base_folders: Sequence[Path] = (),
    model: bool = False,
    allow_private: bool = False,
) -> Shown:
    """A batch, slot, completion or token by its path, such as 17/3/0/2; the options are open_verifier's.

    Raises UsageError for a path that cannot be, UnableError where there is no such part or no block of it.
    """
    with open_chain(deployment, rpc) as reader:
        pinned = PinnedReader(reader)
        with open_verifier(
            pinned, gateways=gateways, base_folders=base_folders, model=model, allow_private=allow_private
        ) as verifier:
            return show_in(verifier, path)


def slots_of(audit: Audit, only: int | None = None) -> list[ShownSlot]:
    """What the batch holds, by slot. only: one slot. Raises UnableError where its blocks are missing or misshapen, or
    there is no such slot."""
    if only is not None and only >= audit.facts.slots:
        raise UnableError(f"batch {audit.facts.index} has slots 0 to {audit.facts.slots - 1}, and no {only}")
    try:
        groups, completions = audit.groups, audit.completions
        manifest = audit.manifest
    except ObjectError as error:
        missing = next((block for block in audit.blocks.values() if isinstance(block, BlockError)), None)
        why = f"{missing}; name who has it with --gateway" if missing is not None else str(error)
        raise UnableError(f"batch {audit.facts.index} cannot be shown: {why}") from error
    shown = []
    for slot in range(audit.facts.slots) if only is None else [only]:
        group = audit.groups[slot]
        question = answer = None
        found: list[bool | None] = [None] * len(group.completions)
        why_not = ""
        try:
            task = audit.tasks[slot]
            question, answer = task.question, task.answer
            found = rewards(audit.spec, task, group.completions, audit.worker)
        except (TaskError, ObjectError) as error:
            why_not = str(error)
        parts = [
            ShownCompletion(
                k,
                text[:MAX_TEXT],
                bool(audit.facts.claim >> (slot * audit.spec.group_size + k) & 1),
                found[k],
                [record.token for record in completions[slot][k]],
            )
            for k, text in enumerate(group.completions)
        ]
        names = cid(manifest.groups[slot]), cid(groups[slot].records)
        shown.append(ShownSlot(slot, group.dataset[:MAX_TEXT], question, answer, *names, parts, why_not))
    return shown


def _position(verifier: Verifier, audit: Audit, slot: int, k: int, t: int) -> ShownPosition:
    records = audit.completions[slot][k]
    if t >= len(records):
        where = f"completion {k} of slot {slot}"
        raise UnableError(f"{where} of batch {audit.facts.index} has positions 0 to {len(records) - 1}, and no {t}")
    record = records[t]
    u = protocol.stream_value(protocol.stream_key(audit.facts.beacon, audit.facts.policy, audit.facts.node, slot, k), t)
    text = None
    try:
        text = audit.tokenizer(audit.base).decode([record.token])
    except SapoError as error:  # the base is not here, or not in the spec
        why_not = str(error)
    own, why_not = (None, why_not) if text is None else verifier.own_interval(audit, slot, k, t)
    return ShownPosition(
        t,
        record.token,
        text,
        _interval(record.lo, record.last),
        f"0x{u:016x}",
        record.lo <= u <= record.last,
        None if own is None else _interval(*own),
        why_not,
    )


def _interval(lo: int, last: int) -> Interval:
    return Interval(f"0x{lo:016x}", f"0x{last:016x}")


def in_words(shown: Shown) -> list[str]:
    """Lines for a terminal."""
    lines = [f"batch {shown.index}: round {shown.round}, node {shown.node}"]
    for slot in shown.slots:
        lines += slot_lines(slot, tokens=shown.path.count("/") >= 2)
    if (at := shown.position) is not None:
        lines.append(f"  position {at.position}: token {at.token}" + (f" {at.text!r}" if at.text is not None else ""))
        lines.append(f"    claimed  {at.claimed.lo} … {at.claimed.last}")
        lines.append(f"    u        {at.u}, which the interval {'holds' if at.holds else 'does not hold'}")
        lines.append(
            f"    mine     {at.own.lo} … {at.own.last}" if at.own else f"    mine     not known: {plain(at.why_not)}"
        )
    return lines


def slot_lines(slot: ShownSlot, *, tokens: bool = False) -> list[str]:
    """Lines for a terminal; tokens: each completion's, too."""
    lines = [f"  slot {slot.slot}: {plain(slot.dataset)}"]
    if slot.why_not:
        lines.append(f"    not known here: {plain(slot.why_not)}")
    if slot.question is not None and slot.answer is not None:
        lines += [f"    question: {plain(slot.question)}", f"    answer:   {plain(slot.answer)}"]
    for one in slot.completions:
        found = "not known" if one.found is None else int(one.found)
        differs = "" if one.found in (None, one.claimed) else "  <- differs"
        lines.append(f"    {one.completion}: claimed {int(one.claimed)}, found {found}: {plain(one.text)}{differs}")
        if tokens:
            lines.append(f"       tokens: {' '.join(map(str, one.tokens))}")
    return lines
