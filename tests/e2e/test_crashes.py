"""`kill -9` at steps of the node's loop: it goes on exactly. `scripts/crashes` takes all moments, this the worst."""

from pathlib import Path

import pytest

from sapo_lab.sweeps.crash_moments import MOMENTS, crashes

pytestmark = pytest.mark.timeout(600)  # each start takes seconds of imports, many on a busy machine

TAKEN = [
    "the beacon's poke is sent",
    "signed, not stored",
    "signed and stored, not sent",
    "its files are written, not renamed",
    "the commitment is stored",
]


def test_a_node_that_is_killed_in_every_round_loses_none_and_does_nothing_twice(tmp_path: Path, pocket: Path) -> None:
    by_words = {moment.words: moment for moment in MOMENTS}
    moments = [by_words[words] for words in TAKEN]
    with crashes(tmp_path, pocket) as run:
        run.ready(moments[0])
        assert len(list(run.play(moments))) == len(moments)
        run.check_all()


def test_after_a_power_loss_that_cut_all_that_was_written_last_it_goes_on(tmp_path: Path, random_policy: Path) -> None:
    with crashes(tmp_path, random_policy) as run:
        run.ready(None)
        for cut in (lambda size: 0, lambda size: max(0, size - 1)):
            run.check_after_power_loss(run.power_loss(cut))
