// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {IAudits} from "../src/interfaces/IAudits.sol";
import {IRounds} from "../src/interfaces/IRounds.sol";
import {Tallies} from "../src/libraries/Tallies.sol";
import {AuditsTest} from "./AuditsTest.sol";

/// @dev What stage 2 decides.
contract AuditsStage2Test is AuditsTest {
    function setUp() public override {
        super.setUp();
        enter(R - 1);
    }

    // ---- of what is in it by itself

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
        _stage2(3, 7, 1, 0, IAudits.State.Void);
    }

    function test_stage2_revertsForAVerdictAboutAnUndisputedBatch() public {
        _accepted();
        dispute(0, 0);
        enter(R + 4);
        commitAs(5, R, 2, list(A, A, O));
        enter(R + 5);
        uint256 word = wordOf(actors[5], R, 2, list(A, A, O));
        expectRevert(abi.encodeWithSelector(IAudits.NotInStage2.selector, 1, A));
        revealWord(actors[5], R, 2, word);
    }

    function test_stage2_leavesUndisputedBatchesAlone() public {
        _accepted();
        dispute(0, 0);
        voteAlikeAboutTheFirst(R, 12, X);
        eq(audits.outcomeOf(0).stage2.revealed, 11);
        eq(audits.outcomeOf(1).stage2.revealed, 0);
        enter(R + 6);
        is_(0, IAudits.State.Rejected);
        is_(1, IAudits.State.Accepted);
        // Two batches' accepts by eleven others each, and eleven rejects of the third.
        totalsAre(R, 3 + 4 + 5, 33);
    }

    function test_stage2_paysItsOwnVerdictsOnly() public {
        _accepted();
        dispute(0, 0);
        totalsAre(R, 3 + 4 + 5, 22);
        voteAlikeAboutTheFirst(R, 2, A);
        totalsAre(R, 3 + 4 + 5, 22);
        enter(R + 6);
        is_(0, IAudits.State.Void);
        (, uint256 verdicts) = audits.partOf(actors[1], R);
        // Of three accepts those about the third batch alone: its own passed over, the first is void.
        eq(verdicts, 1);
        (, verdicts) = audits.partOf(actors[0], R);
        eq(verdicts, 0);
    }

    function test_stage2_paysAcceptsOfStage2WhereItAccepts() public {
        _accepted();
        dispute(0, 0);
        voteAlikeAboutTheFirst(R, 4, A);
        totalsAre(R, 3 + 4 + 5, 22 + 3);
        enter(R + 6);
        is_(0, IAudits.State.Accepted);
        (, uint256 verdicts) = audits.partOf(actors[1], R);
        eq(verdicts, 2);
    }

    // ---- of what only its node's answers sent there

    /// @dev Whoever finds it void, abstains or is missing: it stands as stage 1 left it.
    function test_stage2_aboutAnswersLeavesTheBatchAcceptedUnlessItIsRejected() public {
        _about(0, 0, 0, 0, IAudits.State.Accepted);
        _about(0, 0, 8, 0, IAudits.State.Accepted);
        _about(1, 0, 0, 4, IAudits.State.Accepted);
        _about(0, 7, 0, 0, IAudits.State.Accepted);
        _about(0, 7, 4, 0, IAudits.State.Accepted);
        _about(8, 0, 0, 0, IAudits.State.Accepted);
        _about(0, 8, 3, 0, IAudits.State.Rejected);
    }

    /// @dev Who disputes the batch too makes it have to stand.
    function test_stage2_aboutAnswersAndTheBatchItselfHasToBeAccepted() public {
        _accepted();
        dispute(0, 1);
        dispute(0, 0);
        vote(R, 2, ballots(0, 0, 8, 0));
        enter(R + 6);
        is_(0, IAudits.State.Void);
    }

    /// @dev What stage 1 did not accept gains nothing by a dispute about its node's answers.
    function test_stage2_aboutAnswersOfABatchThatStage1LeftOpen() public {
        produce(R, 3);
        uint256[][] memory table = new uint256[][](12);
        for (uint256 i = 0; i < 12; ++i) {
            table[i] = i == 0 ? list(O, A, A) : i == 1 ? list(X, O, A) : list(A, A, A);
        }
        vote(R, 1, table);
        enter(R + 3);
        is_(0, IAudits.State.Disputed);
        dispute(0, 1);
        vote(R, 2, ballots(1, 2, 3, 0));
        enter(R + 6);
        is_(0, IAudits.State.Void);
    }

    // ---- doing it

    /// @dev Stage 1 accepts the first three batches, which are those at 0, 1 and 2. Ends in the round of disputes.
    function _accepted() private {
        produce(R, 3);
        voteAlike(R, 1, 12, list(A, A, A));
        enter(R + 3);
    }

    /// @dev In a fresh round: stage 1 accepted the first batch, and what its node said about the second is disputed.
    function _about(uint256 accepts, uint256 rejects, uint256 voids, uint256 abstains, IAudits.State state)
        private
    {
        uint256 round = rounds.currentRound() + 20;
        produce(round, 2);
        voteAlike(round, 1, 12, list(A, A));
        enter(round + 3);
        uint256 first = indexOf(0, round);
        dispute(first, first + 1);
        vote(round, 2, ballots(accepts, rejects, voids, abstains));
        is_(first, IAudits.State.Disputed);
        enter(round + 6);
        is_(first, state);
        is_(first + 1, IAudits.State.Accepted);
        eq(audits.roundTotals(round).claimed, 3 + 4);
    }

    /// @dev In a fresh round, whose batches nobody says anything about in stage 1.
    function _stage2(uint256 accepts, uint256 rejects, uint256 voids, uint256 abstains, IAudits.State state)
        private
    {
        uint256 round = rounds.currentRound() + 20;
        produce(round, 2);
        vote(round, 2, ballots(accepts, rejects, voids, abstains));
        uint256 first = indexOf(0, round);
        is_(first, IAudits.State.Disputed);
        enter(round + 6);
        is_(first, state);
        yes(audits.roundTotals(round).isFinal);
        eq(audits.roundTotals(round).claimed, accepts >= 2 ? 3 : 0);
    }
}

