// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {IAudits} from "../src/interfaces/IAudits.sol";
import {IDisputes} from "../src/interfaces/IDisputes.sol";
import {IRounds} from "../src/interfaces/IRounds.sol";
import {AuditsTest} from "./AuditsTest.sol";

/// @dev The fee for a batch that nobody could look at. Three votes are enough, of two thirds of what was revealed, and
/// half of the eleven to whom a batch is dealt.
contract AuditsWithheldTest is AuditsTest {
    function defaults() internal pure override returns (IRounds.Parameters memory p) {
        p = super.defaults();
        p.minRejects = 3;
    }

    function setUp() public override {
        super.setUp();
        enter(R - 1);
    }

    // ---- once

    function test_withheld_costsMoreThanAMissedBatchOnce() public {
        yes(WITHHELD > MISSED_BATCH);
        produce(R, 2);
        vote(R, 2, ballots(0, 0, 11, 0));
        uint256 index = indexOf(0, R);
        owesNothing(0, R, index);
        enter(R + 6);
        is_(index, IAudits.State.Void);
        // It is no promise that was broken: nobody is kept from going on.
        yes(audits.settled(actors[0]));
        uint256 burned = address(0).balance;
        vm.expectEmit(address(disputes));
        emit IDisputes.Settled(actors[0], R, index, IDisputes.Debt.WithheldBatch, 0, WITHHELD, stranger);
        settle(0, R, index);
        eq(bondOf(0), BOND - WITHHELD);
        eq(stranger.balance, 100 ether + WITHHELD / 10);
        eq(address(0).balance - burned, WITHHELD - WITHHELD / 10);
        is_(index, IAudits.State.Void);
        owesNothing(0, R, index);
        enter(R + 50);
        owesNothing(0, R, index);
    }

    function test_withheld_isOwedByItsNodeAndForItsRoundOnly() public {
        produce(R, 2);
        vote(R, 2, ballots(0, 0, 11, 0));
        enter(R + 6);
        uint256 index = indexOf(0, R);
        owesNothing(1, R, index);
        owesNothing(0, R, NO_BATCH);
        owesNothing(0, R + 1, index);
        owesNothing(0, R, index + 1);
        settle(0, R, index);
    }

    function test_withheld_takesNoMoreThanTheBondThatIsLeft() public {
        produce(R, 2);
        vote(R, 2, ballots(0, 0, 11, 0));
        enter(R + 6);
        vm.prank(address(disputes));
        audits.fine(actors[0], BOND - 10, payable(bob), 0);
        settle(0, R, indexOf(0, R));
        eq(bondOf(0), 0);
        eq(stranger.balance, 100 ether + 1);
    }

    // ---- at the marks

    function test_withheld_needsHalfOfThoseToWhomTheBatchWasDealt() public {
        _stage2(0, 0, 5, 0, false);
        _stage2(0, 0, 6, 0, true);
        _stage2(0, 5, 0, 0, false);
    }

    function test_withheld_needsTwoThirdsOfWhatWasRevealed() public {
        _stage2(3, 0, 6, 0, true);
        _stage2(4, 0, 6, 0, false);
        _stage2(0, 0, 6, 3, true);
        _stage2(0, 0, 6, 4, false);
        _stage2(3, 0, 7, 0, true);
        _stage2(2, 0, 7, 2, false);
    }

    /// @dev Who sees that it is false and who sees nothing say the same about it: that it is not to be had.
    function test_withheld_countsRejectsAndVoidsTogether() public {
        _stage2(0, 3, 3, 0, true);
        _stage2(0, 5, 1, 0, true);
        _stage2(0, 6, 4, 0, true);
        _stage2(1, 1, 5, 2, true);
        _stage2(1, 1, 5, 3, false);
    }

    // ---- not

    function test_withheld_isNotOwedWhenStage1AcceptedTheBatch() public {
        produce(R, 2);
        voteAlike(R, 1, 12, list(A, A));
        enter(R + 3);
        uint256 index = indexOf(0, R);
        dispute(index, index);
        vote(R, 2, ballots(0, 0, 11, 0));
        enter(R + 6);
        is_(index, IAudits.State.Void);
        owesNothing(0, R, index);
    }

    function test_withheld_isNotOwedWhenStage2AcceptedTheBatch() public {
        produce(R, 2);
        vote(R, 1, ballots(1, 0, 9, 0));
        vote(R, 2, ballots(8, 0, 3, 0));
        enter(R + 6);
        is_(indexOf(0, R), IAudits.State.Accepted);
        owesNothing(0, R, indexOf(0, R));
    }

    function test_withheld_isNotOwedWhenTheBatchIsClosed() public {
        produce(R, 2);
        vote(R, 2, ballots(0, 0, 11, 0));
        vm.prank(address(disputes));
        audits.slash(actors[0], payable(bob), 0);
        enter(R + 6);
        is_(indexOf(0, R), IAudits.State.Void);
        owesNothing(0, R, indexOf(0, R));
    }

    function test_withheld_isNotOwedWhenRejected() public {
        produce(R, 2);
        vote(R, 2, ballots(0, 8, 3, 0));
        enter(R + 6);
        uint256 index = indexOf(0, R);
        is_(index, IAudits.State.Rejected);
        vm.expectEmit(address(disputes));
        emit IDisputes.Settled(actors[0], R, index, IDisputes.Debt.RejectedBatch, 0, 0, stranger);
        settle(0, R, index);
        owesNothing(0, R, index);
    }

    /// @dev Nobody was there to look: that is nobody's fault.
    function test_withheld_isNotOwedWhenNobodyLooked() public {
        produce(R, 2);
        enter(R + 6);
        is_(indexOf(0, R), IAudits.State.Void);
        owesNothing(0, R, indexOf(0, R));
    }

    /// @dev In a fresh round, of whose first batch stage 1 said nothing.
    function _stage2(uint256 accepts, uint256 rejects, uint256 voids, uint256 abstains, bool owed) private {
        uint256 snapshot = vm.snapshotState();
        produce(R, 2);
        vote(R, 2, ballots(accepts, rejects, voids, abstains));
        enter(R + 6);
        uint256 index = indexOf(0, R);
        is_(index, IAudits.State.Void);
        if (owed) settle(0, R, index);
        owesNothing(0, R, index);
        eq(bondOf(0), owed ? BOND - WITHHELD : BOND);
        vm.revertToState(snapshot);
    }
}

/// @dev Eight rejects reject a batch: so eight voids are needed, too.
contract AuditsWithheldByEightTest is AuditsTest {
    function test_withheld_needsAsManyAsARejection() public {
        for (uint256 voids = 7; voids <= 8; ++voids) {
            uint256 round = R + 20 * voids;
            produce(round, 2);
            vote(round, 2, ballots(0, 0, voids, 0));
            enter(round + 6);
            if (voids == 8) settle(0, round, indexOf(0, round));
            owesNothing(0, round, indexOf(0, round));
        }
        eq(bondOf(0), BOND - WITHHELD);
    }
}
