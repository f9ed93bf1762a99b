"""Each thing that `sapo status` calls unhealthy: facts in, sentences out."""

import dataclasses
import os
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from sapo_client.duties.debts import Debt
from sapo_client.duties.health.bounded import Late, Work, each_within
from sapo_client.duties.health.collapse import collapse_reasons
from sapo_client.duties.health.judged import OwnBatch, Said, batch_reasons, reached, reached_reasons
from sapo_client.duties.health.membership import Member, Unrevealed, member_reasons
from sapo_client.duties.health.money import GAS_OF_A_ROUND, Money, gas_of_a_round, money_reasons, rounds_left
from sapo_client.duties.health.outbox import outbox_reasons, waits
from sapo_client.duties.health.process import Process, patience, process_reasons, read_process
from sapo_client.duties.health.rounds import Played, round_reasons
from sapo_client.duties.health.votes import harmless
from sapo_client.state.home import holder, only_one
from sapo_client.transactions.store import Attempt, OutboxStore
from sapo_verifier.chain.audits import BatchOutcome, BatchState, Votes
from sapo_verifier.chain.contracts import Call
from sapo_verifier.chain.reader import NodeInfo, NodeState
from sapo_verifier.errors import SapoError

COIN = 10**18
GWEI = 10**9
NOBODY = Votes(0, 0, 0, 0)

WELL = Process(
    running=True, writer=7, writer_lives=True, holder=7, phase="generating", phase_seconds=5.0, silent_seconds=3.0,
    still_seconds=5.0, round_seconds=768.0, longest=None, trouble="",
)  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, ""),
        ({"running": False, "writer_lives": False}, "process 7, which said so, is gone; start it"),
        ({"running": False}, "process 7, which said so, is another one by now"),
        ({"holder": 8}, "process 8 holds the home and has said nothing yet (status.json is of process 7)"),
        ({"holder": None}, ""),
        ({"silent_seconds": 61.0}, "has said nothing for 61 s"),
        ({"phase": "starting", "phase_seconds": 40.0}, "it is still starting (40 s)"),
        ({"still_seconds": 1500.0}, ""),
        ({"still_seconds": 1600.0}, "hangs in the phase “generating”: nothing has moved for 1600 s, more than 1536;"),
        ({"still_seconds": 400.0, "longest": 70.0}, "more than 350, and took 70 s at most in the last rounds"),
        ({"still_seconds": 290.0, "round_seconds": 1.0, "longest": 1.0}, ""),
        ({"trouble": "the moon is in the way"}, "the moon is in the way"),
    ],
)
def test_a_process(changes: dict[str, Any], words: str) -> None:
    found = process_reasons(dataclasses.replace(WELL, **changes))
    assert len(found) == bool(words)
    assert words in "".join(found)


def test_a_round_of_64_blocks_of_12_seconds_is_waited_for_twice() -> None:
    assert patience(WELL) == 2 * 64 * 12
    assert patience(dataclasses.replace(WELL, round_seconds=1.0)) == 300.0


def test_a_process_is_read_with_its_times_and_its_number(tmp_path: Path) -> None:
    status = {"pid": os.getpid(), "updated": 990.0, "progressed": 900.0, "phase": "training", "phase_since": 800.0}
    with only_one(tmp_path):
        reports = [{"seconds_training": 3.0}, {"seconds_training": 9.0}]
        read = read_process(tmp_path, status, reports, 64, 1000.0)
    assert (read.running, read.writer_lives, read.holder) == (True, True, os.getpid())
    assert (read.phase_seconds, read.silent_seconds, read.still_seconds, read.longest) == (200.0, 10.0, 100.0, 9.0)
    assert read.round_seconds == 768.0, "of 12 s, where the node has not seen how long a block takes"
    assert read_process(tmp_path, status | {"round_seconds": 20.0}, [], 64, 1000.0).round_seconds == 20.0
    assert not read_process(tmp_path, {}, [], 64, 1000.0).running
    (tmp_path / "lock").write_text("no number")
    assert holder(tmp_path) is None


def outcome(state: BatchState, one: Votes = NOBODY, two: Votes = NOBODY, disputer: str | None = None) -> BatchOutcome:
    return BatchOutcome(17, state, False, state is not BatchState.STANDING, one, two, disputer)


def own(
    state: BatchState, one: Votes = NOBODY, *against: Said, round_: int = 9, disputer: str | None = None
) -> OwnBatch:
    return OwnBatch(17, round_, outcome(state, one, disputer=disputer), against)


LOST = Said("0xaa", 1, 3, "available", "nobody has it")
FALSE = Said("0xbb", 1, 2, "reward", "1 is claimed, 0 is earned")
SILENT = Said("0xcc", 2, 3, "", "its report did not come in time")