/// @dev Three rejects are enough, where half of those to whom a batch was dealt reject it.
contract AuditsQuorumTest is AuditsTest {
    function defaults() internal pure override returns (IRounds.Parameters memory p) {
        p = super.defaults();
        p.minRejects = 3;
    }

    /// @dev Five liars, all who reveal, are fewer than half of eleven.
    function test_rejection_byFewAtLowTurnoutSlashesNobody() public {
        produce(R, 2);
        vote(R, 1, ballots(0, 5, 0, 0));
        vote(R, 2, ballots(0, 5, 0, 0));
        enter(R + 6);
        is_(indexOf(0, R), IAudits.State.Void);
        owesNothing(0, R, indexOf(0, R));
        eq(bondOf(0), BOND);
    }

    function test_rejection_needsHalfOfThoseToWhomTheBatchWasDealt() public {
        produce(R, 2);
        vote(R, 2, ballots(3, 6, 0, 0));
        enter(R + 6);
        is_(indexOf(0, R), IAudits.State.Rejected);
        settle(0, R, indexOf(0, R));
        eq(bondOf(0), 0);
    }

    /// @dev Half of all rejects, and a flood of voids hides the batch from the others: they stay in the denominator.
    function test_rejection_amongAFloodOfVoidsSlashesNobody() public {
        produce(R, 2);
        vote(R, 2, ballots(0, 6, 4, 0));
        enter(R + 6);
        is_(indexOf(0, R), IAudits.State.Void);
        settle(0, R, indexOf(0, R));
        eq(bondOf(0), BOND - WITHHELD);
    }

    /// @dev Only voids: nobody is slashed for what nobody saw.
    function test_rejection_byVoidsAloneSlashesNobody() public {
        produce(R, 2);
        vote(R, 2, ballots(0, 0, 11, 0));
        enter(R + 6);
        is_(indexOf(0, R), IAudits.State.Void);
        settle(0, R, indexOf(0, R));
        eq(bondOf(0), BOND - WITHHELD);
    }

    /// @dev In a round of four batches a batch is dealt to three.
    function test_rejection_looksAtHowManyBatchesTheRoundHas() public {
        enter(R - 1);
        for (uint256 i = 0; i < 4; ++i) {
            commit(actors[i], R, 1);
        }
        enter(R);
        for (uint256 i = 0; i < 4; ++i) {
            submit(actors[i], R, 1);
        }
        (, Tallies.Least memory least) = audits.tallyOf(0, R);
        eq(least.dealt, 3);
        vote(R, 2, ballots(0, 3, 0, 0));
        enter(R + 6);
        is_(0, IAudits.State.Rejected);
    }
}

/// @dev Eight of eleven are dealt in stage 2.
contract AuditsNarrowQuorumTest is AuditsTest {
    function defaults() internal pure override returns (IRounds.Parameters memory p) {
        p = super.defaults();
        (p.draws, p.minRejects) = (2, 1);
    }

    function test_tallyOf_asksForHalfOfFourTimesTheDraws() public {
        produce(R, 2);
        (, Tallies.Least memory least) = audits.tallyOf(indexOf(0, R), R);
        eq(least.accepts, 2);
        eq(least.rejects, 1);
        eq(least.dealt, 8);
        // A round without batches deals none.
        (, least) = audits.tallyOf(0, R + 1);
        eq(least.dealt, 0);
    }
}
