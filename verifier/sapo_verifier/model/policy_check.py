"""The `policy` check: the claimed intervals are the declared policy's (docs/protocol.md, Sampling and Checks); and
`answers`, to what spots ask.

One model object per base; each batch's declared weights are swapped into it, or its adapter merged. Bytes and time are
bounded by the spec before the model sees anything: `max_adapter_bytes` of weights, an adapter's rank by `max_rank`,
`slots · G` completions that fit the base's context; what would fail is run nine times more, four completions of it.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Literal

from sapo_verifier.audit import Audit, CheckResult, Cost, Recomputed
from sapo_verifier.bases import Bases
from sapo_verifier.errors import SapoError
from sapo_verifier.intervals import FULL
from sapo_verifier.ipfs import BlockError, StoreFailed
from sapo_verifier.model.answers import answers_of, asked, judged
from sapo_verifier.model.base import load_base
from sapo_verifier.model.claims import (
    Claimed,
    PromptError,
    bears_out,
    compare,
    declared_weights,
    differs,
    failing,
    read_claims,
)
from sapo_verifier.model.lora import Layers, Originals, adapted_layers, linear_layers, merge, read_adapter
from sapo_verifier.model.positions import Position, positions
from sapo_verifier.model.sampling import NotFiniteError
from sapo_verifier.model.stability import Place, run_again
from sapo_verifier.model.weights import WeightsError, load_weights
from sapo_verifier.objects import Lora, Record

BATCH_TOKENS = 8192  # padded tokens in one pass (or a single completion): what bounds memory beside the weights
RUN_AGAIN = 4  # completions of those that would fail, the first ones: what bounds the time that a false batch takes


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


@dataclass(frozen=True)
class Look:
    """A pass over an audit's completions: the model as it was, what was claimed, what was found."""

    model: Any
    claims: list[Claimed]
    found: list[list[Position]]


class PolicyModels:
    """Answers the policy check. Not for several threads: a model holds one policy's weights at a time."""

    runs = True

    def __init__(self, bases: Bases, *, device: str = "cpu", batch_tokens: int = BATCH_TOKENS) -> None:
        self._bases = bases
        self._device = device
        self._batch_tokens = batch_tokens
        self.seconds = 0.0
        self.cost = Cost()
        self._held: dict[bytes, Held] = {}  # by the base's digest

    def __call__(self, audit: Audit) -> Recomputed:
        return self._tried(audit, self._recomputed)

    def judge(self, audit: Audit, answers: Sequence[int]) -> CheckResult:
        asked_for = 0 if audit.spots is None else len(audit.spots.leaves)
        if len(answers) != asked_for:
            return CheckResult("answers", "fail", f"{len(answers)} answers to {asked_for} questions")
        found = self._tried(audit, lambda audit, look: Recomputed(self._judged(audit, look, answers)))
        return replace(found.result, check="answers")

    def interval(self, audit: Audit, slot: int, k: int, t: int) -> tuple[tuple[int, int] | None, str]:
        """What the policy gives to the token at a position, lo and last; or None, and in words why. One pass, over that
        completion. For documents that are whole."""
        own: list[Position] = []

        def found(audit: Audit, look: Look) -> Recomputed:
            own.append(look.found[0][t])
            return Recomputed(CheckResult("policy", "pass"))

        said = self._tried(audit, found, only=(slot, k)).result
        return ((own[0].lo, own[0].last), "") if own else (None, said.reason)

    def _tried(
        self, audit: Audit, said: Callable[[Audit, Look], Recomputed], only: tuple[int, int] | None = None
    ) -> Recomputed:
        """What is said of a look at the audit's completions, or why there is none. only: slot and k of one of them."""
        started = time.monotonic()
        try:
            look = self._look(audit, only)
            with self._takes("passes"):
                return said(audit, look)
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
        finally:
            self.seconds += time.monotonic() - started

    def _look(self, audit: Audit, only: tuple[int, int] | None = None) -> Look:
        weights = declared_weights(audit)
        claims = [claim for claim in read_claims(audit, self._bases) if only in (None, (claim.slot, claim.k))]
        model = self._model(audit, weights)
        passages, us = [claim.passage for claim in claims], asked(audit, claims)
        with self._takes("passes"):
            found = positions(model, passages, us, audit.base.vocab, batch_tokens=self._batch_tokens)
        return Look(model, claims, found)

    def _recomputed(self, audit: Audit, look: Look) -> Recomputed:
        result = compare(look.claims, look.found)
        if result.status == "fail":
            return self._unless_unstable(audit, look, result)
        if audit.spots is None or result.status != "pass":
            return Recomputed(result)
        return Recomputed(result, answers_of(audit, look.claims, look.found))

    def _unless_unstable(self, audit: Audit, look: Look, failure: CheckResult) -> Recomputed:
        """The failure, if every place of the first completions that fail is stable; else void."""
        failures = list(failing(look.claims, look.found))
        chosen = list(dict.fromkeys(i for i, _ in failures))[:RUN_AGAIN]
        places = [Place(chosen.index(i), t, _bears_out(look.claims[i].records[t])) for i, t in failures if i in chosen]
        passages, first = [look.claims[i].passage for i in chosen], [look.found[i] for i in chosen]
        vocab = audit.base.vocab
        found = run_again(look.model, passages, places, first, vocab, batch_tokens=self._batch_tokens)
        for place, stability in zip(places, found, strict=True):
            if not stability.stable:
                words = (
                    "the interval is not the policy's here, and the policy is too ill-conditioned to tell: weights a "
                    f"millionth aside move it by {stability.moved / FULL:.6f} of probability"
                )
                claim, position = look.claims[chosen[place.passage]], first[place.passage][place.t]
                void = differs("void", words, claim, place.t, position)
                return Recomputed(void, hides=not all(each.near for each in found))
        return Recomputed(failure)

    def _judged(self, audit: Audit, look: Look, answers: Sequence[int]) -> CheckResult:
        own = self._recomputed(audit, look).result
        if own.status != "pass":
            return replace(own, reason=f"a spot's own check: {own.reason}")
        return judged(look.model, audit, look.claims, look.found, answers, batch_tokens=self._batch_tokens)

    @contextmanager
    def _takes(self, part: Literal["load", "merge", "passes"]) -> Iterator[None]:
        started = time.monotonic()
        try:
            yield
        finally:
            self.cost += Cost(**{part: time.monotonic() - started})

    def _model(self, audit: Audit, weights: bytes | None) -> Any:
        """The base's model with these weights; None: the base's own."""
        base, policy, lora = audit.base, audit.policy.weights(), audit.policy.lora
        held = self._held.get(base.digest)
        if held is not None and held.full and (weights is None or lora is not None):
            held = None
            del self._held[base.digest]  # before it is loaded again: two models may not fit
        if held is None:
            with self._takes("load"):
                held = self._held[base.digest] = Held(load_base(self._bases.folder(base), base, device=self._device))
        with self._takes("merge"):
            if weights is None:
                held.to_base()
            elif held.policy != policy and lora is None:
                held.load_full(weights, policy)
            elif held.policy != policy and lora is not None:
                held.load_adapter(weights, lora, policy)
        return held.model


def _bears_out(record: Record) -> Callable[[Position], bool]:
    return lambda position: bears_out(record, position)
