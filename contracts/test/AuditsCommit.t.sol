// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {IAudits} from "../src/interfaces/IAudits.sol";
import {IBeacon} from "../src/interfaces/IBeacon.sol";
import {INodes} from "../src/interfaces/INodes.sol";
import {IRounds} from "../src/interfaces/IRounds.sol";
import {AuditsTest} from "./AuditsTest.sol";

contract AuditsCommitTest is AuditsTest {
    bytes32 private constant HASH = keccak256("hash");

    function setUp() public override {
        super.setUp();
        produce(R, 3);
        enter(R + 1);
    }

    // ---- what works

    function test_commitVerdicts_isStoredAndShown() public {
        (bytes32 dealer, bytes32 acc) = (rounds.poke(), rounds.roundAt(R).acc);
        vm.expectEmit(address(audits));
        emit IAudits.VerdictsCommitted(actors[5], R, 1, HASH);
        vm.prank(actors[5]);
        audits.commitVerdicts(actors[5], R, 1, dealer, acc, HASH);
        IAudits.Verdicts memory verdicts = audits.verdictsOf(actors[5], R, 1);
        eq(uint256(verdicts.ballot), uint256(IAudits.Ballot.Committed));
        eq(verdicts.hash, HASH);
        eq(verdicts.word, 0);
        eq(uint256(audits.verdictsOf(actors[5], R, 2).ballot), uint256(IAudits.Ballot.None));
        eq(uint256(audits.verdictsOf(actors[4], R, 1).ballot), uint256(IAudits.Ballot.None));
    }

    function test_commitVerdicts_capturesTheBeaconThatDealsTheWindow() public {
        eq(rounds.beacon(R + 1), 0);
        _commit(5, R, 1, HASH);
        yes(rounds.beacon(R + 1) != 0);
        enter(R + 4);
        eq(rounds.beacon(R + 4), 0);
        _commit(6, R, 2, HASH);
        yes(rounds.beacon(R + 4) != 0);
    }

    function test_commitVerdicts_worksForTheOperator() public {
        vm.prank(actors[5]);
        nodes.setOperator(operator);
        _callAs(operator, "", actors[5], R, 1, HASH);
    }

    function test_commitVerdicts_worksForBothStagesInOneRound() public {
        produce(R + 4, 1);
        _commit(5, R, 2, HASH);
        enter(R + 5);
        _commit(6, R + 4, 1, HASH);
        _refused(abi.encodeWithSelector(IAudits.NotInThisRound.selector, R + 4, R + 5), 6, R, 2);
    }

    // ---- another history of the chain

    function test_commitVerdicts_revertsForAnotherBeacon() public {
        bytes32 acc = rounds.roundAt(R).acc;
        bytes32[3] memory wrong = [bytes32(0), rounds.beacon(R), keccak256("another history")];
        bytes32 right = rounds.poke();
        for (uint256 i = 0; i < 3; ++i) {
            expectRevert(abi.encodeWithSelector(IRounds.WrongBeacon.selector, R + 1, wrong[i], right));
            vm.prank(actors[5]);
            audits.commitVerdicts(actors[5], R, 1, wrong[i], acc, HASH);
        }
        no(rounds.isPromised(actors[5], R, 1));
    }

    function test_commitVerdicts_ofStage2NamesTheBeaconThatDealsIt() public {
        bytes32 early = rounds.poke();
        enter(R + 4);
        bytes32 right = rounds.poke();
        bytes32 acc = rounds.roundAt(R).acc;
        expectRevert(abi.encodeWithSelector(IRounds.WrongBeacon.selector, R + 4, early, right));
        vm.prank(actors[5]);
        audits.commitVerdicts(actors[5], R, 2, early, acc, HASH);
    }

    function test_commitVerdicts_revertsForAnotherAcc() public {
        bytes32 right = rounds.roundAt(R).acc;
        bytes32[2] memory wrong = [bytes32(0), keccak256("another history")];
        bytes32 dealer = rounds.poke();
        for (uint256 i = 0; i < 2; ++i) {
            expectRevert(abi.encodeWithSelector(IRounds.WrongAcc.selector, R, wrong[i], right));
            vm.prank(actors[5]);
            audits.commitVerdicts(actors[5], R, 1, dealer, wrong[i], HASH);
        }
    }

    /// @dev Made for one history, mined in another with the same entropy and other batches: the voter owes nothing.
    function test_commitVerdicts_ofABatchThatAReorganizationChangedIsNeitherTakenNorFined() public {
        produce(R + 19, 3);
        uint256 snapshot = vm.snapshotState();
        produce(R + 20, 3);
        enter(R + 21);
        (bytes32 dealer, bytes32 acc) = (rounds.poke(), rounds.roundAt(R + 20).acc);
        vm.revertToState(snapshot);
        produce(R + 20, 4);
        enter(R + 21);
        eq(rounds.poke(), dealer);
        vm.expectPartialRevert(IRounds.WrongAcc.selector);
        vm.prank(actors[5]);
        audits.commitVerdicts(actors[5], R + 20, 1, dealer, acc, HASH);
        enter(R + 23);
        owesNothing(5, R + 20, NO_BATCH);
        yes(audits.settled(actors[5]));
    }

    // ---- what does not

    /// @dev What voters promise is kept in `Rounds`, which takes it from `Audits` alone.
    function testFuzz_promises_areTakenFromAuditsOnly(address caller) public {
        vm.assume(caller != address(audits));
        bytes32 dealer = rounds.poke();
        bytes32 acc = rounds.roundAt(R).acc;
        bytes memory refused = abi.encodeWithSelector(INodes.NotAudits.selector, caller);
        expectRevert(refused);
        vm.prank(caller);
        rounds.promiseVerdicts(actors[5], R, 1, dealer, acc);
        _commit(5, R, 1, HASH);
        expectRevert(refused);
        vm.prank(caller);
        rounds.redeemVerdicts(actors[5], R, 1);
        enter(R + 3);
        expectRevert(refused);
        vm.prank(caller);
        rounds.settlePromises(actors[5], R);
        yes(rounds.isPromised(actors[5], R, 1));
        no(rounds.isSettled(actors[5]));
    }

    function test_commitVerdicts_revertsWhenCommittedAlready() public {
        _commit(5, R, 1, HASH);
        _refused(abi.encodeWithSelector(IAudits.VerdictsAlreadyCommitted.selector, actors[5], R, 1), 5, R, 1);
    }

    function test_commitVerdicts_revertsForAnotherStage() public {
        for (uint8 stage = 0; stage <= 3; stage += 3) {
            _callAs(
                actors[5],
                abi.encodeWithSelector(IRounds.NoSuchStage.selector, stage),
                actors[5],
                R,
                stage,
                HASH
            );
            expectRevert(abi.encodeWithSelector(IRounds.NoSuchStage.selector, stage));
            audits.verdictsOf(actors[5], R, stage);
            expectRevert(abi.encodeWithSelector(IRounds.NoSuchStage.selector, stage));
            audits.ballotOf(actors[5], R, stage);
        }
    }

    function testFuzz_commitVerdicts_worksInOneRoundOnly(uint256 late) public {
        late = late % 9;
        enter(R + late);
        for (uint8 stage = 1; stage <= 2; ++stage) {
            uint256 due = stage == 1 ? R + 1 : R + 4;
            if (R + late == due) {
                _commit(5, R, stage, HASH);
            } else {
                _refused(abi.encodeWithSelector(IAudits.NotInThisRound.selector, due, R + late), 5, R, stage);
            }
        }
    }

    function test_commitVerdicts_revertsForARoundBeyondAllNumbers() public {
        expectRevert(abi.encodeWithSelector(IAudits.NotInThisRound.selector, type(uint256).max, R + 1));
        vm.prank(actors[5]);
        audits.commitVerdicts(actors[5], type(uint256).max, 1, 0, 0, HASH);
    }

    function test_commitVerdicts_revertsForAStranger() public {
        bytes memory refusal =
            abi.encodeWithSelector(IRounds.NotOwnerOrOperator.selector, actors[5], stranger);
        _callAs(stranger, refusal, actors[5], R, 1, HASH);
    }

    function test_commitVerdicts_revertsWhenNotRegistered() public {
        bytes memory refusal = abi.encodeWithSelector(IRounds.NodeNotActive.selector, stranger);
        _callAs(stranger, refusal, stranger, R, 1, HASH);
    }

    function test_commitVerdicts_revertsWhenExiting() public {
        vm.prank(actors[5]);
        nodes.requestExit();
        _refused(abi.encodeWithSelector(IRounds.NodeNotActive.selector, actors[5]), 5, R, 1);
    }

    function test_commitVerdicts_revertsWhenTheBondIsNotFull() public {
        enter(R);
        commit(actors[5], R + 1, 1);
        enter(R + 1);
        rounds.poke();
        enter(R + 4);
        settle(5, R + 1, NO_BATCH);
        _refused(abi.encodeWithSelector(IRounds.NodeNotActive.selector, actors[5]), 5, R, 2);
        nodes.topUp{value: MISSED_BATCH}(actors[5]);
        _commit(5, R, 2, HASH);
    }

    /// @dev However long it is registered, and bonded: who votes has something to lose in this very round.
    function test_commitVerdicts_revertsForANodeWithoutABatchInTheRound() public {
        vm.roll(firstOf(R - 5));
        register(alice);
        for (uint8 stage = 1; stage <= 2; ++stage) {
            enter(stage == 1 ? R + 1 : R + 4);
            bytes memory refusal = abi.encodeWithSelector(IRounds.NoBatchOfOwn.selector, alice, R);
            _callAs(alice, refusal, alice, R, stage, HASH);
        }
        yes(audits.settled(alice));
    }

    /// @dev A policy is no batch.
    function test_commitVerdicts_revertsForANodeThatMissedItsBatch() public {
        enter(R + 19);
        commit(actors[0], R + 20, 1);
        commit(actors[5], R + 20, 1);
        enter(R + 20);
        submit(actors[0], R + 20, 1);
        enter(R + 21);
        _refused(abi.encodeWithSelector(IRounds.NoBatchOfOwn.selector, actors[5], R + 20), 5, R + 20, 1);
    }

    function test_commitVerdicts_revertsForTheZeroHash() public {
        bytes memory refusal = abi.encodeWithSelector(IAudits.ZeroCommitment.selector, actors[5], R, 1);
        _callAs(actors[5], refusal, actors[5], R, 1, 0);
    }

    function test_commitVerdicts_revertsInTheFirstBlockWhenNobodyKnowsTheBeacon() public {
        bytes32 acc = rounds.roundAt(R).acc;
        vm.roll(firstOf(R + 1));
        expectRevert(abi.encodeWithSelector(IBeacon.TooEarly.selector, R + 1, firstOf(R + 1)));
        vm.prank(actors[5]);
        audits.commitVerdicts(actors[5], R, 1, bytes32(0), acc, HASH);
    }

    function test_commitVerdicts_revertsWhenTheRoundHasNoBatches() public {
        enter(R);
        _refused(abi.encodeWithSelector(IRounds.NoBatchOfOwn.selector, actors[5], R - 1), 5, R - 1, 1);
    }

    function test_commitVerdicts_revertsWhenTheOnlyBatchIsTheVotersOwn() public {
        enter(R + 19);
        commit(actors[0], R + 20, 1);
        enter(R + 20);
        submit(actors[0], R + 20, 1);
        enter(R + 21);
        _refused(abi.encodeWithSelector(IAudits.EmptyWindow.selector, actors[0], R + 20, 1), 0, R + 20, 1);
    }

    function test_commitVerdicts_revertsInStage2WhenNothingIsDisputed() public {
        voteAlike(R, 1, 12, all(A));
        enter(R + 4);
        _refused(abi.encodeWithSelector(IAudits.EmptyWindow.selector, actors[5], R, 2), 5, R, 2);
    }

    function test_commitVerdicts_ofStage2NeedsADisputedBatchOfAnother() public {
        uint256[][] memory table = new uint256[][](12);
        for (uint256 i = 0; i < 12; ++i) {
            table[i] = all(A);
        }
        table[1][0] = X;
        vote(R, 1, table);
        enter(R + 4);
        _refused(abi.encodeWithSelector(IAudits.EmptyWindow.selector, actors[0], R, 2), 0, R, 2);
        _commit(1, R, 2, HASH);
    }

    function test_commitVerdicts_revertsWhileARevealIsOverdue() public {
        _commit(5, R, 1, HASH);
        produce(R + 3, 1);
        enter(R + 4);
        _refused(abi.encodeWithSelector(IRounds.NodeNotSettled.selector, actors[5]), 5, R + 3, 1);
    }

    // ---- doing it

    function _commit(uint256 i, uint256 round, uint8 stage, bytes32 hash) private {
        _callAs(actors[i], "", actors[i], round, stage, hash);
    }

    function _refused(bytes memory refusal, uint256 i, uint256 round, uint8 stage) private {
        _callAs(actors[i], refusal, actors[i], round, stage, HASH);
    }

    /// @dev With the right beacon and running hash; the call itself captures the beacon.
    function _callAs(
        address caller,
        bytes memory refusal,
        address voter,
        uint256 round,
        uint8 stage,
        bytes32 hash
    ) private {
        uint256 snapshot = vm.snapshotState();
        bytes32 dealer = rounds.poke();
        bytes32 acc = rounds.roundAt(round).acc;
        vm.revertToState(snapshot);
        if (refusal.length != 0) expectRevert(refusal);
        vm.prank(caller);
        audits.commitVerdicts(voter, round, stage, dealer, acc, hash);
    }
}
