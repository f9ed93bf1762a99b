"""Which request stands in which row of vLLM's batch, after any order of events."""

from hypothesis import given
from hypothesis import strategies as st

from sapo_client.generation.vllm.rows import Rows


def test_added_removed_moved_and_swapped() -> None:
    rows: Rows[str] = Rows()
    rows.update([], [(0, "a"), (1, "b"), (2, "c"), (3, "d")], [])
    rows.update([1], [], [(3, 1, False)])
    assert rows.below(3) == [(0, "a"), (1, "d"), (2, "c")]
    rows.update([], [], [(0, 2, True)])
    assert rows.below(3) == [(0, "c"), (1, "d"), (2, "a")]
    rows.update([0], [(0, "e")], [(0, 1, True)])
    assert rows.below(9) == [(0, "d"), (1, "e"), (2, "a")]


def test_a_one_way_move_leaves_nothing_behind_and_replaces_what_was_there() -> None:
    rows: Rows[str] = Rows()
    rows.update([], [(0, "a"), (1, "b")], [(1, 0, False)])
    assert rows.below(9) == [(0, "b")]


def test_moves_of_empty_rows() -> None:
    rows: Rows[str] = Rows()
    rows.update([5], [(2, "a")], [(7, 8, True), (7, 2, True), (7, 2, True)])
    assert rows.below(9) == [(2, "a")]


def test_rows_beyond_the_batch_are_not_touched() -> None:
    rows: Rows[str] = Rows()
    rows.update([], [(4, "e"), (0, "a")], [])
    assert rows.below(4) == [(0, "a")]


@given(st.data())
def test_a_batch_that_is_condensed_as_vllm_does_it(data: st.DataObject) -> None:
    """Requests end, others take their rows, the last ones move into the holes, pairs change places."""
    rows: Rows[int] = Rows()
    batch: dict[int, int] = {}
    fresh = 0
    for _ in range(data.draw(st.integers(1, 12))):
        gone = data.draw(st.sets(st.sampled_from(sorted(batch)), max_size=len(batch))) if batch else set()
        for row in gone:
            del batch[row]
        added = []
        free = sorted(gone)  # only rows that are not taken again are told as removed
        for _ in range(data.draw(st.integers(0, 4))):
            row = free.pop(0) if free else len(batch)
            batch[row] = fresh
            added.append((row, fresh))
            fresh += 1
        moved = []
        while batch and max(batch) >= len(batch):
            hole, last = min(set(range(len(batch))) - batch.keys()), max(batch)
            batch[hole] = batch.pop(last)
            moved.append((last, hole, False))
        if len(batch) > 1 and data.draw(st.booleans()):
            a, b = data.draw(st.lists(st.sampled_from(sorted(batch)), min_size=2, max_size=2, unique=True))
            batch[a], batch[b] = batch[b], batch[a]
            moved.append((a, b, True))
        rows.update(sorted(free, reverse=True), added, moved)
        assert rows.below(len(batch)) == sorted(batch.items())