@pytest.mark.parametrize(
    ("batch", "words"),
    [
        (own(BatchState.STANDING, Votes(3, 0, 0, 3)), []),
        (own(BatchState.ACCEPTED, Votes(3, 1, 0, 4), FALSE), []),
        (own(BatchState.VOID, Votes(1, 0, 0, 1)), []),  # too few voted, which is not this node's fault
        (own(BatchState.VOID, Votes(1, 0, 1, 2), LOST), ["17 of round 9 is void: 0xaa calls void it in stage 1 (avail",
                                                         "able: nobody has it)", "endpoint can be reached"]),
        (own(BatchState.DISPUTED, Votes(1, 1, 0, 2), FALSE), ["disputed: 0xbb rejects it in stage 1 (reward: 1 is",
                                                              "the release and the base"]),
        (own(BatchState.DISPUTED, Votes(2, 0, 0, 2), disputer="0xdd"), ["disputed (by 0xdd, who locked a bond)"]),
        (own(BatchState.REJECTED, Votes(0, 3, 0, 3)), ["3 rejects and 0 voids were revealed; `sapo-verify batch 17`"]),
        (own(BatchState.PROVEN_FALSE), ["is proven false", "the bond is gone"]),
        (own(BatchState.VOID, Votes(0, 0, 4, 4), LOST, LOST, LOST, SILENT), ["; and 1 more"]),
        (own(BatchState.VOID, Votes(0, 0, 1, 1), SILENT), ["0xcc calls void it in stage 2 (its report did not come"]),
    ],
)  # fmt: skip
def test_own_batches_that_others_doubt(batch: OwnBatch, words: list[str]) -> None:
    found = batch_reasons([batch])
    assert len(found) == bool(words)
    for part in words:
        assert part in found[0]


def test_who_reached_this_node() -> None:
    accepted = own(BatchState.STANDING, Votes(2, 0, 0, 2), round_=8)
    lost = own(BatchState.DISPUTED, Votes(0, 0, 1, 1), LOST)
    assert reached([accepted], 11) == (True, "in round 8: 2 verdicts of others took all blocks of batch 17")
    is_reached, words = reached([accepted, lost], 11)
    assert (is_reached, words) == (False, "not in round 9: 0xaa says: available: nobody has it"), (
        "the latest one counts"
    )
    both = own(BatchState.DISPUTED, Votes(1, 0, 1, 2), LOST)
    assert reached([both], 11)[0] is True
    assert "1 others could not get all of them: nobody has it" in reached([both], 11)[1]
    other = own(BatchState.DISPUTED, Votes(0, 0, 1, 1), Said("0xaa", 1, 3, "policy", "an interval beyond void"))
    assert reached([other], 11)[0] is True, "judging that takes all blocks"
    assert reached([own(BatchState.DISPUTED, Votes(0, 0, 1, 1), SILENT)], 11)[0] is None
    assert reached([own(BatchState.PENDING)], 11) == reached([], 11)
    assert reached([], 11)[1].startswith("not checked: nobody has revealed")


def test_not_checked_is_a_reason_and_a_note_on_a_devnet() -> None:
    assert reached_reasons(True, "", alone=False) == []
    assert "router, firewall" in reached_reasons(False, "not in round 9", alone=True)[0]
    assert "[ipfs] probe_url" in reached_reasons(None, "not checked", alone=False)[0]
    assert reached_reasons(None, "not checked", alone=True) == []


