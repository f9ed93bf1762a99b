// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {IAudits} from "../src/interfaces/IAudits.sol";
import {INodes} from "../src/interfaces/INodes.sol";
import {IRounds} from "../src/interfaces/IRounds.sol";
import {Tallies} from "../src/libraries/Tallies.sol";
import {AuditsTest} from "./AuditsTest.sol";

contract AuditsRevealTest is AuditsTest {
    function setUp() public virtual override {
        super.setUp();
        produce(R, 3);
        enter(R + 1);
    }

    // ---- what works

    function test_revealVerdicts_isCountedStoredAndShown() public {
        uint256[] memory says = list(A, X, V);
        commitAs(5, R, 1, says);
        uint256 word = wordOf(actors[5], R, 1, says);
        enter(R + 2);
        vm.expectEmit(address(audits));
        emit IAudits.VerdictsRevealed(actors[5], R, 1, rounds.windowStart(actors[5], R, 1), word, REPORT);
        revealAs(5, R, 1, says);
        IAudits.Verdicts memory verdicts = audits.verdictsOf(actors[5], R, 1);
        eq(uint256(verdicts.ballot), uint256(IAudits.Ballot.Revealed));
        eq(verdicts.word, word);
        eq(verdicts.hash, 0);
        _votesAre(0, 1, 0, 0, 1);
        _votesAre(1, 0, 1, 0, 1);
        _votesAre(2, 0, 0, 1, 1);
    }

    function test_revealVerdicts_countsAbstentions() public {
        commitAs(5, R, 1, list(O, O, A));
        enter(R + 2);
        revealAs(5, R, 1, list(O, O, A));
        _votesAre(0, 0, 0, 0, 1);
        _votesAre(2, 1, 0, 0, 1);
    }

    function test_revealVerdicts_passesTheOwnBatchOver() public {
        commitAs(0, R, 1, list(A, X, X));
        enter(R + 2);
        revealAs(0, R, 1, list(A, X, X));
        _votesAre(0, 0, 0, 0, 0);
        _votesAre(1, 0, 1, 0, 1);
        _votesAre(2, 0, 1, 0, 1);
    }

    function test_revealVerdicts_worksForAnExitingAndAFinedVoter() public {
        // Actor 5 misses a batch and is fined while its verdicts wait.
        produce(R + 20, 2);
        enter(R + 20);
        commit(actors[5], R + 21, 1);
        enter(R + 21);
        commitAs(5, R + 20, 1, list(A, A));
        commitAs(6, R + 20, 1, list(A, A));
        vm.prank(actors[6]);
        nodes.requestExit();
        enter(R + 22);
        settle(5, R + 21, NO_BATCH);
        revealAs(5, R + 20, 1, list(A, A));
        revealAs(6, R + 20, 1, list(A, A));
        is_(indexOf(0, R + 20), IAudits.State.Pending);
        totalsAre(R + 20, 3 + 4, 0);
    }

    function test_revealVerdicts_worksForTheOperator() public {
        commitAs(5, R, 1, list(A, A, A));
        vm.prank(actors[5]);
        nodes.setOperator(operator);
        enter(R + 2);
        uint256 word = wordOf(actors[5], R, 1, list(A, A, A));
        vm.prank(operator);
        audits.revealVerdicts(actors[5], R, 1, word, REPORT, SALT);
    }

    // ---- what does not

    function test_revealVerdicts_revertsForAStranger() public {
        commitAs(5, R, 1, list(A, A, A));
        enter(R + 2);
        expectRevert(abi.encodeWithSelector(IRounds.NotOwnerOrOperator.selector, actors[5], stranger));
        vm.prank(stranger);
        audits.revealVerdicts(actors[5], R, 1, 21, REPORT, SALT);
    }

    function testFuzz_revealVerdicts_worksInOneRoundOnly(uint256 late) public {
        late = late % 9;
        commitAs(5, R, 1, list(A, A, A));
        enter(R + late);
        if (late != 2) {
            expectRevert(abi.encodeWithSelector(IAudits.NotInThisRound.selector, R + 2, R + late));
        }
        revealWord(actors[5], R, 1, 21);
    }

    function test_revealVerdicts_revertsForAnotherStage() public {
        expectRevert(abi.encodeWithSelector(IRounds.NoSuchStage.selector, 7));
        revealWord(actors[5], R, 7, 21);
    }

    function test_revealVerdicts_revertsWhenNothingWasCommitted() public {
        commitAs(5, R, 1, list(A, A, A));
        enter(R + 2);
        expectRevert(abi.encodeWithSelector(IAudits.NothingToReveal.selector, actors[6], R, 1));
        revealWord(actors[6], R, 1, 21);
    }

    function test_revealVerdicts_revertsTheSecondTime() public {
        commitAs(5, R, 1, list(A, A, A));
        enter(R + 2);
        revealAs(5, R, 1, list(A, A, A));
        expectRevert(abi.encodeWithSelector(IAudits.NothingToReveal.selector, actors[5], R, 1));
        revealWord(actors[5], R, 1, 21);
    }

    function test_revealVerdicts_revertsForOtherVerdictsReportOrSalt() public {
        commitAs(5, R, 1, list(A, A, A));
        enter(R + 2);
        for (uint256 i = 0; i < 3; ++i) {
            vm.expectPartialRevert(IAudits.WrongReveal.selector);
            vm.prank(actors[5]);
            audits.revealVerdicts(
                actors[5], R, 1, i == 0 ? 22 : 21, i == 1 ? SALT : REPORT, i == 2 ? REPORT : SALT
            );
        }
    }

    /// @dev The voter is in the hash: what another committed is of no use.
    function test_revealVerdicts_cannotBeCopied() public {
        rounds.poke();
        bytes32 hash = hashOf(actors[5], R, 1, 21);
        commitWord(actors[5], R, 1, 21);
        vm.prank(actors[6]);
        audits.commitVerdicts(actors[6], R, 1, hash);
        enter(R + 2);
        revealWord(actors[5], R, 1, 21);
        expectRevert(abi.encodeWithSelector(IAudits.WrongReveal.selector, hash, hashOf(actors[6], R, 1, 21)));
        revealWord(actors[6], R, 1, 21);
    }

    function testFuzz_revealVerdicts_revertsForBitsBeyondTheWindow(uint256 word, uint256 i) public {
        i = i % 12;
        uint256 size = i < 3 ? 2 : 3;
        rounds.poke();
        commitWord(actors[i], R, 1, word);
        enter(R + 2);
        if (word >> (2 * size) != 0) {
            expectRevert(abi.encodeWithSelector(IAudits.VerdictsTooLong.selector, word, size));
        }
        revealWord(actors[i], R, 1, word);
    }

    function test_revealVerdicts_revertsForASlashedVoter() public {
        commitAs(5, R, 1, list(A, A, A));
        vm.prank(address(audits));
        nodes.slash(actors[5], payable(stranger), 0);
        enter(R + 2);
        expectRevert(abi.encodeWithSelector(IRounds.NodeNotBonded.selector, actors[5]));
        revealWord(actors[5], R, 1, 21);
    }

    // ---- stage 1 stands

    function test_stage1_acceptsWithTwoAcceptsAndNothingElse() public {
        _stage1(3, 0, 0, 0, true);
        _stage1(2, 0, 0, 0, true);
        _stage1(1, 0, 0, 0, false);
        _stage1(0, 0, 0, 0, false);
    }

    function test_stage1_oneRejectOrVoidDisputes() public {
        _stage1(8, 1, 0, 0, false);
        _stage1(8, 0, 1, 0, false);
    }

    function test_stage1_countsAbstentionsInTheDenominator() public {
        _stage1(2, 0, 0, 1, true);
        _stage1(2, 0, 0, 2, false);
        _stage1(6, 0, 0, 3, true);
        _stage1(6, 0, 0, 4, false);
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
        revealAs(4, R, 1, list(A, O, O));
        totalsAre(R, 0, 0);
        expectOutcome(index, R, Tallies.Outcome.Void, Tallies.Outcome.Accepted);
        revealAs(5, R, 1, list(A, O, O));
        totalsAre(R, 3, 0);
        expectOutcome(index, R, Tallies.Outcome.Accepted, Tallies.Outcome.Void);
        revealAs(6, R, 1, list(X, O, O));
        totalsAre(R, 0, 0);
    }

    /// @dev Only voters with a batch of their own in the round divide the auditors' share.
    function test_stage1_paysVotersWithABatchOfTheirOwn() public {
        voteAlike(R, 1, 6, list(A, A, A));
        totalsAre(R, 3 + 4 + 5, 6);
    }

    /// @dev In a fresh round: so many voters say so about the first of two batches.
    function _stage1(uint256 accepts, uint256 rejects, uint256 voids, uint256 abstains, bool accepted)
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
        vote(round, 1, table);
        enter(round + 3);
        is_(indexOf(0, round), accepted ? IAudits.State.Standing : IAudits.State.Disputed);
        eq(audits.roundTotals(round).scoreTotal, accepted ? 3 : 0);
        // Actor 1 alone has a batch of its own among those that vote about the first.
        eq(audits.roundTotals(round).paidVerdicts, accepted ? 1 : 0);
    }

    function _votesAre(uint256 i, uint256 accepts, uint256 rejects, uint256 voids, uint256 revealed)
        private
        view
    {
        IAudits.Votes memory votes = audits.outcomeOf(indexOf(i, R)).stage1;
        eq(votes.accepts, accepts);
        eq(votes.rejects, rejects);
        eq(votes.voids, voids);
        eq(votes.revealed, revealed);
        eq(audits.outcomeOf(indexOf(i, R)).stage2.revealed, 0);
    }
}
