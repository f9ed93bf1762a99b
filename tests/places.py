"""Where, in a draft of testkit/formula.py, there is a completion of the kind that a test is about."""

from collections.abc import Callable

from sapo_devnet.formula.policy import EOS
from sapo_devnet.testkit.formula import GROUP, LIMIT, SLOTS, Draft

Place = tuple[int, int]  # slot and completion


def first(draft: Draft, holds: Callable[[int, int], bool]) -> Place:
    """Raises StopIteration where there is none: the draft's beacon is to be one that gives every kind."""
    return next((slot, k) for slot in range(SLOTS) for k in range(GROUP) if holds(slot, k))


def right(draft: Draft) -> Place:
    """One that earns: of the first slot, whose answer has two digits."""
    return first(draft, draft.claimed)


def wrong(draft: Draft) -> Place:
    """One that earns nothing and ends by itself, after some tokens."""

    def holds(slot: int, k: int) -> bool:
        return not draft.claimed(slot, k) and length(draft, slot, k) > 4 and _ends(draft, slot, k)

    return first(draft, holds)


def cut(draft: Draft) -> Place:
    """One of LIMIT tokens, without an end."""
    return first(draft, lambda slot, k: length(draft, slot, k) == LIMIT and not _ends(draft, slot, k))


def of_length(draft: Draft, slot: int, least: int) -> Place:
    """One of a slot with so many tokens at least."""
    return first(draft, lambda at, k: at == slot and length(draft, at, k) >= least)


def length(draft: Draft, slot: int, k: int) -> int:
    return len(draft.slots[slot].records[k])


def _ends(draft: Draft, slot: int, k: int) -> bool:
    return draft.slots[slot].tokens(k)[-1] == EOS
