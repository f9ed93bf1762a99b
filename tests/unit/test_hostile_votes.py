"""What hostile voters write into their ballots, and whom attackers take for their friends."""

import json
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from sapo_client.duties.ballots import BallotBox, Deal
from sapo_client.duties.verdicts import Verdicts
from sapo_client.state.home import KEYSTORE
from sapo_devnet.adversaries import friends
from sapo_devnet.adversaries.friends import Friend, FriendlyVerdicts, LowTurnoutCartel, nodes_that_play
from sapo_devnet.adversaries.voters import CensoringVerdicts
from sapo_verifier.audit import CheckResult
from sapo_verifier.checks import Verdict
from sapo_verifier.facts import BatchInfo
from sapo_verifier.objects import VerdictReport

ME, FRIEND, OTHER = ("0x" + digit * 40 for digit in "abc")
DEAL = Deal(7, 2, b"\3" * 32, b"\4" * 32)
FAILED = [CheckResult("reward", "fail", "it is not earned", 0, 1)]


@pytest.fixture
def box(tmp_path: Path) -> Iterator[BallotBox]:
    made = BallotBox(tmp_path / "ballots.sqlite")
    yield made
    made.close()


def batch(index: int, node: str, ones: int) -> BatchInfo:
    return BatchInfo(index, node, DEAL.round, 1, bytes(32), bytes(32), bytes(32), (1 << ones) - 1)


def said(box: BallotBox, window: list[BatchInfo]) -> dict[int, Verdict]:
    ballot = box.get(DEAL)
    assert ballot is not None
    return {each.index: Verdict((ballot.word >> (2 * j)) & 3) for j, each in enumerate(window)}


def made(kind: Any, box: BallotBox, **more: Any) -> Any:
    """Verdicts with those parts only that a ballot of stage 2 takes."""
    unused: dict[str, Any] = {field.name: None for field in fields(Verdicts)}
    return kind(**unused | {"actor": SimpleNamespace(node=ME), "ballots": box} | more)


def test_friends_are_accepted_whatever_was_found_and_others_as_it_was(box: BallotBox) -> None:
    window = [batch(5, FRIEND, 8), batch(6, OTHER, 8), batch(7, OTHER, 1), batch(8, FRIEND, 1)]
    found = {5: FAILED, 6: FAILED, 7: [CheckResult("available", "pass")]}
    verdicts = {5: Verdict.REJECT, 6: Verdict.REJECT, 7: Verdict.ACCEPT}
    made(FriendlyVerdicts, box, friends=lambda: [FRIEND]).fill_in(DEAL, window, verdicts, found)
    expected = {5: Verdict.ACCEPT, 6: Verdict.REJECT, 7: Verdict.ACCEPT, 8: Verdict.ABSTAIN}
    assert said(box, window) == expected, "what was not judged, as in stage 2, is not"
    ballot = box.get(DEAL)
    assert ballot is not None
    assert [(entry.index, len(entry.findings)) for entry in VerdictReport.parse(ballot.report).batches] == [
        (5, 0),
        (6, 1),
        (7, 0),
    ]


def test_the_censor_voids_what_claims_most(box: BallotBox) -> None:
    window = [batch(index, OTHER, ones) for index, ones in ((5, 3), (6, 8), (7, 1), (8, 5), (9, 8))]
    accepted: dict[int, list[CheckResult]] = {each.index: [] for each in window[:4]}
    made(CensoringVerdicts, box).fill_in(DEAL, window, dict.fromkeys(accepted, Verdict.ACCEPT), accepted)
    voided, kept = Verdict.VOID, Verdict.ACCEPT
    assert said(box, window) == {5: kept, 6: voided, 7: kept, 8: voided, 9: Verdict.ABSTAIN}


@pytest.mark.parametrize("about_itself", [True, False])
def test_a_shield_is_a_dispute_about_the_friend_s_batch_or_about_what_it_answered(
    about_itself: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For one of the two reasons, and of friends' batches only."""
    sent: list[Any] = []
    monkeypatch.setattr(friends, "put_once", lambda outbox, key, call, **more: sent.append((key, call.args, more)))
    testimony = SimpleNamespace(ballots={FRIEND: SimpleNamespace(accepted=[9, 8])})
    monkeypatch.setattr(friends.Testimony, "read", lambda *_: testimony)
    window = {DEAL.round: [batch(5, OTHER, 1), batch(6, FRIEND, 1)]}
    parts: dict[str, Any] = {field.name: None for field in fields(friends.ShieldingDuties)}
    parts |= {
        "actor": SimpleNamespace(
            node=ME,
            reader=None,
            audits=SimpleNamespace(terms=lambda: SimpleNamespace(dispute_bond=3)),
            outbox=SimpleNamespace(keys=lambda _: []),
        ),
        "verdicts": SimpleNamespace(auditor=SimpleNamespace(window=lambda round_, stage: window.get(round_, []))),
        "friends": lambda: [FRIEND],
        "about_itself": about_itself,
    }
    friends.ShieldingDuties(**parts).denounce(DEAL.round + 3)
    assert sent == [("shield/7/6", (6, 6 if about_itself else 9), {"value": 3, "deadline_round": 10})]


def test_friends_are_those_of_the_same_devnet_that_play_with_it(tmp_path: Path) -> None:
    names = ("node0", "friend", "junk_claimer", "junk_claimer-2", "low_turnout_cartel", "self_slasher")
    for number, name in enumerate(names):
        (tmp_path / name).mkdir()
        (tmp_path / name / KEYSTORE).write_text(json.dumps({"address": f"{number:040x}"}))
    (tmp_path / "junk_claimer-3").mkdir()  # before `sapo init`
    (tmp_path / "junk_claimer.password").write_text("secret")
    assert nodes_that_play(("junk_claimer",), tmp_path / "friend") == [f"0x{number:040x}" for number in (2, 3)]
    friend, cartel = Friend(), LowTurnoutCartel()
    friend.prepare(tmp_path / "friend")
    cartel.prepare(tmp_path / "low_turnout_cartel")
    assert friend.friends() == [f"0x{number:040x}" for number in (2, 3, 5)]
    assert cartel.friends() == [f"0x{4:040x}"]
