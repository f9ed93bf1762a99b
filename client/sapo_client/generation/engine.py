"""What every engine is: prompts and streams in, completions out."""

from collections.abc import Callable, Sequence
from typing import Protocol


class Engine(Protocol):
    """Whatever turns prompts and streams into completions; it may be fast and slightly wrong, see records.py."""

    def generate(
        self, prompts: Sequence[Sequence[int]], prefixes: Sequence[Sequence[int]], keys: Sequence[bytes]
    ) -> list[list[int]]:
        """One completion per row: its prefix, which stays as given, and what follows, up to and with the first eos.

        prompts: token ids; prefixes: completion tokens that are fixed already; keys: the streams (32 bytes), whose
        value u(t) forces the token at position t. The weights are those of the moment of the call.
        """

    def sleep(self) -> None:
        """Nothing is to be generated for a while: let go of what training can use. The next `generate` is as ever."""


def begin(
    prompts: Sequence[Sequence[int]], prefixes: Sequence[Sequence[int]], ended: Callable[[Sequence[int]], bool]
) -> tuple[list[list[int]], list[int]]:
    """The completions as they are given, and the rows that go on. Raises ValueError for an empty prompt."""
    if any(not prompt for prompt in prompts):
        raise ValueError("an empty prompt cannot be completed; the base's template must render at least one token")
    completions = [list(prefix) for prefix in prefixes]
    return completions, [row for row, tokens in enumerate(completions) if not ended(tokens)]
