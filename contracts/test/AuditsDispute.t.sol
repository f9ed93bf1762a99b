// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {IAudits} from "../src/interfaces/IAudits.sol";
import {IDisputes} from "../src/interfaces/IDisputes.sol";
import {IRounds} from "../src/interfaces/IRounds.sol";
import {AuditsTest} from "./AuditsTest.sol";

/// @dev Who can dispute what, and what a dispute does to a batch.
contract AuditsDisputeTest is AuditsTest {
    uint256 private index;

    /// @dev Stage 1 accepted the first three batches, and no other one.
    function setUp() public override {
        super.setUp();
        produce(R, 3);
        voteAlike(R, 1, 12, list(A, A, A));
        index = indexOf(0, R);
        enter(R + 3);
    }

    // ---- the batch itself

    function test_dispute_sendsAnAcceptedBatchToStage2() public {
        totalsAre(R, 3 + 4 + 5, 33);
        vm.expectEmit(address(disputes));
        emit IDisputes.BatchDisputed(index, R, stranger, index, DISPUTE_BOND);
        dispute(index, index);
        is_(index, IAudits.State.Disputed);
        yes(audits.outcomeOf(index).inStage2);
        _isOpen(index, index);
        eq(address(disputes).balance, DISPUTE_BOND);
        eq(address(audits).balance, 0);
        totalsAre(R, 3 + 4 + 5, 22);
        is_(index + 1, IAudits.State.Standing);
    }

    function testFuzz_dispute_worksInOneRoundOnly(uint256 late) public {
        late = 2 + late % 7;
        enter(R + late);
        for (uint256 about = index; about <= index + 1; ++about) {
            if (late != 3) {
                expectRevert(abi.encodeWithSelector(IAudits.NotInThisRound.selector, R + 3, R + late));
            }
            dispute(index, about);
        }
    }

    function test_dispute_revertsForAnotherValue() public {
        for (uint256 i = 0; i < 2; ++i) {
            uint256 value = DISPUTE_BOND + 1 - 2 * i;
            expectRevert(abi.encodeWithSelector(IDisputes.WrongDisputeBond.selector, value, DISPUTE_BOND));
            vm.prank(stranger);
            disputes.dispute{value: value}(index, index);
        }
    }

    function test_dispute_revertsTheSecondTime() public {
        for (uint256 about = index; about <= index + 1; ++about) {
            dispute(index, about);
            cannotDispute(
                abi.encodeWithSelector(IDisputes.AlreadyDisputed.selector, index, about, stranger),
                index,
                about
            );
        }
    }

    function test_dispute_revertsForABatchThatIsInStage2ByItself() public {
        cannotDispute(
            abi.encodeWithSelector(IDisputes.NotDisputable.selector, index + 3), index + 3, index + 3
        );
    }

    function test_dispute_revertsWhenThereIsNoSuchBatch() public {
        cannotDispute(abi.encodeWithSelector(IRounds.NoSuchBatch.selector, 12, 12), 12, 12);
        cannotDispute(abi.encodeWithSelector(IDisputes.NothingAnswered.selector, index, 12), index, 12);
    }

    function test_dispute_revertsForAClosedBatch() public {
        vm.prank(address(disputes));
        audits.slash(actors[0], payable(stranger), 0);
        for (uint256 about = index; about <= index + 1; ++about) {
            cannotDispute(abi.encodeWithSelector(IDisputes.NotDisputable.selector, index), index, about);
        }
    }

    // ---- what its node answered about another batch

    /// @dev A friend who disputes first, for whatever reason, keeps nobody else away.
    function test_dispute_ofAFriendDoesNotShield() public {
        vm.deal(actors[11], 10 ether);
        vm.prank(actors[11]);
        disputes.dispute{value: DISPUTE_BOND}(index, index);
        dispute(index, index + 1);
        dispute(index, index + 2);
        for (uint256 about = index; about <= index + 2; ++about) {
            (address disputer, bool isOpen) = disputes.disputeOf(index, about);
            eq(disputer, about == index ? actors[11] : stranger);
            yes(isOpen);
        }
        eq(address(disputes).balance, 3 * DISPUTE_BOND);
    }

    /// @dev Nor does one about answers keep the batch itself from being disputed, or what is in stage 2 by itself.
    function test_dispute_aboutAnswersLeavesTheOthersOpen() public {
        dispute(index, index + 1);
        dispute(index, index);
        dispute(index + 3, index + 1);
        is_(index + 3, IAudits.State.Disputed);
    }

    function test_dispute_aboutAnswersSendsAStandingBatchToStage2AndLeavesItAccepted() public {
        dispute(index, index + 1);
        is_(index, IAudits.State.Disputed);
        yes(audits.outcomeOf(index).inStage2);
        is_(index + 1, IAudits.State.Standing);
        // Its accepts of stage 1 are not of its last stage any more.
        totalsAre(R, 3 + 4 + 5, 22);
        enter(R + 6);
        is_(index, IAudits.State.Accepted);
    }

    /// @dev Whoever said nothing about a batch, rejected it, or found it void, answered nothing.
    function test_dispute_aboutAnswersNeedsAnAcceptOfStage1() public {
        uint256 round = R + 20;
        produce(round, 3);
        uint256[][] memory table = new uint256[][](12);
        for (uint256 i = 0; i < 12; ++i) {
            table[i] = all(A);
        }
        (table[0][1], table[0][2], table[0][3]) = (O, X, V);
        table[1] = new uint256[](0);
        vote(round, 1, table);
        enter(round + 3);
        uint256 first = indexOf(0, round);
        for (uint256 i = 1; i < 4; ++i) {
            cannotDispute(
                abi.encodeWithSelector(IDisputes.NothingAnswered.selector, first, first + i), first, first + i
            );
        }
        // Actor 1 revealed nothing.
        cannotDispute(
            abi.encodeWithSelector(IDisputes.NothingAnswered.selector, first + 1, first), first + 1, first
        );
        dispute(first, first + 4);
    }

    function test_dispute_aboutAnswersNeedsABatchOfTheSameRound() public {
        uint256 round = R + 20;
        produce(round, 3);
        voteAlike(round, 1, 12, all(A));
        enter(round + 3);
        uint256 first = indexOf(0, round);
        uint256[3] memory elsewhere = [index + 1, first + 12, type(uint256).max];
        for (uint256 i = 0; i < 3; ++i) {
            cannotDispute(
                abi.encodeWithSelector(IDisputes.NothingAnswered.selector, first, elsewhere[i]),
                first,
                elsewhere[i]
            );
        }
    }

    function _isOpen(uint256 which, uint256 about) private view {
        (address disputer, bool isOpen) = disputes.disputeOf(which, about);
        eq(disputer, stranger);
        yes(isOpen);
    }
}

/// @dev Four of eleven batches are dealt in stage 1.
contract AuditsNarrowDisputeTest is AuditsTest {
    function defaults() internal pure override returns (IRounds.Parameters memory p) {
        p = super.defaults();
        p.draws = 4;
    }

    /// @dev What was not in its window of stage 1 its node said nothing about.
    function test_dispute_aboutAnswersNeedsABatchOfTheWindow() public {
        produce(R, 3);
        voteAlike(R, 1, 12, all(A));
        enter(R + 3);
        uint256 first = indexOf(0, R);
        IRounds.Window memory window = rounds.windowOf(actors[0], R, 1);
        uint256 taken = 0;
        for (uint256 about = first + 1; about < first + 12; ++about) {
            (bool success,) =
                address(disputes).call{value: DISPUTE_BOND}(abi.encodeCall(IDisputes.dispute, (first, about)));
            uint256 steps = (about - first + 12 - window.start) % 12;
            uint256 own = (12 - window.start) % 12;
            uint256 place = steps > own ? steps - 1 : steps;
            vm.assertTrue(success == (place < 4));
            if (success) ++taken;
        }
        eq(taken, 4);
    }
}
