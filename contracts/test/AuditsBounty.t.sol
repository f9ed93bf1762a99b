// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {IAudits} from "../src/interfaces/IAudits.sol";
import {IDisputes} from "../src/interfaces/IDisputes.sol";
import {INodes} from "../src/interfaces/INodes.sol";
import {AuditsTest} from "./AuditsTest.sol";

/// @dev To whom a tenth of a bond goes that votes slashed. The first batch is rejected by eight of eleven.
contract AuditsBountyTest is AuditsTest {
    uint256 private constant BOUNTY = BOND / 10;

    uint256 private index;

    function setUp() public override {
        super.setUp();
        produce(R, 3);
        index = indexOf(0, R);
    }

    // ---- those who rejected it in stage 1

    function test_bounty_goesToThoseWhoRejectedInStage1InEqualParts() public {
        vote(R, 1, ballots(4, 3, 1, 0));
        _reject();
        uint256 burned = address(0).balance;
        vm.expectEmit(address(disputes));
        emit IDisputes.BountyOffered(index, R, BOUNTY / 3, 3);
        settle(0, R, index);
        eq(address(0).balance - burned, BOND - BOUNTY);
        eq(address(disputes).balance, BOUNTY);
        for (uint256 i = 0; i < 12; ++i) {
            bool isHeir = i >= 5 && i <= 7;
            eq(disputes.bountyOf(index, actors[i]), isHeir ? BOUNTY / 3 : 0);
            if (isHeir) _fetches(i, BOUNTY / 3);
            _hasNoBounty(actors[i]);
        }
        // What does not divide stays.
        eq(address(disputes).balance, BOUNTY % 3);
    }

    /// @dev Whether they came back in stage 2 or not, and whoever disputed answers: they looked first.
    function test_bounty_goesToOneRejecterBeforeAllDisputers() public {
        uint256[][] memory table = new uint256[][](12);
        for (uint256 i = 0; i < 12; ++i) {
            table[i] = i == 0 ? list(O, A, A) : i == 11 ? list(X, A, A) : list(A, A, A);
        }
        vote(R, 1, table);
        enter(R + 3);
        dispute(index, index + 1);
        _reject();
        settle(0, R, index);
        _fetches(11, BOUNTY);
        _closes(index + 1, DISPUTE_BOND);
        eq(address(disputes).balance, 0);
    }

    function test_bounty_ofAVoterThatTakesNothingKeepsNobodyElseFromTheirs() public {
        vote(R, 1, ballots(0, 2, 0, 0));
        _reject();
        settle(0, R, index);
        vm.etch(actors[1], hex"5f5ffd");
        expectRevert(abi.encodeWithSelector(INodes.PaymentFailed.selector, actors[1], BOUNTY / 2));
        disputes.claimBounty(index, actors[1]);
        _fetches(2, BOUNTY / 2);
        vm.etch(actors[1], "");
        _fetches(1, BOUNTY / 2);
    }

    function test_bounty_isATenthOfWhatIsLeftOfTheBond() public {
        vote(R, 1, ballots(0, 1, 0, 0));
        _reject();
        vm.prank(address(disputes));
        audits.fine(actors[0], BOND / 2, payable(stranger), 0);
        settle(0, R, index);
        _fetches(1, BOUNTY / 2);
    }

    function test_claimBounty_revertsBeforeTheSlashAndForTheWrongOnes() public {
        vote(R, 1, ballots(1, 1, 1, 1));
        _reject();
        _hasNoBounty(actors[2]);
        settle(0, R, index);
        for (uint256 i = 0; i < 12; ++i) {
            if (i != 2) _hasNoBounty(actors[i]);
        }
        _hasNoBounty(stranger);
        // Nor for another batch.
        expectRevert(abi.encodeWithSelector(IDisputes.NoBounty.selector, index + 1, actors[2]));
        disputes.claimBounty(index + 1, actors[2]);
        _fetches(2, BOUNTY);
    }

    // ---- disputers

    function test_bounty_goesToTheDisputerWhereNobodyRejectedInStage1() public {
        _accept();
        dispute(index, index);
        dispute(index, index + 1);
        _reject();
        vm.expectEmit(address(disputes));
        emit IDisputes.BountyOffered(index, R, BOUNTY, 1);
        settle(0, R, index);
        _hasNoBounty(stranger);
        _closes(index + 1, DISPUTE_BOND);
        _closes(index, DISPUTE_BOND + BOUNTY);
        eq(address(disputes).balance, 0);
    }

    function test_bounty_goesToWhoDisputedAnswersInEqualParts() public {
        _accept();
        dispute(index, index + 1);
        dispute(index, index + 2);
        // About another batch's node: no part of it.
        dispute(index + 1, index + 2);
        _reject();
        vm.expectEmit(address(disputes));
        emit IDisputes.BountyOffered(index, R, BOUNTY / 2, 2);
        settle(0, R, index);
        _closes(index + 1, DISPUTE_BOND + BOUNTY / 2);
        _closes(index + 2, DISPUTE_BOND + BOUNTY / 2);
        eq(address(disputes).balance, DISPUTE_BOND);
    }

    /// @dev Else the disputer's part would be lost.
    function test_closeDispute_revertsUntilTheRejectedNodeIsSlashed() public {
        _accept();
        dispute(index, index);
        dispute(index, index + 1);
        _reject();
        for (uint256 about = index; about <= index + 1; ++about) {
            expectRevert(abi.encodeWithSelector(IDisputes.SettleFirst.selector, actors[0], R, index));
            disputes.closeDispute(index, about);
        }
        settle(0, R, index);
        _closes(index, DISPUTE_BOND + BOUNTY);
        _closes(index + 1, DISPUTE_BOND);
    }

    /// @dev Slashed for something else since: there is no bond to share, and nothing to wait for.
    function test_closeDispute_needsNoSlashOfWhoIsSlashedAlready() public {
        _accept();
        dispute(index, index);
        _reject();
        vm.prank(address(disputes));
        audits.slash(actors[0], payable(bob), 0);
        is_(index, IAudits.State.Rejected);
        owesNothing(0, R, index);
        _closes(index, DISPUTE_BOND);
    }

    // ---- nobody

    function test_bounty_isBurnedWhereNobodyLookedBeforeStage2() public {
        _reject();
        uint256 burned = address(0).balance;
        vm.expectEmit(address(nodes));
        emit INodes.NodeSlashed(actors[0], address(disputes), 0, BOND);
        settle(0, R, index);
        eq(address(0).balance - burned, BOND);
        eq(address(disputes).balance, 0);
        for (uint256 i = 0; i < 12; ++i) {
            _hasNoBounty(actors[i]);
        }
    }

    // ---- doing it

    function _accept() private {
        voteAlike(R, 1, 12, list(A, A, A));
        enter(R + 3);
    }

    /// @dev In stage 2. Ends when the round is final.
    function _reject() private {
        vote(R, 2, ballots(3, 8, 0, 0));
        enter(R + 6);
        is_(index, IAudits.State.Rejected);
    }

    /// @dev A stranger calls, and the voter is paid.
    function _fetches(uint256 i, uint256 amount) private {
        uint256 before = actors[i].balance;
        vm.expectEmit(address(disputes));
        emit IDisputes.BountyClaimed(index, R, actors[i], amount);
        vm.prank(stranger);
        disputes.claimBounty(index, actors[i]);
        eq(actors[i].balance - before, amount);
        eq(disputes.bountyOf(index, actors[i]), 0);
    }

    function _hasNoBounty(address voter) private {
        expectRevert(abi.encodeWithSelector(IDisputes.NoBounty.selector, index, voter));
        disputes.claimBounty(index, voter);
    }

    function _closes(uint256 about, uint256 amount) private {
        uint256 before = stranger.balance;
        disputes.closeDispute(index, about);
        eq(stranger.balance - before, amount);
    }
}
