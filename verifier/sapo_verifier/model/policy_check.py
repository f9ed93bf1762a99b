"""The `policy` check: the claimed intervals are the declared policy's (docs/protocol.md, Sampling and Checks).

One model object per base; each batch's declared weights are swapped into it, or its adapter merged. Bytes and time are
bounded by the spec before the model sees anything: `max_adapter_bytes` of weights, an adapter's rank by `max_rank`,
`slots · G` completions that fit the base's context.
"""

import time
from collections.abc import Sequence
from typing import Any, NamedTuple

from sapo_verifier.audit import Audit, CheckResult, Recomputed, Status
from sapo_verifier.bases import Bases
from sapo_verifier.cid import block_digest
from sapo_verifier.errors import SapoError
from sapo_verifier.intervals import FULL, REJECT_TOLERANCE, VOID_TOLERANCE
from sapo_verifier.ipfs import BlockCorrupt, BlockError, BlockTooLarge, BlockUnavailable, StoreFailed
from sapo_verifier.model.base import load_base
from sapo_verifier.model.forward import Passage
from sapo_verifier.model.lora import Layers, Originals, adapted_layers, linear_layers, merge, read_adapter
from sapo_verifier.model.positions import Position, positions
from sapo_verifier.model.sampling import NotFiniteError
from sapo_verifier.model.weights import WeightsError, load_weights
from sapo_verifier.objects import Lora, Record, hex_digest

BATCH_TOKENS = 8192  # padded tokens in one pass (or a single completion): what bounds memory beside the weights


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


class Held:
    """A base's model, and which policy's weights it holds."""

    def __init__(self, model: Any) -> None:
        self.model = model
        self.policy: bytes | None = None  # PolicyManifest.weights; None: the base itself
        self.full = False  # all weights are the policy's, so the base is not in here any more
        self._originals = Originals()
        self._layers: Layers = linear_layers(model)

    def to_base(self) -> None:
        """The base's own weights again, unless all of them were replaced."""
        self._originals.restore(self._layers)
        self.policy = None

    def load_full(self, data: bytes, policy: bytes) -> None:
        """Raises WeightsError or NotFiniteError, with the weights as they were."""
        load_weights(self.model, data)
        self.policy, self.full = policy, True

    def load_adapter(self, data: bytes, lora: Lora, policy: bytes) -> None:
        """Raises WeightsError or NotFiniteError, with the base's own weights in place."""
        self.to_base()
        layers = adapted_layers(self.model, lora.targets)
        pairs = read_adapter(data, layers, lora.rank)
        self._originals.keep(layers)
        try:
            merge(layers, pairs, lora.alpha / lora.rank)
        except NotFiniteError:
            self.to_base()
            raise
        self.policy = policy


