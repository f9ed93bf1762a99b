// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {Audits} from "../src/Audits.sol";
import {IAudits} from "../src/interfaces/IAudits.sol";
import {IBeacon} from "../src/interfaces/IBeacon.sol";
import {INodes} from "../src/interfaces/INodes.sol";
import {IRounds} from "../src/interfaces/IRounds.sol";
import {AuditsTest} from "./AuditsTest.sol";

contract AuditsCommitTest is AuditsTest {
    bytes32 private constant HASH = keccak256("hash");

    function setUp() public override {
        super.setUp();
        produce(R, 3);
        enter(R + 1);
    }

    // ---- construction

    function test_constructor_keepsItsTerms() public view {
        IAudits.Terms memory terms = audits.terms();
        eq(terms.disputeBond, DISPUTE_BOND);
        eq(terms.missedBatchFee, MISSED_BATCH);
        eq(terms.missedRevealFee, MISSED_REVEAL);
        eq(terms.wrongVerdictPenalty, WRONG_VERDICT);
        eq(address(audits.NODES()), address(nodes));
        eq(address(audits.ROUNDS()), address(rounds));
        eq(nodes.AUDITS(), address(audits));
    }

    function test_constructor_revertsWhenNodesNamesAnotherContract() public {
        expectRevert(
            abi.encodeWithSelector(IAudits.InvalidTerms.selector, defaultTerms(), BOND, address(audits))
        );
        new Audits(rounds, defaultTerms());
    }

    function test_constructor_revertsWhenAFeeIsMoreThanABond() public {
        for (uint256 i = 0; i < 3; ++i) {
            IAudits.Terms memory terms = defaultTerms();
            if (i == 0) terms.missedBatchFee = BOND + 1;
            if (i == 1) terms.missedRevealFee = BOND + 1;
            if (i == 2) terms.wrongVerdictPenalty = BOND + 1;
            expectRevert(abi.encodeWithSelector(IAudits.InvalidTerms.selector, terms, BOND, address(audits)));
            new Audits(rounds, terms);
        }
    }

    // ---- what works

    function test_commitVerdicts_isStoredAndShown() public {
        vm.expectEmit(address(audits));
        emit IAudits.VerdictsCommitted(actors[5], R, 1, HASH);
        _commit(5, R, 1, HASH);
        IAudits.Verdicts memory verdicts = audits.verdictsOf(actors[5], R, 1);
        eq(uint256(verdicts.ballot), uint256(IAudits.Ballot.Committed));
        eq(verdicts.hash, HASH);
        eq(verdicts.word, 0);
        eq(uint256(audits.verdictsOf(actors[5], R, 2).ballot), uint256(IAudits.Ballot.None));
        eq(uint256(audits.verdictsOf(actors[4], R, 1).ballot), uint256(IAudits.Ballot.None));
    }

    function test_commitVerdicts_capturesTheBeaconThatDealsTheWindow() public {
        eq(rounds.beacon(R + 1), 0);
        _commit(5, R, 1, HASH);
        yes(rounds.beacon(R + 1) != 0);
        enter(R + 4);
        eq(rounds.beacon(R + 4), 0);
        _commit(6, R, 2, HASH);
        yes(rounds.beacon(R + 4) != 0);
    }

    function test_commitVerdicts_worksForTheOperator() public {
        vm.prank(actors[5]);
        nodes.setOperator(operator);
        vm.prank(operator);
        audits.commitVerdicts(actors[5], R, 1, HASH);
    }

    function test_commitVerdicts_worksForBothStagesInOneRound() public {
        enter(R + 3);
        commit(actors[0], R + 4, 1);
        enter(R + 4);
        submit(actors[0], R + 4, 1);
        _commit(5, R, 2, HASH);
        enter(R + 5);
        _commit(6, R + 4, 1, HASH);
        expectRevert(abi.encodeWithSelector(IAudits.NotInThisRound.selector, R + 4, R + 5));
        _commit(6, R, 2, HASH);
    }

    // ---- what does not

    /// @dev What voters promise is kept in `Rounds`, which takes it from `Audits` alone.
    function testFuzz_promises_areTakenFromAuditsOnly(address caller) public {
        vm.assume(caller != address(audits));
        bytes memory refused = abi.encodeWithSelector(INodes.NotAudits.selector, caller);
        expectRevert(refused);
        vm.prank(caller);
        rounds.promiseVerdicts(actors[5], R, 1);
        _commit(5, R, 1, HASH);
        expectRevert(refused);
        vm.prank(caller);
        rounds.redeemVerdicts(actors[5], R, 1);
        enter(R + 3);
        expectRevert(refused);
        vm.prank(caller);
        rounds.settlePromises(actors[5], R);
        yes(rounds.isPromised(actors[5], R, 1));
        no(rounds.isSettled(actors[5]));
    }

    function test_commitVerdicts_revertsWhenCommittedAlready() public {
        _commit(5, R, 1, HASH);
        expectRevert(abi.encodeWithSelector(IAudits.VerdictsAlreadyCommitted.selector, actors[5], R, 1));
        _commit(5, R, 1, keccak256("other"));
    }

    function test_commitVerdicts_revertsForAnotherStage() public {
        expectRevert(abi.encodeWithSelector(IRounds.NoSuchStage.selector, 0));
        _commit(5, R, 0, HASH);
        expectRevert(abi.encodeWithSelector(IRounds.NoSuchStage.selector, 3));
        _commit(5, R, 3, HASH);
        expectRevert(abi.encodeWithSelector(IRounds.NoSuchStage.selector, 3));
        audits.verdictsOf(actors[5], R, 3);
    }

    function testFuzz_commitVerdicts_worksInOneRoundOnly(uint256 late) public {
        late = late % 9;
        enter(R + late);
        for (uint8 stage = 1; stage <= 2; ++stage) {
            uint256 due = stage == 1 ? R + 1 : R + 4;
            if (R + late != due) {
                expectRevert(abi.encodeWithSelector(IAudits.NotInThisRound.selector, due, R + late));
            }
            _commit(5, R, stage, HASH);
        }
    }

    function test_commitVerdicts_revertsForARoundBeyondAllNumbers() public {
        expectRevert(abi.encodeWithSelector(IAudits.NotInThisRound.selector, type(uint256).max, R + 1));
        revealWord(actors[5], type(uint256).max, 1, 0);
    }

    function test_commitVerdicts_revertsForAStranger() public {
        expectRevert(abi.encodeWithSelector(IRounds.NotOwnerOrOperator.selector, actors[5], stranger));
        vm.prank(stranger);
        audits.commitVerdicts(actors[5], R, 1, HASH);
    }

    function test_commitVerdicts_revertsWhenNotRegistered() public {
        expectRevert(abi.encodeWithSelector(IRounds.NodeNotActive.selector, stranger));
        vm.prank(stranger);
        audits.commitVerdicts(stranger, R, 1, HASH);
    }

    function test_commitVerdicts_revertsWhenExiting() public {
        vm.prank(actors[5]);
        nodes.requestExit();
        expectRevert(abi.encodeWithSelector(IRounds.NodeNotActive.selector, actors[5]));
        _commit(5, R, 1, HASH);
    }

    function test_commitVerdicts_revertsWhenTheBondIsNotFull() public {
        enter(R);
        commit(actors[5], R + 1, 1);
        enter(R + 1);
        rounds.poke();
        enter(R + 2);
        commit(actors[0], R + 3, 1);
        enter(R + 3);
        submit(actors[0], R + 3, 1);
        settle(5, R + 1, NO_BATCH);
        enter(R + 4);
        expectRevert(abi.encodeWithSelector(IRounds.NodeNotActive.selector, actors[5]));
        _commit(5, R + 3, 1, HASH);
    }

    function test_commitVerdicts_revertsWhenRegisteredAfterTheRound() public {
        vm.roll(firstOf(R + 1) - 1);
        register(alice);
        vm.roll(firstOf(R + 1));
        register(bob);
        enter(R + 1);
        vm.prank(alice);
        audits.commitVerdicts(alice, R, 1, HASH);
        expectRevert(abi.encodeWithSelector(IAudits.RegisteredTooLate.selector, bob, R, firstOf(R + 1)));
        vm.prank(bob);
        audits.commitVerdicts(bob, R, 1, HASH);
    }

    function test_commitVerdicts_revertsForTheZeroHash() public {
        expectRevert(abi.encodeWithSelector(IAudits.ZeroCommitment.selector, actors[5], R, 1));
        _commit(5, R, 1, 0);
    }

    function test_commitVerdicts_revertsInTheFirstBlockWhenNobodyKnowsTheBeacon() public {
        vm.roll(firstOf(R + 1));
        expectRevert(abi.encodeWithSelector(IBeacon.TooEarly.selector, R + 1, firstOf(R + 1)));
        _commit(5, R, 1, HASH);
    }

    function test_commitVerdicts_revertsWhenTheRoundHasNoBatches() public {
        enter(R);
        expectRevert(abi.encodeWithSelector(IRounds.NoBatches.selector, R - 1));
        _commit(5, R - 1, 1, HASH);
    }

    function test_commitVerdicts_revertsWhenTheOnlyBatchIsTheVotersOwn() public {
        produce(R + 20, 1);
        enter(R + 21);
        expectRevert(abi.encodeWithSelector(IAudits.EmptyWindow.selector, actors[0], R + 20, 1));
        _commit(0, R + 20, 1, HASH);
        _commit(1, R + 20, 1, HASH);
    }

    function test_commitVerdicts_revertsInStage2WhenNothingIsDisputed() public {
        voteAlike(R, 1, 3, list(A, A, A));
        enter(R + 4);
        expectRevert(abi.encodeWithSelector(IAudits.EmptyWindow.selector, actors[5], R, 2));
        _commit(5, R, 2, HASH);
    }

    function test_commitVerdicts_ofStage2NeedsADisputedBatchOfAnother() public {
        uint256[][] memory table = new uint256[][](3);
        (table[0], table[1], table[2]) = (list(O, A, A), list(X, O, A), list(A, A, O));
        vote(R, 1, table);
        enter(R + 4);
        expectRevert(abi.encodeWithSelector(IAudits.EmptyWindow.selector, actors[0], R, 2));
        _commit(0, R, 2, HASH);
        _commit(1, R, 2, HASH);
    }

    function test_commitVerdicts_revertsWhileARevealIsOverdue() public {
        _commit(5, R, 1, HASH);
        enter(R + 2);
        produce(R + 3, 1);
        enter(R + 4);
        expectRevert(abi.encodeWithSelector(IRounds.NodeNotSettled.selector, actors[5]));
        _commit(5, R + 3, 1, HASH);
    }

    function _commit(uint256 i, uint256 round, uint8 stage, bytes32 hash) private {
        vm.prank(actors[i]);
        audits.commitVerdicts(actors[i], round, stage, hash);
    }
}
