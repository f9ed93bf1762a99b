"""The round's timetable and the contracts' fixed numbers (docs/protocol.md, sections 9 and 11 to 14).

Counted in rounds after the round r whose batches are judged. A test holds each line against the contracts.
"""

COMMIT_AFTER = {1: 1, 2: 4}  # stage → when its verdicts are committed; that round's beacon deals the windows
REVEAL_AFTER = {1: 2, 2: 5}  # stage → when they are revealed: in that round only
DISPUTE_AFTER = 3  # when an accepted batch can be disputed: in that round only
SERVE_AFTER = 5  # until when whoever fetched a batch keeps and serves all of it: stage 2 looks at what was answered
FINAL_AFTER = 6  # from when on nothing of r changes
KEEP_AFTER = 8  # until when nodes keep the blocks of r, but for others' weights: final, plus a margin

STAGE_2_FACTOR = 4  # a window of stage 2 holds so many times the draws
PROVERS_PART = 10  # of a bond: what a fraud proof brings its sender is one in so many
CALLERS_PART = 10  # of a fee or penalty: what settling it brings is one in so many
MOST_CLAIMS = 32  # rounds that one claim of pay can name
NO_BATCH = 2**256 - 1  # the index by which `settle` takes what is about no batch


def window_size(draws: int, stage: int) -> int:
    """Batches that a voter's window holds at most. draws: the spec's, of stage 1."""
    return draws * (STAGE_2_FACTOR if stage == 2 else 1)
