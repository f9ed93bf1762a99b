"""A home weighs what its history weighs, and not what the node's age does."""

from sapo_client.state.home import OUTBOX
from sapo_client.state.report import ROUNDS_FILE
from sapo_lab.sweeps.weight import play, weigh


def test_twice_the_age_is_the_same_weight() -> None:
    young, old = (weigh(lambda home, rounds=rounds: play(home, rounds, 100)) for rounds in (250, 500))  # type: ignore[misc]
    for name in (OUTBOX, ROUNDS_FILE):
        assert old[name] < 1.05 * young[name]
        assert old[name] < 1_500_000
