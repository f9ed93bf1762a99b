// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {IAudits} from "../src/interfaces/IAudits.sol";
import {INodes} from "../src/interfaces/INodes.sol";
import {Tallies} from "../src/libraries/Tallies.sol";
import {FraudTest} from "./FraudTest.sol";

/// @dev What a proof or a rejection does to the node, to its other batches, and to the totals.
contract AuditsSlashTest is FraudTest {
    // ---- after a proof

    function test_proof_paysAQuarterAndBurnsTheRest() public {
        _cheatIn();
        uint256 burned = address(0).balance;
        vm.expectEmit(address(nodes));
        emit INodes.NodeSlashed(actors[0], stranger, BOND / 4, BOND - BOND / 4);
        prove(0, 0);
        eq(stranger.balance, 100 ether + BOND / 4);
        eq(address(0).balance - burned, BOND - BOND / 4);
        eq(address(nodes).balance, 11 * BOND);
        eq(nodes.nodeOf(actors[0]).state, INodes.State.Slashed);
        is_(index, IAudits.State.ProvenFalse);
        yes(audits.outcomeOf(index).isFinal);
    }

    /// @dev The rounds from R on have a batch each; the proof about R's comes in the last of them.
    function testFuzz_proof_voidsAllThatIsNotFinalAndNothingElse(uint256 late) public {
        late %= 6;
        uint256 old = _batchIn(R - 8);
        _cheatIn();
        uint256[6] memory others;
        for (uint256 r = 1; r <= late; ++r) {
            enter(R + r - 1);
            commit(actors[0], R + r, 1);
            enter(R + r);
            others[r] = submit(actors[0], R + r, 1);
        }
        prove(0, 0);
        is_(index, IAudits.State.ProvenFalse);
        for (uint256 r = 1; r <= late; ++r) {
            is_(others[r], IAudits.State.Void);
            yes(audits.outcomeOf(others[r]).isFinal);
        }
        is_(old, IAudits.State.Void);
        eq(uint256(audits.outcomeOf(old).outcome), uint256(Tallies.Outcome.Void));
    }

    /// @dev Of round R-6, which has just become final.
    function test_proof_leavesWhatIsFinal() public {
        uint256 old = _batchIn(R - 6);
        _acceptAll(R - 6);
        _cheatIn();
        is_(old, IAudits.State.Accepted);
        prove(0, 0);
        is_(old, IAudits.State.Accepted);
        totalsAre(R - 6, 1, 0);
    }

    /// @dev Of round R-5, in the last round before it would be final.
    function test_proof_voidsTheOldestThatIsNotFinal() public {
        uint256 old = _batchIn(R - 5);
        _acceptAll(R - 5);
        _cheatIn();
        is_(old, IAudits.State.Standing);
        prove(0, 0);
        is_(old, IAudits.State.Void);
        totalsAre(R - 5, 0, 0);
    }

    /// @dev An accepted batch of the next round: its score and its accepts leave the totals.
    function test_proof_takesOtherBatchesOutOfTheTotals() public {
        _cheatIn();
        commit(actors[0], R + 1, 1);
        commit(actors[1], R + 1, 1);
        enter(R + 1);
        uint256 second = submit(actors[0], R + 1, 3);
        submit(actors[1], R + 1, 1);
        voteAlike(R + 1, 1, 6, list(A, A));
        enter(R + 4);
        totalsAre(R + 1, 2 + 1, 2);
        vm.expectEmit(address(audits));
        emit IAudits.BatchVoided(actors[0], R + 1, second);
        prove(0, 0);
        totalsAre(R + 1, 1, 1);
        is_(second, IAudits.State.Void);
    }

    /// @dev Rejects of what is proven false are paid in its last stage: this was proven before stage 2.
    function test_proof_beforeStage2PaysTheRejectsOfStage1() public {
        _cheatIn();
        enter(R + 1);
        for (uint256 i = 1; i < 5; ++i) {
            commitAs(i, R, 1, i == 4 ? list(A, O) : list(X, O));
        }
        prove(0, 0);
        totalsAre(R, 0, 0);
        enter(R + 2);
        for (uint256 i = 1; i < 5; ++i) {
            revealAs(i, R, 1, i == 4 ? list(A, O) : list(X, O));
        }
        // Actor 1 alone has a batch of its own.
        totalsAre(R, 0, 1);
        no(audits.outcomeOf(index).inStage2);
    }

    /// @dev Who committed in stage 2 can reveal, though the batch was proven false meanwhile.
    function test_proof_inStage2PaysItsRejectsAndLetsThemBeRevealed() public {
        _cheatIn();
        voteAlike(R, 1, 2, list(X, O));
        totalsAre(R, 0, 0);
        enter(R + 4);
        commitAs(1, R, 2, list(X, O));
        commitAs(2, R, 2, list(X, O));
        prove(0, 0);
        totalsAre(R, 0, 0);
        enter(R + 5);
        revealAs(1, R, 2, list(X, O));
        revealAs(2, R, 2, list(X, O));
        totalsAre(R, 0, 1);
        is_(index, IAudits.State.ProvenFalse);
        yes(audits.outcomeOf(index).inStage2);
    }

    function test_proof_ofAStandingBatchTakesItBack() public {
        _cheatIn();
        voteAlike(R, 1, 6, list(A, A));
        enter(R + 4);
        totalsAre(R, 3 + 1, 2);
        prove(0, 0);
        totalsAre(R, 1, 1);
        is_(index + 1, IAudits.State.Standing);
    }

    function test_proof_paysTheDisputeBack() public {
        _cheatIn();
        voteAlike(R, 1, 6, list(A, A));
        enter(R + 3);
        vm.prank(stranger);
        audits.dispute{value: DISPUTE_BOND}(index);
        prove(0, 0);
        enter(R + 6);
        audits.closeDispute(index);
        eq(stranger.balance, 100 ether + BOND / 4);
    }

    function test_proof_reachesANodeThatIsExitingUntilItsLastBatchIsFinal() public {
        enter(R - 2);
        vm.prank(actors[0]);
        nodes.requestExit();
        enter(R);
        _cheatIn();
        vm.roll(firstOf(R + 6) - 1);
        prove(0, 0);
        eq(nodes.nodeOf(actors[0]).state, INodes.State.Slashed);
    }

    function test_proof_revertsWhenTheProverCannotReceive() public {
        _cheatIn();
        bend(0, 0, 1, 0);
        (bool success, bytes memory data) =
            address(audits).call(abi.encodeCall(audits.proveRecord, (index, leafOf(0), chunkOf(0, 0), 0)));
        no(success);
        eq(
            keccak256(data),
            keccak256(abi.encodeWithSelector(INodes.PaymentFailed.selector, address(this), BOND / 4))
        );
        prove(0, 0);
    }

    // ---- after a rejection

    function test_rejection_slashesWhenSettledAndBurnsAll() public {
        _reject();
        enter(R + 6);
        is_(index, IAudits.State.Rejected);
        uint256 burned = address(0).balance;
        vm.expectEmit(address(audits));
        emit IAudits.Settled(actors[0], R, index, IAudits.Debt.RejectedBatch, 0, 0, stranger);
        settle(0, R, index);
        eq(address(0).balance - burned, BOND);
        eq(stranger.balance, 100 ether);
        eq(nodes.nodeOf(actors[0]).state, INodes.State.Slashed);
        is_(index, IAudits.State.Rejected);
        owesNothing(0, R, index);
    }

    function test_rejection_voidsLaterBatches() public {
        _reject();
        commit(actors[0], R + 6, 1);
        enter(R + 6);
        uint256 later = submit(actors[0], R + 6, 1);
        settle(0, R, index);
        is_(later, IAudits.State.Void);
    }

    function test_rejection_isSettledOnlyWhenFinalAndOnlyOfTheOwner() public {
        _reject();
        owesNothing(0, R, index);
        enter(R + 6);
        owesNothing(1, R, index);
        owesNothing(0, R, index + 1);
        owesNothing(0, R, NO_BATCH);
        owesNothing(0, R + 1, index);
        settle(0, R, index);
    }

    function test_rejection_reachesANodeThatAskedToExitAtOnce() public {
        enter(R - 2);
        vm.prank(actors[0]);
        nodes.requestExit();
        enter(R);
        _reject();
        // The earliest moment in which it could withdraw is a whole round after the batch is final.
        uint256 exitBlock = nodes.nodeOf(actors[0]).exitBlock;
        yes(exitBlock >= firstOf(R + 7));
        vm.roll(exitBlock - 1);
        settle(0, R, index);
        eq(nodes.nodeOf(actors[0]).state, INodes.State.Slashed);
    }

    // ---- doing it

    function _cheatIn() private {
        enter(R);
        bend(0, 0, 1, 0);
        hand_in();
        vm.prank(actors[1]);
        rounds.submit(actors[1], R, dealt, MANIFEST, ROOT, 1);
    }

    function _batchIn(uint256 round) private returns (uint256 made) {
        vm.roll(firstOf(round - 1) + 1);
        commit(actors[0], round, 1);
        enter(round);
        made = submit(actors[0], round, 1);
    }

    function _acceptAll(uint256 round) private {
        uint256[][] memory table = new uint256[][](4);
        for (uint256 i = 1; i < 4; ++i) {
            table[i] = list(A);
        }
        vote(round, 1, table);
    }

    function _reject() private {
        _cheatIn();
        uint256[][] memory table = new uint256[][](12);
        for (uint256 i = 1; i < 12; ++i) {
            table[i] = list(X, A);
        }
        vote(R, 1, table);
        for (uint256 i = 1; i < 12; ++i) {
            table[i] = list(X, O);
        }
        vote(R, 2, table);
    }
}
