"""How a number that is watched is declared: beside what counts it, and without what serves it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

S = TypeVar("S")
Value = float | Mapping[str, float] | None  # by the label's value, where there is a label; None: not known


@dataclass(frozen=True)
class Metric(Generic[S]):
    """name: as Prometheus wants it, in base units; one that ends in `_total` only grows, and `of` says by how much.
    words: one sentence for people. of: from what it is read of. label: what its values differ by."""

    name: str
    words: str
    of: Callable[[S], Value]
    label: str = ""

    @property
    def is_counter(self) -> bool:
        return self.name.endswith("_total")
