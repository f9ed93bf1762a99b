"""The salt of a stage-1 commitment is the seed that the own policy of the round vouches for: on a real chain."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from eth_hash.auto import keccak

from sapo_client.batches.seeds import Seeds
from sapo_devnet.testkit.anvil import anvil
from sapo_devnet.testkit.networks import Network, deploy_on
from sapo_verifier.chain.audits import BallotState
from sapo_verifier.chain.contracts import Call
from sapo_verifier.cid import block_digest
from sapo_verifier.objects import PolicyManifest
from voters import Voter, play_round, register, send, submit

R = 2
VOTERS = (1, 2, 3)
NEW_KEY, LOST = 2, 3  # whose policy another key made, and whose manifest is gone


@pytest.fixture
def voters(tmp_path: Path) -> Iterator[tuple[Network, dict[int, Voter]]]:
    """Each with a policy and a batch in R."""
    with anvil() as chain:
        network = deploy_on(chain)
        register(network, VOTERS)
        made = {account: Voter(network, account, tmp_path, Seeds) for account in VOTERS}
        network.mine_to_round(R - 1)
        calls = []
        for account, voter in made.items():
            key = chain.account(9 if account == NEW_KEY else account)
            audit = Seeds.of(key, voter.node, voter.reader, voter.seeds.store).audit(R)
            manifest = PolicyManifest(audit=audit, base="pocket", kind="base", size=0, blocks=[]).encode()
            if account != LOST:
                voter.store.blocks[block_digest(manifest)] = manifest
            calls.append((account, Call("rounds", "commitPolicy", (voter.node, R, block_digest(manifest), 2)), 0))
        send(network, calls)
        submit(network, dict.fromkeys(VOTERS, 1), R)
        yield network, made
        for voter in made.values():
            voter.close()
        network.close()


def test_who_holds_the_seed_salts_with_it_and_who_does_not_keeps_out(voters: tuple[Network, dict[int, Voter]]) -> None:
    network, made = voters
    play_round(network, made.values(), R + 1)
    play_round(network, made.values(), R + 2)
    mine = made[1]
    assert mine.audits.verdicts_of(mine.node, R, 1)[0] is BallotState.REVEALED
    revealed = mine.outbox.call_of(f"reveal/{R}/1")
    policy, ballot = mine.reader.policy_of(mine.node, R), mine.ballot(R, 1)
    assert revealed is not None
    assert policy is not None
    assert ballot is not None
    assert ballot.salt in revealed.args
    assert keccak(ballot.salt) == PolicyManifest.parse(mine.store.blocks[policy.digest]).audit
    for account, words in ((NEW_KEY, "made with another operator key"), (LOST, "is not in its IPFS daemon any more")):
        voter = made[account]
        assert voter.audits.verdicts_of(voter.node, R, 1)[0] is BallotState.NONE
        assert voter.pool.looked == [], "nothing is recomputed for verdicts that are not given"
        assert any(f"no verdicts on round {R} in stage 1: " in said and words in said for said in voter.said)


def test_it_is_the_same_after_a_crash_that_lost_the_ballots(voters: tuple[Network, dict[int, Voter]]) -> None:
    network, made = voters
    network.mine_to_round(R + 1)
    network.chain.mine()
    send(network, [(0, Call("rounds", "poke"), 0)])
    first = made[1].fill_in(R)
    made[1].close()
    (made[1].folder / "ballots.sqlite").unlink()
    made[1].open()
    assert made[1].ballot(R, 1) is None
    assert made[1].fill_in(R) == first


def test_the_salt_of_stage_2_is_another(voters: tuple[Network, dict[int, Voter]]) -> None:
    network, made = voters
    for round_ in (R + 1, R + 2, R + 3, R + 4):
        play_round(network, made.values(), round_)
    one, two = made[1].ballot(R, 1), made[1].ballot(R, 2)
    assert one is not None
    assert two is not None, "no batch has enough accepts of stage 1 here, so all are in stage 2"
    assert one.salt == made[1].seeds.seed(R) != two.salt
