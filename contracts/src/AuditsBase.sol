// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {IAudits} from "./interfaces/IAudits.sol";
import {INodes} from "./interfaces/INodes.sol";
import {IRounds} from "./interfaces/IRounds.sol";
import {Lanes} from "./libraries/Lanes.sol";
import {Tallies, Tally} from "./libraries/Tallies.sol";

/// @title What all parts of `Audits` stand on: parameters, tallies, totals, the clock, and slashing
/// @dev Totals are kept, not computed: whatever changes a batch's tally takes the old contribution of the batch out of
/// its round's totals and puts the new one in (`_change`).
abstract contract AuditsBase is IAudits {
    using Lanes for uint256;

    /// @dev Rounds after its own in which a batch is final.
    uint256 internal constant FINAL = 6;

    /// @dev Shares of what is taken, in ten-thousandths.
    uint256 internal constant PROVERS_SHARE = 2_500;
    uint256 internal constant CALLERS_SHARE = 1_000;

    /// @dev Lanes of a node's account: verdicts that wait to be revealed have their stage's number.
    uint256 internal constant SETTLED_MISSES = 0;

    /// @dev The index of debts that are about no batch.
    uint256 internal constant NO_BATCH = type(uint256).max;

    struct Totals {
        uint128 score;
        uint128 paid;
    }

    /// @inheritdoc IAudits
    INodes public immutable NODES;

    /// @inheritdoc IAudits
    IRounds public immutable ROUNDS;

    uint256 internal immutable GROUP_SIZE;
    uint256 internal immutable MAX_NEW_TOKENS;
    uint256 internal immutable MIN_ACCEPTS;
    uint256 internal immutable MIN_REJECTS;
    uint256 internal immutable DISPUTE_BOND;
    uint256 internal immutable MISSED_BATCH_FEE;
    uint256 internal immutable MISSED_REVEAL_FEE;
    uint256 internal immutable WRONG_VERDICT_PENALTY;

    mapping(uint256 index => Tally) internal _tallies;
    mapping(uint256 round => Totals) internal _totals;
    mapping(uint256 index => address) internal _disputers;

    /// @dev Lanes of rounds: see `Lanes`.
    mapping(address node => uint256) internal _accounts;

    /// @dev By voter and 2 * round + stage: the commitment while the account says that it waits, else the verdicts.
    mapping(address voter => mapping(uint256 key => uint256)) internal _ballots;

    constructor(IRounds rounds, Terms memory terms_) {
        IRounds.Parameters memory p = rounds.parameters();
        INodes nodes = rounds.NODES();
        uint256 bond = nodes.BOND();
        bool valid = terms_.missedBatchFee <= bond && terms_.missedRevealFee <= bond
            && terms_.wrongVerdictPenalty <= bond && nodes.AUDITS() == address(this);
        if (!valid) revert InvalidTerms(terms_, bond, nodes.AUDITS());
        NODES = nodes;
        ROUNDS = rounds;
        GROUP_SIZE = p.groupSize;
        MAX_NEW_TOKENS = p.maxNewTokens;
        MIN_ACCEPTS = p.minAccepts;
        MIN_REJECTS = p.minRejects;
        DISPUTE_BOND = terms_.disputeBond;
        MISSED_BATCH_FEE = terms_.missedBatchFee;
        MISSED_REVEAL_FEE = terms_.missedRevealFee;
        WRONG_VERDICT_PENALTY = terms_.wrongVerdictPenalty;
    }

    // ---- tallies and totals

    function _changeOne(uint256 index, uint256 round, Tally from, Tally to) internal {
        Totals memory totals = _totals[round];
        _change(index, round, from, to, totals);
        _totals[round] = totals;
    }

    /// @dev Stores a batch's new tally, and what that changes in its round's totals, which the caller stores.
    function _change(uint256 index, uint256 round, Tally from, Tally to, Totals memory totals) internal {
        Tallies.Least memory least = _least();
        (Tallies.Outcome before, uint256 paidBefore,) = from.outcome(least);
        (Tallies.Outcome outcome, uint256 paid,) = to.outcome(least);
        _tallies[index] = to;
        // forge-lint: disable-next-line(unsafe-typecast) counts of verdicts stay far below 2**128
        totals.paid = totals.paid + uint128(paid) - uint128(paidBefore);
        if (outcome == before) return;
        // forge-lint: disable-next-line(unsafe-typecast) a claim has at most 256 ones
        if (before == Tallies.Outcome.Accepted) totals.score -= uint128(ROUNDS.scoreOf(index));
        // forge-lint: disable-next-line(unsafe-typecast) a claim has at most 256 ones
        if (outcome == Tallies.Outcome.Accepted) totals.score += uint128(ROUNDS.scoreOf(index));
        emit BatchOutcomeChanged(index, round, before, outcome);
    }

    /// @dev Takes a node's whole bond, and voids its batches that are not final: those of six rounds at most.
    function _slash(address node, uint256 current, address payable beneficiary, uint256 share) internal {
        for (uint256 round = current < FINAL ? 0 : current - FINAL + 1; round <= current; ++round) {
            (bool exists, uint256 index) = ROUNDS.batchOf(node, round);
            if (!exists) continue;
            Tally tally = _tallies[index];
            if (tally.isClosed()) continue;
            emit BatchVoided(node, round, index);
            _changeOne(index, round, tally, tally.closed(false, _isBeforeStage2(round, current)));
        }
        NODES.slash(node, beneficiary, share);
    }

    function _least() internal view returns (Tallies.Least memory) {
        return Tallies.Least({accepts: MIN_ACCEPTS, rejects: MIN_REJECTS});
    }

    function _stateOf(Tally tally, uint256 round, uint256 current) internal view returns (State) {
        (Tallies.Outcome outcome,, uint256 lastStage) = tally.outcome(_least());
        if (tally.isClosed() || _isFinal(round, current)) {
            if (outcome == Tallies.Outcome.Accepted) return State.Accepted;
            if (outcome == Tallies.Outcome.Rejected) return State.Rejected;
            return outcome == Tallies.Outcome.ProvenFalse ? State.ProvenFalse : State.Void;
        }
        if (current < round + 3) return State.Pending;
        return lastStage == 1 ? State.Standing : State.Disputed;
    }

    // ---- who and when

    function _checkCaller(address node) internal view returns (INodes.State state, bool isFull) {
        address operator;
        (operator, state, isFull) = NODES.standingOf(node);
        if (msg.sender != node && msg.sender != operator) {
            revert IRounds.NotOwnerOrOperator(node, msg.sender);
        }
    }

    function _isBonded(INodes.State state) internal pure returns (bool) {
        return state == INodes.State.Registered || state == INodes.State.Exiting;
    }

    /// @dev Something about a round can be done in one round only, so many after it.
    function _checkRound(uint256 round, uint256 later, uint256 current) internal pure {
        if (current < later || current - later != round) revert NotInThisRound(_sum(round, later), current);
    }

    function _isFinal(uint256 round, uint256 current) internal pure returns (bool) {
        return current >= FINAL && current - FINAL >= round;
    }

    function _checkFinal(uint256 round) internal view {
        uint256 current = ROUNDS.currentRound();
        if (!_isFinal(round, current)) revert NotFinal(_sum(round, FINAL), current);
    }

    function _isBeforeStage2(uint256 round, uint256 current) internal pure returns (bool) {
        return current < round + 4;
    }

    /// @dev In which round after its own a batch's window of a stage is dealt; verdicts are revealed in the next.
    function _dealtIn(uint8 stage) internal pure returns (uint256) {
        if (stage != 1 && stage != 2) revert IRounds.NoSuchStage(stage);
        return stage == 1 ? 1 : 4;
    }

    function _hasOverdueReveal(uint256 account, uint256 current) internal pure returns (bool) {
        return (current > 2 && account.hasBefore(1, current - 2))
            || (current > 5 && account.hasBefore(2, current - 5));
    }

    function _isOverdueReveal(uint256 account, uint256 round, uint8 stage, uint256 current)
        internal
        pure
        returns (bool)
    {
        return account.has(stage, round) && current > round + _dealtIn(stage) + 1;
    }

    function _key(uint256 round, uint8 stage) internal pure returns (uint256) {
        return 2 * round + stage;
    }

    /// @dev For messages, about any number that a caller may give.
    function _sum(uint256 left, uint256 right) private pure returns (uint256) {
        return left > type(uint256).max - right ? type(uint256).max : left + right;
    }
}
