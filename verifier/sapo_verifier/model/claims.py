"""What a batch claims of its policy, as a model reads it, and what a pass says of it (docs/protocol.md, Tolerances)."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from sapo_verifier.audit import Audit, CheckResult, Status
from sapo_verifier.bases import Bases
from sapo_verifier.cid import block_digest
from sapo_verifier.errors import SapoError
from sapo_verifier.intervals import FULL, REJECT_TOLERANCE, VOID_TOLERANCE
from sapo_verifier.ipfs import BlockCorrupt, BlockTooLarge, BlockUnavailable, StoreFailed
from sapo_verifier.model.forward import Passage
from sapo_verifier.model.positions import Position
from sapo_verifier.model.weights import WeightsError
from sapo_verifier.objects import Record, hex_digest


class PromptError(SapoError):
    """The base cannot read the prompt, so nobody's policy on it can have answered."""


class Claimed(NamedTuple):
    """One completion: where it stands, what it claims, and what the model has to read."""

    slot: int
    k: int
    records: list[Record]
    passage: Passage

    def leaf(self, audit: Audit) -> int:
        """i = slot · G + k."""
        return self.slot * audit.spec.group_size + self.k


def declared_weights(audit: Audit) -> bytes | None:
    """The safetensors file that the policy manifest names; None for the base itself.

    Raises WeightsError for blocks that are not as long as the manifest says, BlockError for what was not to be had
    (StoreFailed: by this machine's fault).
    """
    manifest = audit.policy
    if manifest.kind == "base":
        return None
    parts = []
    for digest, limit in audit.weight_blocks():
        found, name = audit.blocks.get(digest), f"weights: block {hex_digest(digest)}"
        if isinstance(found, StoreFailed):
            raise StoreFailed(f"{name}: {found}")
        if not isinstance(found, bytes):
            raise BlockUnavailable(f"{name}: {found or 'never fetched'}")
        if len(found) > limit:
            raise BlockTooLarge(f"{name} has {len(found)} bytes, more than {limit}")
        if block_digest(found) != digest:
            raise BlockCorrupt(f"{name}: the bytes given have another digest")
        parts.append(found)
    data = b"".join(parts)
    if len(data) != manifest.size:
        raise WeightsError(f"the policy's blocks hold {len(data)} bytes, its manifest says {manifest.size}")
    return data


def read_claims(audit: Audit, bases: Bases) -> list[Claimed]:
    """Every completion on which the policy is run, its prompt encoded. Raises PromptError; BaseMissingError where the
    base is not here."""
    base, tokenizer = audit.base, bases.tokenizer(audit.base)
    longest = base.longest_prompt(audit.spec.max_prompt_bytes)  # in bytes too: no token is shorter than one
    wanted = {divmod(i, audit.spec.group_size) for i in audit.leaves}
    claims = []
    for slot, group in enumerate(audit.groups):
        if all(slot != of for of, _ in wanted):
            continue
        if len(group.prompt.encode()) > longest:  # possible only where this machine could not deal the task
            raise PromptError(f"slot {slot}: the prompt is longer than any that can be dealt")
        try:
            prompt = tokenizer.prompt(group.prompt, base.template)
        except SapoError as error:
            raise PromptError(f"slot {slot}: {error}") from error
        if max(prompt) >= base.vocab or len(prompt) + audit.spec.max_new_tokens > base.context:
            raise PromptError(f"slot {slot}: the prompt's {len(prompt)} tokens do not fit the base {base.id}")
        for k, records in enumerate(audit.completions[slot]):
            if (slot, k) not in wanted:
                continue
            claims.append(Claimed(slot, k, records, Passage(prompt, [record.token for record in records])))
    return claims


def off(record: Record, position: Position) -> int:
    """The larger distance of the record's two edges from the pass's, in integers of 2**64."""
    return max(abs(record.lo - position.lo), abs(record.last - position.last))


def bears_out(record: Record, position: Position) -> bool:
    """Whether the pass does not fail the record: within *reject*, and of a token that owns something."""
    return position.lo <= position.last and off(record, position) <= REJECT_TOLERANCE


def failing(claims: Sequence[Claimed], found: Sequence[Sequence[Position]]) -> Iterator[tuple[int, int]]:
    """Which claim, and the position in it, of every record that the pass does not bear out, in order."""
    for i, (claim, own) in enumerate(zip(claims, found, strict=True)):
        for t, (record, position) in enumerate(zip(claim.records, own, strict=True)):
            if not bears_out(record, position):
                yield i, t


def compare(claims: Sequence[Claimed], found: Sequence[Sequence[Position]]) -> CheckResult:
    """The largest difference decides: fail at the first position beyond *reject*, else void at the first beyond *void*.

    A token that owns nothing under the policy fails, whatever interval it claims. Evidence of what does not pass says
    the worst position, too, and how many are beyond what passes and beyond *reject*.
    """
    for i, t in failing(claims, found):
        claim, position = claims[i], found[i][t]
        if position.lo > position.last:
            return _in_all(differs("fail", "the policy never gives this token", claim, t, position), claims, found)
        share = off(claim.records[t], position) / FULL
        reason = f"the interval is not the policy's: off by {share:.4f} of probability"
        return _in_all(differs("fail", reason, claim, t, position), claims, found)
    worst = count = 0
    first_void: CheckResult | None = None
    for claim, own in zip(claims, found, strict=True):
        for t, (record, position) in enumerate(zip(claim.records, own, strict=True)):
            distance = off(record, position)
            if distance > VOID_TOLERANCE and first_void is None:
                share = distance / FULL
                reason = f"the interval is off by {share:.6f} of probability: too much to pass, too little to fail"
                first_void = differs("void", reason, claim, t, position)
            worst, count = max(worst, distance), count + 1
    if first_void is not None:
        return _in_all(first_void, claims, found)
    return CheckResult("policy", "pass", f"{count} positions, the largest difference is {worst / FULL:.1e}")


def _in_all(result: CheckResult, claims: Sequence[Claimed], found: Sequence[Sequence[Position]]) -> CheckResult:
    """The result with what all positions together say."""
    distances = [
        (off(record, position), claim.slot, claim.k, t)
        for claim, own in zip(claims, found, strict=True)
        for t, (record, position) in enumerate(zip(claim.records, own, strict=True))
    ]
    worst, slot, k, t = max(distances, key=lambda each: each[0])
    beyond = [sum(distance > limit for distance, *_ in distances) for limit in (VOID_TOLERANCE, REJECT_TOLERANCE)]
    evidence = {
        "worst": f"off by {worst / FULL:.6f} at slot {slot}, completion {k}, position {t}",
        "beyond": f"{beyond[0]} of {len(distances)} positions differ by more than passes, {beyond[1]} by what fails",
    }
    return replace(result, evidence=result.evidence | evidence)


def differs(status: Status, reason: str, claim: Claimed, t: int, position: Position) -> CheckResult:
    """What `policy` says of the record at t, with what was claimed and what was found."""
    record = claim.records[t]
    evidence = {
        "token": str(record.token),
        "claimed": f"{record.lo:#018x} … {record.last:#018x}",
        "recomputed": f"{position.lo:#018x} … {position.last:#018x}",
    }
    return CheckResult("policy", status, reason, claim.slot, claim.k, t, evidence)
