"""Answers in reveals, on a real chain: of which batches, in which order. What they are the test makes up."""

from collections.abc import Iterator

import pytest

from sapo_devnet.testkit.networks import Network
from sapo_verifier.spots import decode_answers
from voters import FAIL, Voter, begin, play_round, revealed, set_back

ACCOUNTS = (1, 2, 3, 4)
R = 2  # the round that is judged


@pytest.fixture
def network(begun: Network) -> Iterator[Network]:
    with set_back(begun):
        yield begun


def test_answers_are_about_what_was_accepted_in_the_window_s_order_and_none_in_stage_2(
    network: Network, voters: dict[int, Voter]
) -> None:
    false = voters[1].reader.batch_of(voters[1].node, R)
    assert false is not None
    for account in (2, 3, 4):
        voters[account].pool.findings[false] = FAIL
    begin(network, R + 1)
    for voter in voters.values():
        voter.pool.answers = {batch.index: (1000 + batch.index, 2**32 - 1) for batch in voter.auditor.window(R)}
    for round_ in range(R + 1, R + 6):
        play_round(network, voters.values(), round_)
    for account, voter in voters.items():
        accepted = [batch.index for batch in voter.auditor.window(R) if batch.index != false]
        told = [token for index in accepted for token in (1000 + index, 2**32 - 1)]
        args = revealed(network, voter, R)
        assert decode_answers(args["answers"]) == told
        assert len(told) == (6 if account == 1 else 4)
        assert args["salt"] == voter.seeds.seed(R)
    assert revealed(network, voters[2], R, stage=2)["answers"] == b""