class PolicyModels:
    """Answers the policy check. Not for several threads: a model holds one policy's weights at a time."""

    runs = True

    def __init__(self, bases: Bases, *, device: str = "cpu", batch_tokens: int = BATCH_TOKENS) -> None:
        self._bases = bases
        self._device = device
        self._batch_tokens = batch_tokens
        self.seconds = 0.0
        self._held: dict[bytes, Held] = {}  # by the base's digest

    def __call__(self, audit: Audit) -> Recomputed:
        started = time.monotonic()
        result = self._answer(audit)
        self.seconds += time.monotonic() - started
        return result

    def judge(self, audit: Audit, answers: Sequence[int]) -> CheckResult:
        raise NotImplementedError

    def _answer(self, audit: Audit) -> Recomputed:
        try:
            weights = declared_weights(audit)
            claims = read_claims(audit, self._bases)
            model = self._model(audit, weights)
            passages = [claim.passage for claim in claims]
            found = positions(model, passages, asked(audit, claims), audit.base.vocab, batch_tokens=self._batch_tokens)
        except WeightsError as error:
            return Recomputed(CheckResult("policy", "fail", str(error)))
        except StoreFailed as error:
            return Recomputed(CheckResult("policy", "unknown", str(error)))
        except (BlockError, NotFiniteError, PromptError) as error:
            return Recomputed(CheckResult("policy", "void", str(error)))
        except SapoError as error:  # the base is not here, or does not load
            return Recomputed(CheckResult("policy", "unknown", str(error)))
        except (RuntimeError, MemoryError) as error:  # how torch says that memory is short; weights cannot cause it
            return Recomputed(CheckResult("policy", "unknown", f"this machine could not run the model: {error}"))
        result = compare(claims, found)
        if audit.spots is None or result.status != "pass":
            return Recomputed(result)
        return Recomputed(result, answers_of(audit, claims, found))

    def _model(self, audit: Audit, weights: bytes | None) -> Any:
        """The base's model with these weights; None: the base's own."""
        base, policy, lora = audit.base, audit.policy.weights(), audit.policy.lora
        held = self._held.get(base.digest)
        if held is not None and held.full and (weights is None or lora is not None):
            held = None
            del self._held[base.digest]  # before it is loaded again: two models may not fit
        if held is None:
            held = self._held[base.digest] = Held(load_base(self._bases.folder(base), base, device=self._device))
        if weights is None:
            held.to_base()
        elif held.policy != policy and lora is None:
            held.load_full(weights, policy)
        elif held.policy != policy and lora is not None:
            held.load_adapter(weights, lora, policy)
        return held.model


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


def asked(audit: Audit, claims: Sequence[Claimed]) -> list[list[int]]:
    """Per completion and position the number whose owner is wanted: that of the spot's question where it stands."""
    us = [[0] * len(claim.records) for claim in claims]
    for u, claim in zip(us, claims, strict=True):
        if audit.spots is not None:
            question = audit.spots.question(claim.leaf(audit), claim.records)
            u[question.t] = question.u or 0
    return us


def answers_of(audit: Audit, claims: Sequence[Claimed], found: Sequence[Sequence[Position]]) -> tuple[int, ...]:
    """The tokens that own what the spots ask for, in the order of the draw; 0 where nothing is asked."""
    assert audit.spots is not None
    answers = {}
    for claim, own in zip(claims, found, strict=True):
        question = audit.spots.question(claim.leaf(audit), claim.records)
        answers[claim.leaf(audit)] = 0 if question.u is None else own[question.t].chosen
    return tuple(answers[i] for i in audit.spots.leaves)


def compare(claims: Sequence[Claimed], found: Sequence[Sequence[Position]]) -> CheckResult:
    """The largest difference decides: fail at the first position beyond *reject*, else void at the first beyond *void*.

    A token that owns nothing under the policy fails, whatever interval it claims.
    """
    worst = count = 0
    first_void: CheckResult | None = None
    for claim, own in zip(claims, found, strict=True):
        for t, (record, position) in enumerate(zip(claim.records, own, strict=True)):
            off = max(abs(record.lo - position.lo), abs(record.last - position.last))
            if position.lo > position.last:
                return _differs("fail", "the policy never gives this token", claim, t, position)
            if off > REJECT_TOLERANCE:
                reason = f"the interval is not the policy's: off by {off / FULL:.4f} of probability"
                return _differs("fail", reason, claim, t, position)
            if off > VOID_TOLERANCE and first_void is None:
                reason = f"the interval is off by {off / FULL:.6f} of probability: too much to pass, too little to fail"
                first_void = _differs("void", reason, claim, t, position)
            worst, count = max(worst, off), count + 1
    return first_void or CheckResult(
        "policy", "pass", f"{count} positions, the largest difference is {worst / FULL:.1e}"
    )


def _differs(status: Status, reason: str, claim: Claimed, t: int, position: Position) -> CheckResult:
    record = claim.records[t]
    evidence = {
        "token": str(record.token),
        "claimed": f"{record.lo:#018x} … {record.last:#018x}",
        "recomputed": f"{position.lo:#018x} … {position.last:#018x}",
    }
    return CheckResult("policy", status, reason, claim.slot, claim.k, t, evidence)
