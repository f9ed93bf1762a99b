// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {IAudits} from "../src/interfaces/IAudits.sol";
import {IRounds} from "../src/interfaces/IRounds.sol";
import {Tallies} from "../src/libraries/Tallies.sol";
import {AuditsTest} from "./AuditsTest.sol";

/// @dev What stage 1 decides, and what counts for pay from which verdict on.
contract AuditsStage1Test is AuditsTest {
    function setUp() public virtual override {
        super.setUp();
        produce(R, 3);
        enter(R + 1);
    }

    // ---- stage 1 stands

    function test_stage1_acceptsWithTwoAcceptsAndNothingElse() public {
        _stage1(3, 0, 0, 0, true);
        _stage1(2, 0, 0, 0, true);
        _stage1(1, 0, 0, 0, false);
        _stage1(0, 0, 0, 0, false);
    }

    function test_stage1_oneRejectDisputes() public {
        _stage1(8, 1, 0, 0, false);
        _stage1(10, 1, 0, 0, false);
    }

    /// @dev One void is one voter's trouble, or one whom the author starves: that alone sends nothing to stage 2.
    function test_stage1_standsWithOneVoidAmongTwoAccepts() public {
        _stage1(2, 0, 1, 0, true);
        _stage1(1, 0, 1, 0, false);
        _stage1(8, 0, 1, 0, true);
        _stage1(7, 0, 4, 0, false);
    }

    function test_stage1_asksForTwiceAsManyAcceptsAsVoidsAndAbstentions() public {
        _stage1(2, 0, 0, 1, true);
        _stage1(2, 0, 0, 2, false);
        _stage1(6, 0, 0, 3, true);
        _stage1(6, 0, 0, 4, false);
        _stage1(6, 0, 2, 1, true);
        _stage1(6, 0, 2, 2, false);
    }

    function test_stage1_aBatchNobodyRevealedAnythingAboutIsDisputed() public {
        uint256 index = indexOf(0, R);
        enter(R + 3);
        is_(index, IAudits.State.Disputed);
        yes(audits.outcomeOf(index).inStage2);
        enter(R + 6);
        is_(index, IAudits.State.Void);
        yes(audits.outcomeOf(index).isFinal);
    }

    function test_stage1_isPendingUntilItIsOver() public {
        voteAlike(R, 1, 5, list(A, A, A));
        uint256 index = indexOf(0, R);
        is_(index, IAudits.State.Pending);
        no(audits.outcomeOf(index).isFinal);
        enter(R + 3);
        is_(index, IAudits.State.Standing);
        enter(R + 6);
        is_(index, IAudits.State.Accepted);
    }

    function test_stage1_showsEachChangeOfAnOutcomeOnce() public {
        uint256 index = indexOf(0, R);
        for (uint256 i = 4; i < 7; ++i) {
            commitAs(i, R, 1, i == 6 ? list(X, O, O) : list(A, O, O));
        }
        enter(R + 2);
        uint256 accepts = wordOf(actors[5], R, 1, list(A, O, O));
        uint256 rejects = wordOf(actors[6], R, 1, list(X, O, O));
        revealAs(4, R, 1, list(A, O, O));
        totalsAre(R, 0, 0);
        expectOutcome(index, R, Tallies.Outcome.Void, Tallies.Outcome.Accepted);
        revealWord(actors[5], R, 1, accepts);
        totalsAre(R, 3, 2);
        expectOutcome(index, R, Tallies.Outcome.Accepted, Tallies.Outcome.Void);
        revealWord(actors[6], R, 1, rejects);
        totalsAre(R, 3, 0);
    }

    /// @dev Right verdicts of voters whose own batch was accepted are paid, and all right ones divide the share.
    function test_stage1_paysVotersWhoseOwnBatchWasAccepted() public {
        voteAlike(R, 1, 6, list(A, A, A));
        // Actors 0, 1 and 2 said so about two batches each, the others about three.
        totalsAre(R, 3 + 4 + 5, 3 * 2 + 3 * 3);
        enter(R + 6);
        for (uint256 i = 0; i < 6; ++i) {
            (uint256 score, uint256 verdicts) = audits.partOf(actors[i], R);
            eq(score, i < 3 ? i + 3 : 0);
            eq(verdicts, i < 3 ? 2 : 0);
        }
    }

    // ---- what counts for pay

    /// @dev From the second accept on, and no verdict takes it back: so nobody gains by voiding what others made.
    function test_claimed_countsOnceAndIsNeverTakenAway() public {
        uint256[][] memory table = ballots(4, 7, 0, 0);
        vote(R, 1, table);
        totalsAre(R, 3, 0);
        // Again in stage 2: it does not count twice.
        vote(R, 2, table);
        totalsAre(R, 3, 0);
        enter(R + 6);
        is_(indexOf(0, R), IAudits.State.Void);
        totalsAre(R, 3, 0);
    }

    function test_claimed_countsFromStage2WhereStage1HadTooFew() public {
        uint256[][] memory table = new uint256[][](12);
        table[1] = list(A, O, O);
        vote(R, 1, table);
        totalsAre(R, 0, 0);
        enter(R + 4);
        for (uint256 i = 1; i < 4; ++i) {
            commitAs(i, R, 2, list(A, O, O));
        }
        enter(R + 5);
        revealAs(1, R, 2, list(A, O, O));
        totalsAre(R, 0, 0);
        revealAs(2, R, 2, list(A, O, O));
        totalsAre(R, 3, 2);
        revealAs(3, R, 2, list(A, O, O));
        totalsAre(R, 3, 3);
    }

    /// @dev A claim that nobody accepts divides nobody's pay.
    function test_claimed_leavesOutWhatOneVoterAccepts() public {
        uint256[][] memory table = ballots(1, 2, 3, 4);
        vote(R, 1, table);
        vote(R, 2, table);
        totalsAre(R, 0, 0);
    }

    /// @dev However many censors void the best batch, nobody else's part of a unit changes.
    /// forge-config: default.fuzz.runs = 32
    function testFuzz_claimed_isTheSameWhateverTheOthersSay(uint256 seed) public {
        uint256[][] memory table = new uint256[][](12);
        for (uint256 i = 0; i < 12; ++i) {
            uint256 dice = uint256(keccak256(abi.encode(seed, i)));
            table[i] = i < 4 ? list(A, A, A) : list(dice % 4, (dice >> 8) % 4, (dice >> 16) % 4);
        }
        vote(R, 1, table);
        _claimedIs(3 + 4 + 5);
        enter(R + 6);
        _claimedIs(3 + 4 + 5);
    }

    function _claimedIs(uint256 claimed) private view {
        eq(audits.roundTotals(R).claimed, claimed);
    }

    /// @dev In a fresh round: so many voters say so about the first of two batches.
    function _stage1(uint256 accepts, uint256 rejects, uint256 voids, uint256 abstains, bool accepted)
        private
    {
        uint256 round = rounds.currentRound() + 20;
        produce(round, 2);
        vote(round, 1, ballots(accepts, rejects, voids, abstains));
        enter(round + 3);
        uint256 first = indexOf(0, round);
        is_(first, accepted ? IAudits.State.Standing : IAudits.State.Disputed);
        no(audits.outcomeOf(first).inStage2 == accepted);
        eq(audits.roundTotals(round).claimed, accepts >= 2 ? 3 : 0);
        eq(audits.roundTotals(round).paidVerdicts, accepted ? accepts : 0);
    }
}

/// @dev With four accepts asked for: one short, nothing is accepted, and nothing counts.
contract AuditsFourAcceptsTest is AuditsTest {
    function defaults() internal pure override returns (IRounds.Parameters memory p) {
        p = super.defaults();
        p.minAccepts = 4;
    }

    function test_stage1_needsAsManyAcceptsAsTheNetworkAsksFor() public {
        produce(R, 2);
        vote(R, 1, ballots(3, 0, 0, 0));
        totalsAre(R, 0, 0);
        enter(R + 3);
        is_(indexOf(0, R), IAudits.State.Disputed);
        produce(R + 20, 2);
        vote(R + 20, 1, ballots(4, 0, 0, 0));
        totalsAre(R + 20, 3, 4);
        enter(R + 23);
        is_(indexOf(0, R + 20), IAudits.State.Standing);
    }

    /// @dev Two accepts in each stage are not four.
    function test_claimed_isCountedForEachStageAlone() public {
        produce(R, 2);
        vote(R, 1, ballots(3, 0, 0, 0));
        vote(R, 2, ballots(3, 0, 0, 0));
        totalsAre(R, 0, 0);
        enter(R + 6);
        is_(indexOf(0, R), IAudits.State.Void);
    }
}