def member(
    *, state: NodeState = NodeState.REGISTERED, bond: int = COIN, endpoint: str = "/here", **more: Any
) -> Member:
    info = NodeInfo("0xaa", "0xbb", 5, 0, state, bond, "/here", active=True)
    return Member(info, COIN, endpoint, more.get("debts", []), more.get("unrevealed", []))


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (member(), []),
        (member(state=NodeState.SLASHED), ["the node was slashed"]),
        (member(state=NodeState.EXITING), ["says that the node is exiting"]),
        (member(bond=COIN - COIN // 50), ["the bond is short of 0.02 coins"]),
        (member(debts=[Debt(4, COIN // 50, Call("rounds", "poke"))]), ["overdue of round 4: 0.02 coins"]),
        (member(endpoint="/there"), ["at /here, as the chain says, and the node serves them at /there"]),
        (
            member(unrevealed=[Unrevealed(4, 1, True, 99)]),
            ["on round 4, stage 1, were committed and not revealed in time"],
        ),
        (member(unrevealed=[Unrevealed(4, 2, False, 99)]), ["stage 2, were committed and are not revealed yet"]),
    ],
)
def test_a_place_in_the_contracts(given: Member, words: list[str]) -> None:
    found = member_reasons(given)
    assert len(found) == len(words)
    for part, reason in zip(words, found, strict=True):
        assert part in reason.replace("'", "")


def test_money() -> None:
    well = Money("0xaa", COIN, 700_000, 10 * GWEI, 50, 10 * GWEI, 500 * GWEI)
    assert money_reasons(well) == []
    assert rounds_left(well) == "142 rounds of 700000 gas"
    assert "is empty" in money_reasons(dataclasses.replace(well, balance=0))[0]
    (low,) = money_reasons(dataclasses.replace(well, balance=COIN // 10))
    assert "holds 0.1 coins, gas for 14 rounds, less than the 50 of [health] gas_rounds: send it 0.25 more" in low
    (cap,) = money_reasons(dataclasses.replace(well, base_fee=600 * GWEI))
    assert "a block asks 600 gwei, above the cap of 500 ([chain] fee_cap_gwei)" in cap
    free = dataclasses.replace(well, price=0)
    assert (money_reasons(free), rounds_left(free)) == ([], "for any number of rounds")


def test_the_gas_of_a_round_is_measured(tmp_path: Path) -> None:
    path = tmp_path / "outbox.sqlite"
    assert gas_of_a_round(path, 100, 20) == GAS_OF_A_ROUND
    store = OutboxStore(path, "me")
    for number, (key, block, gas) in enumerate(
        [("register/0", 105, 10**6), ("commit/1", 101, 1000), ("submit/1", 121, 2000), ("reveal/1", 139, 500)]
    ):
        entry = store.add(key, Call("rounds", "poke"), 0, None)
        hash_ = bytes([number]) * 32
        store.add_attempt(Attempt(hash_, entry.id, number, b"", gas, 1, 1, False, block))
        store.update(entry, status="mined", block=block, hash=hash_)
    store.close()
    assert gas_of_a_round(path, 100, 20) == (1000 + 2500) // 2


def test_transactions_that_wait_too_long() -> None:
    waited = waits({"submit/9": 100.0, "commit/10": 900.0, "odd": "x"}, 1000.0)
    assert waited == {"submit/9": 900.0, "commit/10": 100.0}
    (reason,) = outbox_reasons(waited, {"submit/9": "the account holds 0 coins"}, 768.0)
    assert reason == "the transaction submit/9 waits for 900 s: the account holds 0 coins"
    assert outbox_reasons(waited, {}, 1000.0) == []
    many = outbox_reasons(dict.fromkeys("abcde", 61.0), {}, 1.0)
    assert many[-1] == "2 more transactions wait as long"
    assert waits(None, 1000.0) == {}


def reports(*skipped: str, first: int = 5) -> list[dict[str, Any]]:
    return [{"round": first + i, "skipped": words} for i, words in enumerate(skipped)]


@pytest.mark.parametrize(
    ("played", "words"),
    [
        (Played(9, 9, -1, [], True), []),
        (Played(9, -1, -1, [], True), []),
        (Played(9, 8, 7, [], True), []),
        (Played(9, 7, 6, [], True), ["nothing was played to its end in the last 2 rounds: the node is in round 7"]),
        (Played(9, 9, 8, reports("no policy"), True), []),  # the round in which it came
        (Played(7, 7, 6, reports("", "too slow"), True), ["nothing was published in round 6: too slow"]),
        (Played(7, 7, 6, reports("", "no policy"), False), []),  # it winds down
        (Played(8, 8, 7, reports("", "too slow", ""), True), []),
        (Played(12, 12, 11, reports("", "a", "b", "c", "d", "e", ""), True), ["in 5 of the last 10 rounds (6, 7,"]),
        (Played(14, 14, 13, reports("", "a", "b", "c", "d", "e", "", "", ""), True), []),  # well again
    ],
)  # fmt: skip
def test_rounds(played: Played, words: list[str]) -> None:
    found = round_reasons(played)
    assert len(found) == len(words)
    for part, reason in zip(words, found, strict=True):
        assert part in reason


def test_work_that_is_late_is_left_behind() -> None:
    over = threading.Event()

    def fail() -> None:
        raise SapoError("no")

    started = time.monotonic()
    found = each_within({"late": lambda: over.wait(30), "fails": fail, "fast": lambda: 5}, 0.2)  # type: ignore[dict-item]
    assert found == {"fast": 5}
    with pytest.raises(Late):
        Work(lambda: over.wait(30)).result_by(time.monotonic() + 0.1)
    with pytest.raises(SapoError, match="no"):
        Work(fail).result_by(time.monotonic() + 5)
    assert time.monotonic() - started < 5
    over.set()


def test_a_strangers_words_are_harmless() -> None:
    assert harmless("a\nb\x1b[31m" + "ü" * 500) == ("a\\nb\\x1b[31m" + "\\xfc" * 500)[:200]


@pytest.mark.parametrize(
    ("shares", "reward", "dead"),
    [
        ([1.0, 0.9, 0.95], 0, True),
        ([1.0, None, 0.9, 0.95], 0, True),  # a round without a batch in between
        ([1.0, 0.9], 0, False),
        ([1.0, 0.89, 1.0], 0, False),
        ([1.0, 1.0, 1.0], 8, False),  # always right
    ],
)
def test_a_policy_that_answers_everything_alike_is_dying(
    shares: list[float | None], reward: int, *, dead: bool
) -> None:
    reports = [{"completions": 8, "reward": reward, "commonest": share} for share in shares]
    assert bool(collapse_reasons(reports)) is dead
    few = [report | {"completions": 4} for report in reports]
    assert collapse_reasons(few) == []
