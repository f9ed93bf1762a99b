// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {IAudits} from "../src/interfaces/IAudits.sol";
import {IDisputes} from "../src/interfaces/IDisputes.sol";
import {INodes} from "../src/interfaces/INodes.sol";
import {IProofs} from "../src/interfaces/IProofs.sol";
import {FraudProofs} from "../src/libraries/FraudProofs.sol";
import {Protocol} from "../src/libraries/Protocol.sol";
import {Tallies} from "../src/libraries/Tallies.sol";
import {FraudTest} from "./FraudTest.sol";
import {Trees} from "./harness/Trees.sol";

/// @dev What a proof or a rejection does to the node, to its other batches, and to the totals.
contract AuditsSlashTest is FraudTest {
    // ---- after a proof

    function test_proof_paysATenthAndBurnsTheRest() public {
        _cheatIn();
        uint256 burned = address(0).balance;
        vm.expectEmit(address(nodes));
        emit INodes.NodeSlashed(actors[0], stranger, BOND / 10, BOND - BOND / 10);
        prove(0, 0);
        eq(stranger.balance, 100 ether + BOND / 10);
        eq(address(0).balance - burned, BOND - BOND / 10);
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
            // It can still be proven false.
            no(audits.outcomeOf(others[r]).isFinal);
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
        totalsAre(R - 6, 4, 12);
    }

    /// @dev Of round R-5, in the last round before it would be final.
    function test_proof_voidsTheOldestThatIsNotFinal() public {
        uint256 old = _batchIn(R - 5);
        _acceptAll(R - 5);
        _cheatIn();
        is_(old, IAudits.State.Standing);
        prove(0, 0);
        is_(old, IAudits.State.Void);
        // Its claim counts still: what was void for others is not theirs.
        totalsAre(R - 5, 4, 9);
    }

    /// @dev An accepted batch of the next round: its accepts leave the totals. Its claim stays: nobody else is paid more
    /// because another was slashed.
    function test_proof_takesTheAcceptsOfOtherBatchesOutOfTheTotals() public {
        _cheatIn();
        uint256 second = _batchIn(R + 1);
        _acceptAll(R + 1);
        enter(R + 4);
        totalsAre(R + 1, 4, 12);
        vm.expectEmit(address(audits));
        emit IAudits.BatchVoided(actors[0], R + 1, second);
        prove(0, 0);
        totalsAre(R + 1, 4, 9);
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
        totalsAre(R, 0, 3);
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
        totalsAre(R, 0, 2);
        is_(index, IAudits.State.ProvenFalse);
        yes(audits.outcomeOf(index).inStage2);
    }

    function test_proof_ofAStandingBatchTakesItBack() public {
        _cheatIn();
        voteAlike(R, 1, 6, list(A, A));
        enter(R + 4);
        totalsAre(R, 3 + 1, 5 + 5);
        prove(0, 0);
        totalsAre(R, 3 + 1, 5);
        is_(index + 1, IAudits.State.Standing);
    }

    function test_proof_paysTheDisputesBack() public {
        _cheatIn();
        voteAlike(R, 1, 6, list(A, A));
        enter(R + 3);
        dispute(index, index);
        dispute(index, index + 1);
        prove(0, 0);
        enter(R + 6);
        disputes.closeDispute(index, index);
        disputes.closeDispute(index, index + 1);
        eq(stranger.balance, 100 ether + BOND / 10);
    }

    // ---- accepters of what is proven false

    /// @dev No model is needed to see it: an accept is fined in both stages.
    function test_proof_finesAcceptsOfBothStages() public {
        _cheatIn();
        uint256[][] memory table = new uint256[][](12);
        for (uint256 i = 1; i < 12; ++i) {
            table[i] = i == 1 ? list(A, A) : i == 2 ? list(X, A) : i == 3 ? list(V, A) : list(O, A);
        }
        vote(R, 1, table);
        for (uint256 i = 1; i < 12; ++i) {
            table[i] = i < 3 ? list(A, O) : list(V, O);
        }
        vote(R, 2, table);
        prove(0, 0);
        enter(R + 6);
        settle(1, R, index);
        eq(bondOf(1), BOND - 2 * WRONG_VERDICT);
        settle(2, R, index);
        eq(bondOf(2), BOND - WRONG_VERDICT);
        for (uint256 i = 1; i < 5; ++i) {
            owesNothing(i, R, index);
        }
    }

    /// @dev Its node has itself proven false with another batch, which nobody accepted: that frees no accomplice.
    function test_proof_ofABatchThatIsVoidFinesItsAcceptersAndSlashesNobodyTwice() public {
        _cheatIn();
        commit(actors[0], R + 1, 1);
        enter(R + 1);
        bytes32[] memory two = new bytes32[](2);
        (two[0], two[1]) = (Protocol.leaf(0, 0, ROOT), Protocol.leaf(1, 1, ROOT));
        bytes32 captured = rounds.poke();
        vm.prank(actors[0]);
        uint256 second = rounds.submit(actors[0], R + 1, captured, MANIFEST, Trees.root(two), 0);
        voteAlike(R, 1, 6, list(A, A));
        enter(R + 3);
        vm.prank(actors[5]);
        proofs.proveLength(second, FraudProofs.Leaf(0, 0, ROOT, Trees.path(two, 0)));
        eq(nodes.nodeOf(actors[0]).state, INodes.State.Slashed);
        is_(second, IAudits.State.ProvenFalse);
        is_(index, IAudits.State.Void);
        uint256 held = address(nodes).balance;
        vm.expectEmit(address(proofs));
        emit IProofs.NodeProvenFalse(actors[0], R, index, stranger, IProofs.Fault.Record);
        prove(0, 0);
        is_(index, IAudits.State.ProvenFalse);
        eq(address(nodes).balance, held);
        eq(stranger.balance, 100 ether);
        enter(R + 6);
        for (uint256 i = 1; i < 6; ++i) {
            settle(i, R, index);
            eq(bondOf(i), BOND - WRONG_VERDICT);
            owesNothing(i, R, index);
        }
        owesNothing(0, R, index);
    }

    function test_proof_ofABatchThatIsVoidIsGivenOnceAndUntilFinal() public {
        _cheatIn();
        _slashedForAnother();
        uint256 snapshot = vm.snapshotState();
        prove(0, 0);
        FraudProofs.Leaf memory leaf = leafOf(0);
        expectRevert(abi.encodeWithSelector(IProofs.BatchIsClosed.selector, index));
        proofs.proveLength(index, leaf);
        vm.revertToState(snapshot);
        enter(R + 6);
        expectRevert(abi.encodeWithSelector(IProofs.BatchIsClosed.selector, index));
        proofs.proveLength(index, leaf);
    }

    /// @dev Votes of stage 2 stand where they were: neither a slash nor a proof in it takes the batch out of it.
    function test_proof_ofABatchThatBecameVoidInStage2KeepsItsVotes() public {
        _cheatIn();
        enter(R + 4);
        for (uint256 i = 1; i < 4; ++i) {
            commitAs(i, R, 2, i == 1 ? list(A, O) : list(X, O));
        }
        enter(R + 5);
        revealAs(1, R, 2, list(A, O));
        _slashedForAnother();
        prove(0, 0);
        revealAs(2, R, 2, list(X, O));
        revealAs(3, R, 2, list(X, O));
        yes(audits.outcomeOf(index).inStage2);
        eq(audits.outcomeOf(index).stage2.revealed, 3);
        totalsAre(R, 0, 2);
        enter(R + 6);
        settle(1, R, index);
        eq(bondOf(1), BOND - WRONG_VERDICT);
    }

    // ---- to the end

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
            address(proofs).call(abi.encodeCall(proofs.proveRecord, (index, leafOf(0), chunkOf(0, 0), 0)));
        no(success);
        eq(
            keccak256(data),
            keccak256(abi.encodeWithSelector(INodes.PaymentFailed.selector, address(this), BOND / 10))
        );
        prove(0, 0);
    }

    // ---- after a rejection

    /// @dev A tenth waits for the eleven who rejected it in stage 1.
    function test_rejection_slashesWhenSettledAndBurnsNineTenths() public {
        _reject();
        enter(R + 6);
        is_(index, IAudits.State.Rejected);
        uint256 burned = address(0).balance;
        vm.expectEmit(address(disputes));
        emit IDisputes.Settled(actors[0], R, index, IDisputes.Debt.RejectedBatch, 0, 0, stranger);
        settle(0, R, index);
        eq(address(0).balance - burned, BOND - BOND / 10);
        eq(address(disputes).balance, BOND / 10);
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
        for (uint256 i = 1; i < actors.length; ++i) {
            vm.prank(actors[i]);
            rounds.submit(actors[i], R, dealt, MANIFEST, ROOT, i == 1 ? 1 : 0);
        }
    }

    function _slashedForAnother() private {
        vm.prank(address(disputes));
        audits.slash(actors[0], payable(bob), 0);
    }

    /// @dev Batches of the first four actors, with a one in each claim.
    function _batchIn(uint256 round) private returns (uint256 made) {
        enter(round - 1);
        for (uint256 i = 0; i < 4; ++i) {
            commit(actors[i], round, 1);
        }
        enter(round);
        made = submit(actors[0], round, 1);
        for (uint256 i = 1; i < 4; ++i) {
            submit(actors[i], round, 1);
        }
    }

    function _acceptAll(uint256 round) private {
        voteAlike(round, 1, 4, list(A, A, A, A));
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
