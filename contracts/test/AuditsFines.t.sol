// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {IAudits} from "../src/interfaces/IAudits.sol";
import {IDisputes} from "../src/interfaces/IDisputes.sol";
import {AuditsTest} from "./AuditsTest.sol";

/// @dev Which verdicts cost their voter a penalty, when the batch is final. (What is proven false: see there.)
contract AuditsFinesTest is AuditsTest {
    uint256 private index;

    function setUp() public override {
        super.setUp();
        produce(R, 3);
        index = indexOf(0, R);
    }

    // ---- rejects

    /// @dev In both stages, as soon as accepts are two thirds: four of six.
    function test_wrongReject_isFinedWhenTheBatchIsAccepted() public {
        vote(R, 1, ballots(0, 2, 0, 9));
        vote(R, 2, _second(4, 2));
        owesNothing(10, R, index);
        enter(R + 6);
        is_(index, IAudits.State.Accepted);
        // Of the two that rejected in stage 1 each accepted in stage 2.
        _owes(1, 1);
        _owes(2, 1);
        // Those who rejected in stage 2 had abstained in stage 1.
        _owes(10, 1);
        _owes(11, 1);
        owesNothing(5, R, index);
        for (uint256 i = 3; i < 5; ++i) {
            owesNothing(i, R, index);
        }
        owesNothing(0, R, index);
    }

    function test_wrongReject_isFinedOnceForEachStage() public {
        uint256[][] memory table = new uint256[][](12);
        for (uint256 i = 1; i < 12; ++i) {
            table[i] = i == 1 ? list(X, O) : list(A, O);
        }
        vote(R, 1, table);
        vote(R, 2, table);
        enter(R + 6);
        is_(index, IAudits.State.Accepted);
        vm.expectEmit(address(disputes));
        emit IDisputes.Settled(actors[1], R, index, IDisputes.Debt.WrongVerdict, 1, WRONG_VERDICT, stranger);
        vm.expectEmit(address(disputes));
        emit IDisputes.Settled(actors[1], R, index, IDisputes.Debt.WrongVerdict, 2, WRONG_VERDICT, stranger);
        settle(1, R, index);
        eq(bondOf(1), BOND - 2 * WRONG_VERDICT);
        owesNothing(1, R, index);
        // A ballot whose verdict was taken out is a ballot still.
        IAudits.Verdicts memory verdicts = audits.verdictsOf(actors[1], R, 1);
        eq(uint256(verdicts.ballot), uint256(IAudits.Ballot.Revealed));
        eq(verdicts.word, 0);
        // Wrong verdicts are no commitments: nobody is blocked by them.
        yes(audits.settled(actors[1]));
    }

    /// @dev Three of five accept: that is no two thirds, the batch is void, and nobody was badly wrong.
    function test_wrongReject_costsNothingWhenTheBatchIsVoid() public {
        vote(R, 1, ballots(3, 2, 0, 0));
        vote(R, 2, ballots(3, 2, 0, 0));
        enter(R + 6);
        is_(index, IAudits.State.Void);
        _nobodyOwes();
    }

    // ---- accepts

    /// @dev Who recomputes a sample honestly can miss one false completion: that is no fault. Stage 2 recomputes all.
    function test_acceptOfStage1_costsNothingWhenRejected() public {
        vote(R, 1, ballots(6, 1, 0, 0));
        vote(R, 2, ballots(0, 8, 0, 0));
        enter(R + 6);
        is_(index, IAudits.State.Rejected);
        for (uint256 i = 1; i < 12; ++i) {
            owesNothing(i, R, index);
        }
    }

    function test_acceptOfStage2_isFinedWhenRejected() public {
        uint256[][] memory table = new uint256[][](12);
        for (uint256 i = 1; i < 12; ++i) {
            table[i] = i == 1 ? list(A, O) : i == 2 ? list(V, O) : list(X, O);
        }
        vote(R, 1, table);
        vote(R, 2, table);
        enter(R + 6);
        is_(index, IAudits.State.Rejected);
        vm.expectEmit(address(disputes));
        emit IDisputes.Settled(actors[1], R, index, IDisputes.Debt.WrongVerdict, 2, WRONG_VERDICT, stranger);
        settle(1, R, index);
        eq(bondOf(1), BOND - WRONG_VERDICT);
        owesNothing(1, R, index);
        owesNothing(2, R, index);
        owesNothing(3, R, index);
        eq(audits.verdictsOf(actors[1], R, 2).word, 0);
        yes(audits.verdictsOf(actors[1], R, 1).word != 0);
    }

    /// @dev The slash of the node changes nothing of that.
    function test_acceptOfStage2_isFinedBeforeAndAfterTheSlash() public {
        vote(R, 2, ballots(2, 8, 0, 0));
        enter(R + 6);
        _owes(1, 1);
        settle(0, R, index);
        _owes(2, 1);
    }

    // ---- what was disputed for answers only

    function test_answersDisputed_rejectsAreFinedWhenTwoThirdsAccept() public {
        _disputedForAnswers();
        vote(R, 2, ballots(8, 3, 0, 0));
        enter(R + 6);
        is_(index, IAudits.State.Accepted);
        for (uint256 i = 9; i < 12; ++i) {
            _owes(i, 1);
        }
        owesNothing(1, R, index);
    }

    /// @dev It stands, as too few rejected it; but who found its answers false was not voted down either.
    function test_answersDisputed_rejectsCostNothingWhenFewerThanTwoThirdsAccept() public {
        _disputedForAnswers();
        vote(R, 2, ballots(4, 7, 0, 0));
        enter(R + 6);
        is_(index, IAudits.State.Accepted);
        _nobodyOwes();
    }

    function test_answersDisputed_voidsCostNobodyAnything() public {
        _disputedForAnswers();
        vote(R, 2, ballots(0, 0, 11, 0));
        enter(R + 6);
        is_(index, IAudits.State.Accepted);
        _nobodyOwes();
    }

    // ---- voids

    /// @dev A void costs nobody anything, whatever was said.
    function test_void_costsNobodyAnything() public {
        uint256[][] memory table = new uint256[][](4);
        (table[1], table[2], table[3]) = (list(A, O), list(X, O), list(V, O));
        vote(R, 1, table);
        vote(R, 2, table);
        enter(R + 6);
        _nobodyOwes();
    }

    /// @dev Nor does a void about what the others saw.
    function test_void_isNeverWrong() public {
        vote(R, 1, ballots(10, 0, 1, 0));
        enter(R + 6);
        is_(index, IAudits.State.Accepted);
        _nobodyOwes();
        produce(R + 20, 2);
        vote(R + 20, 2, ballots(0, 8, 3, 0));
        enter(R + 26);
        is_(indexOf(0, R + 20), IAudits.State.Rejected);
        for (uint256 i = 1; i < 12; ++i) {
            owesNothing(i, R + 20, indexOf(0, R + 20));
        }
    }

    // ---- doing it

    /// @dev Accepts from actor 1 on, rejects up to actor 11.
    function _second(uint256 accepts, uint256 rejects) private pure returns (uint256[][] memory table) {
        table = new uint256[][](12);
        for (uint256 i = 1; i <= accepts; ++i) {
            table[i] = list(A, O);
        }
        for (uint256 i = 0; i < rejects; ++i) {
            table[11 - i] = list(X, O);
        }
    }

    function _disputedForAnswers() private {
        voteAlike(R, 1, 12, list(A, A, A));
        enter(R + 3);
        dispute(index, index + 1);
    }

    function _owes(uint256 i, uint256 penalties) private {
        uint256 before = bondOf(i);
        uint256 paid = stranger.balance;
        settle(i, R, index);
        eq(before - bondOf(i), penalties * WRONG_VERDICT);
        eq(stranger.balance - paid, penalties * WRONG_VERDICT / 10);
        owesNothing(i, R, index);
    }

    function _nobodyOwes() private {
        for (uint256 i = 0; i < 12; ++i) {
            owesNothing(i, R, index);
        }
    }
}
