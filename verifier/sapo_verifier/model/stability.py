"""Whether a failure is the policy's or the arithmetic's: what would fail is run again in float64, and with weights a
hair beside the declared ones (docs/protocol.md, Tolerances).

Where logits are what rounding leaves behind, times a large number, two processors find two policies, and both are
right. Such numbers change as much with weights that are moved by less than anybody could mean.

No pass changes the model, and none needs a second one: an operation is given an altered copy of the weights that it
reads, made when it reads them. So beside the model there are at most two copies of its largest tensor, in float64.
"""

import secrets
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from sapo_verifier.intervals import FULL, VOID_TOLERANCE
from sapo_verifier.model.forward import Passage
from sapo_verifier.model.positions import Position, positions
from sapo_verifier.model.sampling import NotFiniteError

JITTER = 2.0**-20  # a weight's largest relative change: some sixteen roundings of float32
JITTERED = 8  # passes with it, after the one in float64
STABLE_TOLERANCE = VOID_TOLERANCE  # an edge that moves by more in one of these passes is not the policy's


class Place(NamedTuple):
    """A position that would fail. near: whether a pass that finds this bears out what was claimed."""

    passage: int
    t: int
    near: Callable[[Position], bool]


@dataclass
class Stability:
    """What the passes say of a place. moved: an edge's largest distance from the first pass, in integers of 2**64, and
    2**64 if a pass was not finite. near: whether one of them bore out what was claimed."""

    moved: int = 0
    near: bool = False

    @property
    def stable(self) -> bool:
        """The failure counts: no pass moves it, and none takes it back."""
        return self.moved <= STABLE_TOLERANCE and not self.near


def run_again(
    model: Any,
    passages: Sequence[Passage],
    places: Sequence[Place],
    first: Sequence[Sequence[Position]],
    vocab: int,
    *,
    batch_tokens: int,
) -> list[Stability]:
    """For each place what one pass in float64 and eight with jittered weights find. first: the pass that failed."""
    found = [Stability() for _ in places]
    for again in _passes(model, passages, vocab, batch_tokens):
        for place, stability in zip(places, found, strict=True):
            if again is None:
                stability.moved = FULL
                continue
            before, after = first[place.passage][place.t], again[place.passage][place.t]
            moved = max(abs(before.lo - after.lo), abs(before.last - after.last))
            stability.moved = max(stability.moved, moved)
            stability.near = stability.near or place.near(after)
    return found


def _passes(
    model: Any, passages: Sequence[Passage], vocab: int, batch_tokens: int
) -> Iterator[list[list[Position]] | None]:
    """One after the other; None for one that is not finite."""
    us = [[0] * len(passage.completion) for passage in passages]  # nothing is asked
    for altered in (InDouble(), *(Jittered(secrets.randbits(62)) for _ in range(JITTERED))):
        try:
            with altered:
                found = positions(model, passages, us, vocab, batch_tokens=batch_tokens)
        except NotFiniteError:
            yield None
        else:
            yield found


class _Altered(TorchFunctionMode):
    """While it lasts, an operation that is given a model's parameter sees an altered copy of it.

    The copy that was made last is kept: the output layer is read once for each part of the logits.
    """

    def __init__(self) -> None:
        super().__init__()
        self._last: tuple[Tensor, Tensor] | None = None

    def alter(self, parameter: Tensor) -> Tensor:
        raise NotImplementedError

    def _seen(self, value: Any) -> Any:
        if not isinstance(value, nn.Parameter) or not value.is_floating_point():
            return value
        if self._last is None or self._last[0] is not value:
            self._last = None  # before the next is made
            self._last = (value, self.alter(value.detach()))
        return self._last[1]

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func.__name__ == "__get__":  # shape, type and the like
            return func(*args, **(kwargs or {}))
        return func(*map(self._seen, args), **{name: self._seen(value) for name, value in (kwargs or {}).items()})


class Jittered(_Altered):
    """Every weight times 1 + ε, with ε uniform in ± JITTER, the same whenever a weight is read."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self._seed = seed
        self._numbers: dict[int, int] = {}

    def alter(self, parameter: Tensor) -> Tensor:
        number = self._numbers.setdefault(parameter.data_ptr(), len(self._numbers))
        generator = torch.Generator(parameter.device).manual_seed(self._seed + number)
        factors = torch.rand(parameter.shape, generator=generator, device=parameter.device, dtype=parameter.dtype)
        return factors.mul_(2 * JITTER).add_(1 - JITTER).mul_(parameter)


class InDouble(_Altered):
    """Every operation on weights is in float64, also where a model asks for float32, as norms and softmax do.

    What depends on no weight stays as it is: positions' angles are rounded to float32 by every pass alike.
    """

    def alter(self, parameter: Tensor) -> Tensor:
        return parameter.double()

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if args and isinstance(args[0], Tensor) and args[0].dtype == torch.float64:
            if func is Tensor.float:
                return args[0]
            args = tuple(map(_doubled, args))
            kwargs = {name: _doubled(value) for name, value in kwargs.items()}
        return super().__torch_function__(func, types, args, kwargs)


def _doubled(value: Any) -> Any:
    return torch.float64 if value is torch.float32 else value
