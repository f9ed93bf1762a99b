// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {IAudits} from "../src/interfaces/IAudits.sol";
import {IRounds} from "../src/interfaces/IRounds.sol";
import {Protocol} from "../src/libraries/Protocol.sol";
import {AuditsTest} from "./AuditsTest.sol";

/// @dev Revealing, and what it refuses. What the votes decide: see the tests of stage 1 and of disputes.
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
        uint256 start = rounds.windowStart(actors[5], R, 1);
        enter(R + 2);
        vm.expectEmit(address(audits));
        emit IAudits.VerdictsRevealed(actors[5], R, 1, start, word, REPORT, answersOf(1), SALT);
        revealWord(actors[5], R, 1, word);
        IAudits.Verdicts memory verdicts = audits.verdictsOf(actors[5], R, 1);
        eq(uint256(verdicts.ballot), uint256(IAudits.Ballot.Revealed));
        eq(verdicts.word, word);
        eq(verdicts.hash, 0);
        (bool revealed, uint256 shown) = audits.ballotOf(actors[5], R, 1);
        yes(revealed);
        eq(shown, word);
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

    /// @dev Who looked at nothing and said so has kept its promise: that is not the same as no ballot.
    function test_revealVerdicts_ofAbstentionsOnlyReadsAsRevealed() public {
        for (uint8 stage = 1; stage <= 2; ++stage) {
            enter(stage == 1 ? R + 1 : R + 4);
            commitAs(5, R, stage, list(O, O, O));
            enter(stage == 1 ? R + 2 : R + 5);
            revealAs(5, R, stage, list(O, O, O));
            IAudits.Verdicts memory verdicts = audits.verdictsOf(actors[5], R, stage);
            eq(uint256(verdicts.ballot), uint256(IAudits.Ballot.Revealed));
            eq(verdicts.word, 0);
            (bool revealed,) = audits.ballotOf(actors[5], R, stage);
            yes(revealed);
            eq(uint256(audits.verdictsOf(actors[6], R, stage).ballot), uint256(IAudits.Ballot.None));
        }
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
        totalsAre(R + 20, 3 + 4, 4);
    }

    function test_revealVerdicts_worksForTheOperator() public {
        commitAs(5, R, 1, list(A, A, A));
        vm.prank(actors[5]);
        nodes.setOperator(operator);
        enter(R + 2);
        uint256 word = wordOf(actors[5], R, 1, list(A, A, A));
        vm.prank(operator);
        audits.revealVerdicts(actors[5], R, 1, word, REPORT, answersOf(1), SALT);
    }

    // ---- what does not

    function test_revealVerdicts_revertsForAStranger() public {
        commitAs(5, R, 1, list(A, A, A));
        enter(R + 2);
        expectRevert(abi.encodeWithSelector(IRounds.NotOwnerOrOperator.selector, actors[5], stranger));
        vm.prank(stranger);
        audits.revealVerdicts(actors[5], R, 1, 21, REPORT, answersOf(1), SALT);
    }

    function testFuzz_revealVerdicts_worksInOneRoundOnly(uint256 late) public {
        late = late % 9;
        rounds.poke();
        commitWord(actors[5], R, 1, 21);
        enter(R + late);
        if (late != 2) {
            expectRevert(abi.encodeWithSelector(IAudits.NotInThisRound.selector, R + 2, R + late));
        }
        revealWord(actors[5], R, 1, 21);
    }

    function test_revealVerdicts_revertsForARoundBeyondAllNumbers() public {
        expectRevert(abi.encodeWithSelector(IAudits.NotInThisRound.selector, type(uint256).max, R + 1));
        revealWord(actors[5], type(uint256).max, 1, 0);
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

    function test_revealVerdicts_revertsForOtherVerdictsReportAnswersOrSalt() public {
        rounds.poke();
        commitWord(actors[5], R, 1, 21);
        enter(R + 2);
        for (uint256 i = 0; i < 4; ++i) {
            bytes memory answers = i == 3 ? bytes("") : answersOf(1);
            vm.expectPartialRevert(IAudits.WrongReveal.selector);
            vm.prank(actors[5]);
            audits.revealVerdicts(
                actors[5], R, 1, i == 0 ? 22 : 21, i == 1 ? SALT : REPORT, answers, i == 2 ? REPORT : SALT
            );
        }
    }

    /// @dev 256 answers about each batch of the window at most, and none in stage 2.
    function test_revealVerdicts_takesNoMoreAnswersThanThereCanBe() public {
        rounds.poke();
        uint256 most = 4 * 256 * rounds.windowOf(actors[5], R, 1).size;
        _revealWith(1, most + 1, most);
        _revealWith(1, most, most);
        enter(R + 4);
        _revealWith(2, 1, 0);
        _revealWith(2, 0, 0);
    }

    function _revealWith(uint8 stage, uint256 length, uint256 most) private {
        bytes memory answers = new bytes(length);
        uint256 before = vm.snapshotState();
        bytes32 dealer = rounds.poke();
        bytes32 acc = rounds.roundAt(R).acc;
        bytes32 hash =
            Protocol.verdictsHash(dealer, acc, actors[5], stage, 0, REPORT, keccak256(answers), SALT);
        vm.prank(actors[5]);
        audits.commitVerdicts(actors[5], R, stage, dealer, acc, hash);
        enter(stage == 1 ? R + 2 : R + 5);
        if (length > most) {
            expectRevert(abi.encodeWithSelector(IAudits.AnswersTooLong.selector, length, most));
        }
        vm.prank(actors[5]);
        audits.revealVerdicts(actors[5], R, stage, 0, REPORT, answers, SALT);
        if (length > most) vm.revertToState(before);
    }

    /// @dev The voter is in the hash: what another committed is of no use.
    function test_revealVerdicts_cannotBeCopied() public {
        bytes32 dealer = rounds.poke();
        bytes32 acc = rounds.roundAt(R).acc;
        bytes32 hash = hashOf(actors[5], R, 1, 21);
        bytes32 right = hashOf(actors[6], R, 1, 21);
        commitWord(actors[5], R, 1, 21);
        vm.prank(actors[6]);
        audits.commitVerdicts(actors[6], R, 1, dealer, acc, hash);
        enter(R + 2);
        revealWord(actors[5], R, 1, 21);
        expectRevert(abi.encodeWithSelector(IAudits.WrongReveal.selector, hash, right));
        revealWord(actors[6], R, 1, 21);
    }

    function testFuzz_revealVerdicts_revertsForBitsBeyondTheWindow(uint256 word, uint256 i, uint8 shift)
        public
    {
        i = i % 12;
        word >>= shift;
        uint256 size = 11;
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
