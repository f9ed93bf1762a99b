"""rounds.jsonl has every round exactly once, and the true reason of those in which nothing was published."""

from pathlib import Path

import pytest

from sapo_client.node.reporting import why_not_on_chain
from sapo_client.node.round_log import MOST_PASSED, RoundLog
from sapo_client.state.report import ROUNDS_FILE, RoundReport, read_rounds
from sapo_client.transactions.outbox import TxState


def lines(home: Path) -> int:
    path = home / ROUNDS_FILE
    return len(path.read_text().splitlines()) if path.exists() else 0


def skipped(home: Path) -> dict[int, str]:
    return {report["round"]: report["skipped"] for report in read_rounds(home)}


def play(log: RoundLog, round_: int, words: str = "") -> None:
    log.begins(round_)
    log.report(RoundReport(round_, completions=0 if words else 8, skipped=words))


def test_a_new_node_knows_nothing_of_earlier_rounds(tmp_path: Path) -> None:
    play(RoundLog(tmp_path), 500, "no policy was committed")
    assert skipped(tmp_path) == {500: "no policy was committed"}


def test_rounds_that_passed_get_the_reason_that_is_known(tmp_path: Path) -> None:
    log = RoundLog(tmp_path)
    play(log, 3)
    log.begins(4)
    log.because(4, "its beacon was not captured")
    log.meanwhile("the chain was away: no answer")
    log.begins(7)
    log.report(RoundReport(7, completions=8))
    play(log, 9)
    assert skipped(tmp_path) | {3: "", 7: "", 9: ""} == skipped(tmp_path)
    assert skipped(tmp_path)[4] == "its beacon was not captured"
    assert skipped(tmp_path)[5] == skipped(tmp_path)[6] == "the chain was away: no answer"
    assert skipped(tmp_path)[8].startswith("the node was still busy with round 7")
    assert lines(tmp_path) == 7, "each exactly once"


def test_rounds_in_which_the_node_did_not_run(tmp_path: Path) -> None:
    play(RoundLog(tmp_path), 3)
    log = RoundLog(tmp_path)
    play(log, 6)
    assert (
        skipped(tmp_path)[4]
        == skipped(tmp_path)[5]
        == ("the node was not running, or still starting, when the round passed")
    )
    play(RoundLog(tmp_path), 6 + 10 * MOST_PASSED)
    assert lines(tmp_path) == 4 + MOST_PASSED + 1, "of many only the latest"


def test_a_round_is_reported_once_though_it_is_played_again(tmp_path: Path) -> None:
    log = RoundLog(tmp_path)
    play(log, 3)
    play(log, 3)
    play(RoundLog(tmp_path), 3)
    assert lines(tmp_path) == 1
    log.anew(3)
    play(log, 3)
    assert lines(tmp_path) == 2, "a reorganization made it another round"


def test_a_round_that_was_given_up_and_played_after_all(tmp_path: Path) -> None:
    play(RoundLog(tmp_path), 3, "given up after three tries: no disk")
    play(RoundLog(tmp_path), 3, "no policy")
    assert skipped(tmp_path) == {3: "given up after three tries: no disk"}
    play(RoundLog(tmp_path), 3)
    assert skipped(tmp_path) == {3: ""}


def test_a_round_of_an_older_history_is_no_hole(tmp_path: Path) -> None:
    play(RoundLog(tmp_path), 10)
    log = RoundLog(tmp_path)
    play(log, 3)
    play(log, 4)
    assert [report["round"] for report in read_rounds(tmp_path)] == [3, 4, 10]


@pytest.mark.parametrize(
    ("state", "words"),
    [
        (TxState("expired", "round 5 ended before it could be sent"), "round 5 ended before it could be sent"),
        (TxState("failed", "the contract refused"), "the contract refused"),
        (TxState("failed"), "it is failed"),
        (TxState("intent"), "it was not sent when the round ended"),
        (TxState("sent"), "it was sent, and not mined when the round ended"),
        (TxState("sent", "the fee is too low"), "the fee is too low"),
        (TxState("mined", block=77), "the outbox says that it was mined in block 77, but the chain does not show it"),
        (TxState("none"), "the chain showed it, and does not any more"),
    ],
)
def test_why_a_batch_is_not_on_chain(state: TxState, words: str) -> None:
    assert words in why_not_on_chain(state)


def test_a_policy_that_dies_is_said_once_until_it_lives_again(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    log = RoundLog(tmp_path)
    said = []
    for round_, share in enumerate((0.2, 0.95, 1.0, 0.9, 1.0, 0.3, 1.0, 1.0, 1.0)):
        log.begins(round_)
        log.report(RoundReport(round_, completions=8, reward=1, commonest=share))
        said.append(len(caplog.messages))
    assert said == [0, 0, 0, 1, 1, 1, 1, 1, 2]
    assert "answers every task alike" in caplog.messages[0]
    RoundLog(tmp_path).report(RoundReport(9, completions=8, reward=1, commonest=1.0))
    assert len(caplog.messages) == 2, "nor again after a restart"
