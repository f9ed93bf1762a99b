"""The devnet with attackers, as a person runs it: cheating does not pay, honest work does, and the sums add up."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from devnet_run import start_devnet
from sapo_devnet.testkit.alive import users_of
from sapo_verifier.networks import ETHER

HONEST, ROUNDS = 4, 2
ATTACKS = ("withholds_after_reject", "self_slasher", "serves_then_withholds", "lazy")
KILLED, KILL_ROUND = 1, 4  # while others look whether the first batches are still served
SECONDS = 280.0
PENALTY = ETHER // 20  # of a wrong verdict, in the pocket spec
BOUNTY = ETHER // 10  # of a bond that is slashed


@dataclass
class Played:
    status: int
    output: str
    summary: dict[str, Any]

    def of(self, name: str) -> dict[str, Any]:
        return dict(self.summary["accounts"][name])

    def honest(self) -> list[dict[str, Any]]:
        return [self.of(f"node{i}") for i in range(HONEST)]


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory, pocket: Path) -> Played:
    folder = tmp_path_factory.mktemp("attacks")
    options = ["--nodes", str(HONEST), "--rounds", str(ROUNDS), "--i", "1", "--j", "2", "--policy", str(pocket)]
    options += ["--kill", f"{KILLED}:{KILL_ROUND}", "--with-daemon"]
    process = start_devnet(folder, *options, "--attack", ",".join(ATTACKS))
    try:
        status = process.wait(timeout=SECONDS)
    finally:
        process.kill()
        process.wait()
    output = (folder / "out.log").read_text()
    assert not users_of(folder), "processes were left behind"
    assert (folder / "data" / "summary.json").exists(), output
    return Played(status, output, json.loads((folder / "data" / "summary.json").read_text()))


def test_the_run_finds_nothing_wrong_and_no_sum_is_off(played: Played) -> None:
    assert played.summary["failures"] == []
    assert played.status == 0, played.output
    assert "sums that are off: 0" in played.output


def test_every_honest_node_has_its_bond_its_batches_and_tokens(played: Played) -> None:
    for account in played.honest():
        assert account["batches"] == {"accepted": ROUNDS}, account
        assert int(account["bond"]) == int(account["bonded"]) == ETHER
        assert (int(account["fined"]), int(account["slashed"]), account["debts"]) == (0, 0, {})
        assert int(account["tokens"]) == int(account["producer"]) + int(account["auditor"]) > 0
        assert int(account["coins"]) >= 0


def test_who_withholds_a_false_batch_after_stage_1_has_seen_it_is_slashed(played: Played) -> None:
    """Only the model sees that it is false, and those who looked in stage 1 remember it."""
    withholder = played.of("withholds_after_reject")
    assert "policy" in withholder["checks"]
    assert withholder["debts"]["rejected batch"] == 1
    assert_lost_everything(withholder)
    rejecters = HONEST + len(ATTACKS) - 2  # all but itself and the lazy one, at most
    assert all(int(account["received"]) >= BOUNTY // rejecters for account in played.honest()), "each its part"


def test_who_slashes_itself_is_proven_false_with_the_other_batch_too(played: Played) -> None:
    slasher = played.of("self_slasher")
    assert slasher["batches"] == {"proven false": ROUNDS}
    assert slasher["debts"]["proven false"] == ROUNDS
    assert (int(slasher["slashed"]), int(slasher["bond"]), int(slasher["tokens"])) == (ETHER, 0, 0)
    assert int(slasher["coins"]) in (-ETHER, -ETHER + BOUNTY), "a tenth is the prover's, whoever that is"


def assert_lost_everything(account: dict[str, Any]) -> None:
    assert int(account["slashed"]) == -int(account["coins"]) == ETHER
    assert (int(account["bond"]), int(account["tokens"])) == (0, 0)
    assert "accepted" not in account["batches"]


def test_who_stops_serving_after_stage_1_hurts_nobody_who_accepted(played: Played) -> None:
    withholder = played.of("serves_then_withholds")
    assert withholder["batches"] == {"accepted": ROUNDS}, "who accepted them serves them"
    assert withholder["disputed"] == 0
    assert int(withholder["bond"]) == ETHER
    disputed = sum(int(account["dispute_bonds"]) for account in played.honest())
    assert disputed == sum(int(account["disputes_returned"]) for account in played.honest()), "each had a reason"


def test_an_honest_node_that_was_killed_with_its_daemon_keeps_its_pay(played: Played) -> None:
    assert f"kill -9 node{KILLED} and its daemon" in played.output
    assert played.summary["starts"][f"node{KILLED}"] == 2
    assert played.of(f"node{KILLED}")["batches"] == {"accepted": ROUNDS}
    assert played.of(f"node{KILLED}")["disputed"] == 0


def test_the_lazy_auditor_pays_for_every_accept_that_somebody_else_could_see_was_wrong(played: Played) -> None:
    lazy = played.of("lazy")
    wrong = lazy["debts"]["wrong verdict"]
    assert wrong >= ROUNDS + 1, "on what was proven false, also after its node was slashed; in stage 2 on the rejected"
    assert int(lazy["coins"]) == -wrong * PENALTY
    assert int(lazy["auditor"]) < min(int(account["auditor"]) for account in played.honest())


def test_what_attackers_lost_is_what_honest_nodes_won_and_what_was_burned(played: Played) -> None:
    accounts = [played.of(name) for name in [*ATTACKS, *(f"node{i}" for i in range(HONEST))]]
    lost, burned = -sum(int(account["coins"]) for account in accounts), int(played.summary["burned"])
    assert burned > ETHER
    assert 0 <= lost - burned < BOUNTY, "attackers do not fetch their parts of a bounty"


def test_every_batch_is_accounted_for(played: Played) -> None:
    ends = played.summary["ends"]
    assert len(ends) == len({end["index"] for end in ends})
    assert {(end["node"], end["round"]) for end in ends} >= {
        (f"node{i}", round_) for i in range(HONEST) for round_ in range(1, ROUNDS + 1)
    }
    assert {end["state"] for end in ends if end["node"].startswith("node")} == {"accepted"}
