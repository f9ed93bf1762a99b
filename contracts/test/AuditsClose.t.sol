// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {IAudits} from "../src/interfaces/IAudits.sol";
import {IDisputes} from "../src/interfaces/IDisputes.sol";
import {AuditsTest} from "./AuditsTest.sol";

/// @dev Takes no ether back. If it is told to, it refuses at such length that whoever copies its answer runs dry.
contract Stubborn {
    bool private immutable AT_LENGTH;

    constructor(bool atLength) payable {
        AT_LENGTH = atLength;
    }

    function dispute(IDisputes disputes, uint256 index, uint256 bond) external {
        disputes.dispute{value: bond}(index, index);
    }

    receive() external payable {
        if (!AT_LENGTH) revert();
        assembly ("memory-safe") {
            // Memory for half a million gas, and then the rest is burned, but for what this takes.
            let size := 480000
            mstore(size, 1)
            for {} gt(gas(), 10000) {} {}
            revert(0, size)
        }
    }
}

/// @dev When the bond of a dispute comes back, and when it is burned.
contract AuditsCloseTest is AuditsTest {
    uint256 private index;

    /// @dev Stage 1 accepted the first three batches.
    function setUp() public override {
        super.setUp();
        produce(R, 3);
        voteAlike(R, 1, 12, list(A, A, A));
        index = indexOf(0, R);
        enter(R + 3);
    }

    // ---- back

    function test_closeDispute_paysBackWhenRejected() public {
        dispute(index, index);
        vote(R, 2, ballots(3, 8, 0, 0));
        enter(R + 6);
        settle(0, R, index);
        _closes(index, true, BOND / 10);
    }

    function test_closeDispute_paysBackWhenAThirdDoubts() public {
        dispute(index, index);
        vote(R, 2, ballots(4, 1, 1, 0));
        _closes(index, true, 0);
        is_(index, IAudits.State.Accepted);
    }

    function test_closeDispute_paysBackWhenOneVoidIsAThird() public {
        dispute(index, index);
        vote(R, 2, ballots(1, 0, 1, 1));
        _closes(index, true, 0);
    }

    /// @dev The rightful disputer of a batch whose node was slashed for another one.
    function test_closeDispute_paysBackWhenVoidBecauseItsNodeWasSlashed() public {
        dispute(index, index);
        dispute(index, index + 1);
        enter(R + 4);
        _slashed();
        is_(index, IAudits.State.Void);
        _closes(index, true, 0);
        _closes(index + 1, true, 0);
    }

    /// @dev Without that beacon nobody could look.
    function test_closeDispute_paysBackWhenStage2HadNoBeacon() public {
        dispute(index, index);
        enter(R + 5);
        rounds.poke();
        _closes(index, true, 0);
        is_(index, IAudits.State.Void);
    }

    function test_closeDispute_ofEachReasonPaysBackByTheSameVotes() public {
        for (uint256 about = index; about <= index + 2; ++about) {
            dispute(index, about);
        }
        vote(R, 2, ballots(2, 1, 0, 0));
        for (uint256 about = index; about <= index + 2; ++about) {
            _closes(about, true, 0);
        }
    }

    // ---- burned

    function test_closeDispute_burnsWhenFewerThanAThirdDoubt() public {
        dispute(index, index);
        dispute(index, index + 1);
        vote(R, 2, ballots(5, 1, 1, 0));
        _closes(index, false, 0);
        _closes(index + 1, false, 0);
    }

    function test_closeDispute_burnsWhenNobodyDoubts() public {
        dispute(index, index);
        vote(R, 2, ballots(1, 0, 0, 2));
        _closes(index, false, 0);
        is_(index, IAudits.State.Void);
    }

    /// @dev Nobody revealed anything, though the beacon was there.
    function test_closeDispute_burnsWhenNobodyLooks() public {
        dispute(index, index);
        enter(R + 4);
        rounds.poke();
        _closes(index, false, 0);
    }

    /// @dev Who is slashed after the round is final changes nothing of it.
    function test_closeDispute_burnsWhenItsNodeIsSlashedLater() public {
        dispute(index, index);
        vote(R, 2, ballots(8, 0, 0, 0));
        enter(R + 6);
        _slashed();
        _closes(index, false, 0);
    }

    // ---- whoever cannot be paid

    /// @dev Then it is burned, and the dispute is closed: nothing is kept for ever.
    function test_closeDispute_burnsWhatTheDisputerDoesNotTake() public {
        _burnsFor(new Stubborn{value: DISPUTE_BOND}(false));
    }

    /// @dev Nor does it help to answer with very many bytes.
    function test_closeDispute_burnsWhatIsRefusedAtLength() public {
        _burnsFor(new Stubborn{value: DISPUTE_BOND}(true));
    }

    function _burnsFor(Stubborn disputer) private {
        disputer.dispute(disputes, index, DISPUTE_BOND);
        vote(R, 2, ballots(0, 8, 0, 0));
        enter(R + 6);
        settle(0, R, index);
        uint256 burned = address(0).balance;
        uint256 amount = DISPUTE_BOND + BOND / 10;
        vm.expectEmit(address(disputes));
        emit IDisputes.DisputeClosed(index, R, address(disputer), index, amount, true);
        disputes.closeDispute{gas: 5_000_000}(index, index);
        eq(address(0).balance - burned, amount);
        eq(address(disputes).balance, 0);
        _isClosed(index, address(disputer));
    }

    // ---- when

    function test_closeDispute_revertsBeforeFinal() public {
        dispute(index, index);
        vm.roll(firstOf(R + 6) - 1);
        expectRevert(abi.encodeWithSelector(IAudits.NotFinal.selector, R + 6, R + 5));
        disputes.closeDispute(index, index);
    }

    function test_closeDispute_revertsWithoutADisputeAndTheSecondTime() public {
        dispute(index, index + 1);
        enter(R + 6);
        disputes.closeDispute(index, index + 1);
        for (uint256 i = 0; i < 3; ++i) {
            expectRevert(abi.encodeWithSelector(IDisputes.NoDispute.selector, index, index + i));
            disputes.closeDispute(index, index + i);
        }
    }

    // ---- doing it

    function _slashed() private {
        vm.prank(address(disputes));
        audits.slash(actors[0], payable(bob), 0);
    }

    /// @param more What comes with the bond
    function _closes(uint256 about, bool paidBack, uint256 more) private {
        enter(R + 6);
        uint256 burned = address(0).balance;
        uint256 before = stranger.balance;
        uint256 held = address(disputes).balance;
        uint256 amount = (paidBack ? DISPUTE_BOND : 0) + more;
        vm.expectEmit(address(disputes));
        emit IDisputes.DisputeClosed(index, R, stranger, about, amount, paidBack);
        disputes.closeDispute(index, about);
        eq(stranger.balance - before, amount);
        eq(address(0).balance - burned, paidBack ? 0 : DISPUTE_BOND);
        eq(held - address(disputes).balance, DISPUTE_BOND + more);
        _isClosed(about, stranger);
    }

    function _isClosed(uint256 about, address by) private view {
        (address disputer, bool isOpen) = disputes.disputeOf(index, about);
        eq(disputer, by);
        no(isOpen);
    }
}
