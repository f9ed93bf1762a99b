// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {IAudits} from "../src/interfaces/IAudits.sol";
import {IDisputes} from "../src/interfaces/IDisputes.sol";
import {INodes} from "../src/interfaces/INodes.sol";
import {IRounds} from "../src/interfaces/IRounds.sol";
import {AuditsTest} from "./AuditsTest.sol";

/// @dev Fees for promises that were not kept, and when a node has settled everything.
contract AuditsSettleTest is AuditsTest {
    function setUp() public override {
        super.setUp();
        enter(R - 1);
    }

    // ---- a missed batch

    function test_missedBatch_isFinedOnce() public {
        _miss(5, R);
        yes(audits.settled(actors[5]));
        owesNothing(5, R, NO_BATCH);
        enter(R + 1);
        no(audits.settled(actors[5]));
        no(nodes.isSettled(actors[5]));
        uint256 burned = address(0).balance;
        vm.expectEmit(address(disputes));
        emit IDisputes.Settled(actors[5], R, NO_BATCH, IDisputes.Debt.MissedBatch, 0, MISSED_BATCH, stranger);
        settle(5, R, NO_BATCH);
        eq(bondOf(5), BOND - MISSED_BATCH);
        eq(stranger.balance, 100 ether + MISSED_BATCH / 10);
        eq(address(0).balance - burned, MISSED_BATCH - MISSED_BATCH / 10);
        yes(audits.settled(actors[5]));
        owesNothing(5, R, NO_BATCH);
    }

    /// @dev Of two policies the first has no batch; both are for rounds that have a beacon.
    function test_missedBatch_isShown() public {
        _missedAre(5, R - 1, 0, 0);
        commit(actors[5], R, 1);
        commit(actors[5], R + 1, 1);
        enter(R);
        rounds.poke();
        _missedAre(5, R, R + 1, 0);
        enter(R + 1);
        submit(actors[5], R + 1, 1);
        _missedAre(5, R + 1, R + 1, 2);
        enter(R + 2);
        _missedAre(5, R + 2, R + 1, 2);
        settle(5, R, NO_BATCH);
        _missedAre(5, R + 2, R + 1, 0);
        vm.roll(FIRST_BLOCK - 1);
        _missedAre(5, 0, 0, 0);
    }

    function _missedAre(uint256 i, uint256 current, uint256 last, uint256 bits) private view {
        (uint256 current_, uint256 last_, uint256 bits_) = rounds.missedOf(actors[i]);
        eq(current_, current);
        eq(last_, last);
        eq(bits_, bits);
    }

    function test_missedBatch_costsNothingInAVoidRound() public {
        commit(actors[5], R, 1);
        enter(R + 1);
        yes(audits.settled(actors[5]));
        owesNothing(5, R, NO_BATCH);
        commit(actors[5], R + 2, 1);
    }

    function test_missedBatch_costsNothingWhenDelivered() public {
        produce(R, 1);
        enter(R + 1);
        yes(audits.settled(actors[0]));
        owesNothing(0, R, NO_BATCH);
    }

    function test_missedBatch_blocksTheNextCommitmentUntilSettledAndToppedUp() public {
        _miss(5, R);
        enter(R + 1);
        expectRevert(abi.encodeWithSelector(IRounds.NodeNotSettled.selector, actors[5]));
        commit(actors[5], R + 2, 1);
        settle(5, R, NO_BATCH);
        expectRevert(abi.encodeWithSelector(IRounds.NodeNotActive.selector, actors[5]));
        commit(actors[5], R + 2, 1);
        nodes.topUp{value: MISSED_BATCH}(actors[5]);
        commit(actors[5], R + 2, 1);
    }

    /// @dev Three in a row can be open: committed two ahead, one ahead, and the current one.
    function testFuzz_missedBatch_everyOneIsFoundHoweverLate(uint256 which, uint256 late, uint256 order)
        public
    {
        which %= 8;
        enter(R - 2);
        commit(actors[5], R, 1);
        enter(R - 1);
        commit(actors[5], R + 1, 1);
        enter(R);
        commit(actors[5], R + 2, 1);
        uint256 owed = 0;
        for (uint256 r = 0; r < 3; ++r) {
            enter(R + r);
            rounds.poke();
            if (which >> r & 1 == 1) {
                ++owed;
            } else {
                submit(actors[5], R + r, 1);
            }
        }
        enter(R + 3 + late % 1_000);
        for (uint256 i = 0; i < 3; ++i) {
            uint256 r = (order % 3 + i) % 3;
            eq(audits.settled(actors[5]) ? 1 : 0, owed == 0 ? 1 : 0);
            if (which >> r & 1 == 1) {
                settle(5, R + r, NO_BATCH);
                --owed;
            }
            owesNothing(5, R + r, NO_BATCH);
        }
        yes(audits.settled(actors[5]));
    }

    function test_missedBatch_isFoundWhenCommittedInTheOtherOrder() public {
        commit(actors[5], R + 1, 1);
        commit(actors[5], R, 1);
        enter(R);
        submit(actors[5], R, 1);
        enter(R + 1);
        rounds.poke();
        enter(R + 2);
        no(audits.settled(actors[5]));
        settle(5, R + 1, NO_BATCH);
        yes(audits.settled(actors[5]));
    }

    // ---- a missed reveal

    function testFuzz_missedReveal_isFinedOnce(uint256 second) public {
        uint8 stage = second % 2 == 0 ? 1 : 2;
        uint256 due = stage == 1 ? R + 2 : R + 5;
        produce(R, 2);
        enter(due - 1);
        commitAs(5, R, stage, list(A, A));
        enter(due);
        yes(audits.settled(actors[5]));
        owesNothing(5, R, NO_BATCH);
        enter(due + 1);
        no(audits.settled(actors[5]));
        vm.expectEmit(address(disputes));
        emit IDisputes.Settled(
            actors[5], R, NO_BATCH, IDisputes.Debt.MissedReveal, stage, MISSED_REVEAL, stranger
        );
        settle(5, R, NO_BATCH);
        eq(bondOf(5), BOND - MISSED_REVEAL);
        yes(audits.settled(actors[5]));
        owesNothing(5, R, NO_BATCH);
        eq(uint256(audits.verdictsOf(actors[5], R, stage).ballot), uint256(IAudits.Ballot.None));
    }

    function test_missedReveal_ofBothStagesAndAWrongVerdictAreSettledTogether() public {
        produce(R, 2);
        vote(R, 1, ballots(0, 1, 0, 0));
        enter(R + 1);
        commitAs(6, R, 1, list(A));
        enter(R + 4);
        no(audits.settled(actors[6]));
        settle(6, R, NO_BATCH);
        nodes.topUp{value: MISSED_REVEAL}(actors[6]);
        uint256[][] memory table = ballots(3, 0, 0, 0);
        table[1] = list(X, O);
        for (uint256 i = 1; i < 4; ++i) {
            commitAs(i, R, 2, table[i]);
        }
        commitAs(6, R, 2, list(A));
        enter(R + 5);
        revealAs(2, R, 2, table[2]);
        revealAs(3, R, 2, table[3]);
        enter(R + 6);
        uint256 first = indexOf(0, R);
        settle(6, R, first);
        eq(bondOf(6), BOND - MISSED_REVEAL);
        is_(first, IAudits.State.Accepted);
        // A reveal that was missed in stage 2, and a wrong verdict of stage 1, in one call.
        settle(1, R, first);
        eq(bondOf(1), BOND - MISSED_REVEAL - WRONG_VERDICT);
        yes(audits.settled(actors[1]));
    }

    // ---- limits

    function test_settle_takesNoMoreThanTheBondThatIsLeft() public {
        _miss(2, R);
        vm.prank(address(audits));
        nodes.fine(actors[2], BOND - 10, payable(bob), 0);
        enter(R + 1);
        settle(2, R, NO_BATCH);
        eq(bondOf(2), 0);
        eq(stranger.balance, 100 ether + 1);
        yes(audits.settled(actors[2]));
    }

    /// @dev A slashed node owes nothing that could be taken; the debt is crossed out all the same.
    function test_settle_worksForASlashedNode() public {
        _miss(5, R);
        vm.prank(address(audits));
        nodes.slash(actors[5], payable(stranger), 0);
        enter(R + 1);
        no(audits.settled(actors[5]));
        uint256 before = stranger.balance;
        settle(5, R, NO_BATCH);
        eq(stranger.balance, before);
        yes(audits.settled(actors[5]));
    }

    function test_withdraw_needsCommitmentsSettled() public {
        _miss(5, R);
        vm.prank(actors[5]);
        nodes.requestExit();
        vm.roll(block.number + EXIT_BLOCKS);
        expectRevert(abi.encodeWithSelector(INodes.NotSettled.selector, actors[5]));
        vm.prank(actors[5]);
        nodes.withdraw(payable(actors[5]));
        settle(5, R, NO_BATCH);
        vm.prank(actors[5]);
        nodes.withdraw(payable(actors[5]));
        eq(actors[5].balance, 10 ether - MISSED_BATCH);
    }

    function test_withdraw_worksBeforeRound0() public {
        super.setUp();
        vm.roll(FIRST_BLOCK - 10);
        yes(audits.settled(actors[5]));
        yes(audits.settled(stranger));
    }

    function test_settle_revertsForStrangersAndFarRounds() public {
        vm.roll(firstOf(R + 9));
        expectRevert(abi.encodeWithSelector(IDisputes.NothingToSettle.selector, bob, R, 0));
        vm.prank(stranger);
        disputes.settle(bob, R, 0);
        owesNothing(0, type(uint256).max / 4, 0);
    }

    function _miss(uint256 i, uint256 round) private {
        commit(actors[i], round, 1);
        enter(round);
        rounds.poke();
    }
}
