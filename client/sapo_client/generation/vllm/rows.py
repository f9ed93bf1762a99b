"""Which request stands in which row of vLLM's running batch; without vLLM, so that every order can be tested."""

from collections.abc import Iterable
from typing import Generic, TypeVar

T = TypeVar("T")

KEY = "sapo"  # in a request's extra_args


class Rows(Generic[T]):
    """Row → request, through one step's changes of the batch after the other."""

    def __init__(self) -> None:
        self._at: dict[int, T] = {}

    def update(
        self, removed: Iterable[int], added: Iterable[tuple[int, T]], moved: Iterable[tuple[int, int, bool]]
    ) -> None:
        """One step, in vLLM's order: rows that became free, requests that came into a row, then moves.

        moved: (a, b, swap): a's request stands in b now; b's in a where they swap, otherwise it is gone.
        """
        for row in removed:
            self._at.pop(row, None)
        self._at.update(added)
        for a, b, swap in moved:
            first, second = self._at.pop(a, None), self._at.pop(b, None)
            if first is not None:
                self._at[b] = first
            if second is not None and swap:
                self._at[a] = second

    def below(self, size: int) -> list[tuple[int, T]]:
        """(row, request) of the rows that the batch has, in order."""
        return [(row, self._at[row]) for row in sorted(self._at) if row < size]
