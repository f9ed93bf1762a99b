// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {IAudits} from "../src/interfaces/IAudits.sol";
import {INodes} from "../src/interfaces/INodes.sol";
import {IRounds} from "../src/interfaces/IRounds.sol";
import {AuditsTest} from "./AuditsTest.sol";

/// @dev Disputes, and stage 2, which they lead to.
contract AuditsDisputeTest is AuditsTest {
    uint256 private index;

    function setUp() public override {
        super.setUp();
        produce(R, 3);
        voteAlike(R, 1, 12, list(A, A, A));
        index = indexOf(0, R);
        enter(R + 3);
    }

    // ---- dispute

    function test_dispute_sendsAnAcceptedBatchToStage2() public {
        totalsAre(R, 3 + 4 + 5, 6);
        vm.expectEmit(address(audits));
        emit IAudits.BatchDisputed(index, R, stranger, DISPUTE_BOND);
        _dispute(index);
        is_(index, IAudits.State.Disputed);
        eq(audits.outcomeOf(index).disputer, stranger);
        eq(address(audits).balance, DISPUTE_BOND);
        totalsAre(R, 4 + 5, 4);
        is_(index + 1, IAudits.State.Standing);
    }

    function testFuzz_dispute_worksInOneRoundOnly(uint256 late) public {
        late = 2 + late % 7;
        enter(R + late);
        if (late != 3) {
            expectRevert(abi.encodeWithSelector(IAudits.NotInThisRound.selector, R + 3, R + late));
        }
        _dispute(index);
    }

    function test_dispute_revertsForAnotherValue() public {
        for (uint256 i = 0; i < 2; ++i) {
            uint256 value = DISPUTE_BOND + 1 - 2 * i;
            expectRevert(abi.encodeWithSelector(IAudits.WrongDisputeBond.selector, value, DISPUTE_BOND));
            vm.prank(stranger);
            audits.dispute{value: value}(index);
        }
    }

    function test_dispute_revertsTheSecondTime() public {
        _dispute(index);
        expectRevert(abi.encodeWithSelector(IAudits.NotDisputable.selector, index, IAudits.State.Disputed));
        _dispute(index);
    }

    function test_dispute_revertsForABatchThatIsDisputedByItself() public {
        uint256 round = R + 20;
        produce(round, 1);
        enter(round + 3);
        uint256 other = indexOf(0, round);
        expectRevert(abi.encodeWithSelector(IAudits.NotDisputable.selector, other, IAudits.State.Disputed));
        _dispute(other);
    }

    function test_dispute_revertsWhenThereIsNoSuchBatch() public {
        expectRevert(abi.encodeWithSelector(IRounds.NoSuchBatch.selector, 3, 3));
        _dispute(3);
    }

    // ---- stage 2

    function test_stage2_decidesByTwoThirdsOfAllRevealed() public {
        _stage2(2, 0, 0, 0, IAudits.State.Accepted);
        _stage2(2, 1, 0, 0, IAudits.State.Accepted);
        _stage2(2, 0, 0, 2, IAudits.State.Void);
        _stage2(1, 0, 0, 0, IAudits.State.Void);
        _stage2(4, 1, 1, 0, IAudits.State.Accepted);
        _stage2(4, 1, 1, 1, IAudits.State.Void);
        _stage2(0, 8, 0, 0, IAudits.State.Rejected);
        _stage2(0, 7, 0, 0, IAudits.State.Void);
        _stage2(3, 8, 0, 0, IAudits.State.Rejected);
        _stage2(0, 0, 8, 0, IAudits.State.Void);
        _stage2(0, 0, 0, 0, IAudits.State.Void);
    }

    function test_stage2_rejectsNeedTwoThirdsToo() public {
        _stage2(0, 8, 1, 2, IAudits.State.Rejected);
        _stage2(2, 8, 1, 0, IAudits.State.Rejected);
    }

    function test_stage2_revertsForAVerdictAboutAnUndisputedBatch() public {
        _dispute(index);
        enter(R + 4);
        commitAs(5, R, 2, list(A, A, O));
        enter(R + 5);
        uint256 word = wordOf(actors[5], R, 2, list(A, A, O));
        expectRevert(abi.encodeWithSelector(IAudits.NotInStage2.selector, index + 1, A));
        revealWord(actors[5], R, 2, word);
    }

    function test_stage2_leavesUndisputedBatchesAlone() public {
        _dispute(index);
        voteAlikeAboutTheFirst(R, 12, X);
        eq(audits.outcomeOf(index).stage2.revealed, 11);
        eq(audits.outcomeOf(index + 1).stage2.revealed, 0);
        enter(R + 6);
        is_(index, IAudits.State.Rejected);
        is_(index + 1, IAudits.State.Accepted);
        // Two batches' accepts by two owners each, and the two owners' rejects of the third.
        totalsAre(R, 4 + 5, 6);
    }

    function test_stage2_paysItsOwnVerdictsOnly() public {
        _dispute(index);
        totalsAre(R, 4 + 5, 4);
        voteAlikeAboutTheFirst(R, 2, A);
        totalsAre(R, 4 + 5, 4);
        uint256 later = R + 20;
        produce(later, 3);
        voteAlike(later, 1, 12, list(A, A, A));
        enter(later + 3);
        _dispute(indexOf(0, later));
        voteAlikeAboutTheFirst(later, 4, A);
        totalsAre(later, 3 + 4 + 5, 6);
    }

    // ---- the bond of a dispute

    function test_closeDispute_paysBackWhenRejected() public {
        _dispute(index);
        voteAlikeAboutTheFirst(R, 12, X);
        _closes(true);
    }

    function test_closeDispute_paysBackWhenVoidByTwoVotes() public {
        _dispute(index);
        uint256[][] memory table = new uint256[][](6);
        (table[1], table[2], table[3]) = (list(X, O, O), list(V, O, O), list(A, O, O));
        vote(R, 2, table);
        _closes(true);
    }

    function test_closeDispute_burnsWhenVoidByOneVote() public {
        _dispute(index);
        uint256[][] memory table = new uint256[][](6);
        (table[1], table[2], table[3]) = (list(V, O, O), list(O, O, O), list(A, O, O));
        vote(R, 2, table);
        _closes(false);
    }

    function test_closeDispute_burnsWhenAccepted() public {
        _dispute(index);
        uint256[][] memory table = new uint256[][](7);
        for (uint256 i = 1; i < 5; ++i) {
            table[i] = list(A, O, O);
        }
        (table[5], table[6]) = (list(X, O, O), list(V, O, O));
        vote(R, 2, table);
        _closes(false);
    }

    function test_closeDispute_revertsBeforeFinal() public {
        _dispute(index);
        vm.roll(firstOf(R + 6) - 1);
        expectRevert(abi.encodeWithSelector(IAudits.NotFinal.selector, R + 6, R + 5));
        audits.closeDispute(index);
    }

    function test_closeDispute_revertsWithoutADisputeAndTheSecondTime() public {
        _dispute(index);
        enter(R + 6);
        audits.closeDispute(index);
        for (uint256 i = 0; i < 2; ++i) {
            expectRevert(abi.encodeWithSelector(IAudits.NoDispute.selector, index + i));
            audits.closeDispute(index + i);
        }
    }

    /// @dev Whoever cannot receive keeps nobody else from anything.
    function test_closeDispute_revertsWhenTheDisputerTakesNothing() public {
        vm.deal(address(this), DISPUTE_BOND);
        audits.dispute{value: DISPUTE_BOND}(index);
        voteAlikeAboutTheFirst(R, 12, X);
        enter(R + 6);
        expectRevert(abi.encodeWithSelector(INodes.PaymentFailed.selector, address(this), DISPUTE_BOND));
        audits.closeDispute(index);
    }

    function _dispute(uint256 which) private {
        vm.prank(stranger);
        audits.dispute{value: DISPUTE_BOND}(which);
    }

    function _closes(bool paidBack) private {
        enter(R + 6);
        uint256 burned = address(0).balance;
        vm.expectEmit(address(audits));
        emit IAudits.DisputeClosed(index, R, stranger, DISPUTE_BOND, paidBack);
        audits.closeDispute(index);
        eq(stranger.balance, paidBack ? 100 ether : 100 ether - DISPUTE_BOND);
        eq(address(0).balance - burned, paidBack ? 0 : DISPUTE_BOND);
        eq(address(audits).balance, 0);
        eq(audits.outcomeOf(index).disputer, address(0));
    }

    /// @dev In a fresh round, with two batches nobody says anything about in stage 1.
    function _stage2(uint256 accepts, uint256 rejects, uint256 voids, uint256 abstains, IAudits.State state)
        private
    {
        uint256 round = rounds.currentRound() + 20;
        produce(round, 2);
        uint256[][] memory table = new uint256[][](1 + accepts + rejects + voids + abstains);
        uint256 i = 1;
        for (uint256 j = 0; j < accepts; ++j) {
            table[i++] = list(A, O);
        }
        for (uint256 j = 0; j < rejects; ++j) {
            table[i++] = list(X, O);
        }
        for (uint256 j = 0; j < voids; ++j) {
            table[i++] = list(V, O);
        }
        for (uint256 j = 0; j < abstains; ++j) {
            table[i++] = list(O, O);
        }
        vote(round, 2, table);
        is_(indexOf(0, round), IAudits.State.Disputed);
        enter(round + 6);
        is_(indexOf(0, round), state);
        eq(audits.roundTotals(round).scoreTotal, state == IAudits.State.Accepted ? 3 : 0);
        yes(audits.roundTotals(round).isFinal);
    }
}
