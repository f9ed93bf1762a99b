// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {IAudits} from "./interfaces/IAudits.sol";
import {INodes} from "./interfaces/INodes.sol";
import {IRounds} from "./interfaces/IRounds.sol";
import {Tallies, Tally} from "./libraries/Tallies.sol";

/// @title What all parts of `Audits` stand on: parameters, tallies, totals, the clock, and slashing
/// @dev Totals are kept, not computed: whatever changes a batch's tally takes the old contribution of the batch out of
/// its round's totals and puts the new one in (`_change`).
abstract contract AuditsBase is IAudits {
    /// @dev Rounds after its own in which a batch is final.
    uint256 internal constant FINAL = 6;

    /// @dev Shares of what is taken, in ten-thousandths.
    uint256 internal constant PROVERS_SHARE = 2_500;
    uint256 internal constant CALLERS_SHARE = 1_000;

    /// @dev Of a tally: see there.
    uint256 private constant HALF_BITS = 128;
    uint256 private constant HALF_MASK = (1 << HALF_BITS) - 1;

    /// @dev The index of debts that are about no batch.
    uint256 internal constant NO_BATCH = type(uint256).max;

    /// @dev `hasStage2`: whether any verdict of stage 2 was revealed.
    struct Totals {
        uint120 score;
        uint120 paid;
        bool hasStage2;
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

    /// @dev How many rounds of a voter's verdicts of stage 1 share one word: most reveals then change a word that is not
    /// zero, which is cheap.
    uint256 private immutable BALLOTS_PER_WORD;
    uint256 private immutable BALLOT_BITS;

    /// @dev Halves of tallies, those of two neighbours in a word: most votes then change a word that another vote has
    /// changed already. The lower halves, then the upper ones, which only batches in stage 2 have.
    mapping(uint256 pair => uint256) private _lowerTallies;
    mapping(uint256 pair => uint256) private _upperTallies;

    mapping(uint256 round => Totals) internal _totals;
    mapping(uint256 index => address) internal _disputers;

    /// @dev The last commitments, by stage and whether the round is odd: `Rounds` says which of them wait. Two rounds
    /// later one had to be revealed, or its voter can commit to nothing.
    mapping(address voter => mapping(uint256 place => bytes32)) private _commitments;

    /// @dev Verdicts that were revealed, of stage 1 and of stage 2.
    mapping(address voter => mapping(uint256 word => uint256)) private _ballots1;
    mapping(address voter => mapping(uint256 round => uint256)) private _ballots2;

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
        BALLOT_BITS = 2 * p.draws;
        BALLOTS_PER_WORD = 256 / BALLOT_BITS;
    }

    // ---- tallies and totals

    /// @dev All of a tally while stage 2 is not about its batch, or has not begun.
    function _lowerOf(uint256 index) internal view returns (Tally) {
        unchecked {
            return Tally.wrap((_lowerTallies[index >> 1] >> ((index & 1) * HALF_BITS)) & HALF_MASK);
        }
    }

    function _withUpper(uint256 index, Tally lower) private view returns (Tally) {
        unchecked {
            uint256 upper = _upperTallies[index >> 1] >> ((index & 1) * HALF_BITS);
            return Tally.wrap(Tally.unwrap(lower) | upper << HALF_BITS);
        }
    }

    function _tallyOf(uint256 index, Tallies.Least memory least) internal view returns (Tally tally) {
        tally = _lowerOf(index);
        if (tally.inStage2(least)) tally = _withUpper(index, tally);
    }

    function _outcomeOf(uint256 index, Tallies.Least memory least)
        internal
        view
        returns (Tallies.Outcome outcome, uint256 lastStage)
    {
        Tally tally = _lowerOf(index);
        (outcome,, lastStage) = tally.outcome(least);
        if (lastStage == 2) (outcome,,) = _withUpper(index, tally).outcome(least);
    }

    function _tallyOf(uint256 index) internal view returns (Tally) {
        return _tallyOf(index, _least());
    }

    function _changeOne(uint256 index, uint256 round, Tally from, Tally to) internal {
        Totals memory totals = _totals[round];
        _change(index, round, from, to, totals, _least());
        _totals[round] = totals;
    }

    /// @dev Stores a batch's new tally, and what that changes in its round's totals, which the caller stores.
    function _change(
        uint256 index,
        uint256 round,
        Tally from,
        Tally to,
        Totals memory totals,
        Tallies.Least memory least
    ) internal {
        _storeTally(index, Tally.unwrap(from) ^ Tally.unwrap(to));
        (Tallies.Outcome before, uint256 paidBefore,) = from.outcome(least);
        (Tallies.Outcome outcome, uint256 paid,) = to.outcome(least);
        unchecked {
            // forge-lint: disable-next-line(unsafe-typecast) counts of verdicts stay far below 2**120
            totals.paid = uint120(totals.paid + paid - paidBefore);
        }
        if (outcome == before) return;
        // forge-lint: disable-next-line(unsafe-typecast) a claim has at most 256 ones
        if (before == Tallies.Outcome.Accepted) totals.score -= uint120(ROUNDS.scoreOf(index));
        // forge-lint: disable-next-line(unsafe-typecast) a claim has at most 256 ones
        if (outcome == Tallies.Outcome.Accepted) totals.score += uint120(ROUNDS.scoreOf(index));
        emit BatchOutcomeChanged(index, round, before, outcome);
    }

    /// @param changed The bits of the batch's tally that change
    function _storeTally(uint256 index, uint256 changed) private {
        unchecked {
            uint256 shift = (index & 1) * HALF_BITS;
            uint256 half = changed & HALF_MASK;
            if (half != 0) _lowerTallies[index >> 1] ^= half << shift;
            half = changed >> HALF_BITS;
            if (half != 0) _upperTallies[index >> 1] ^= half << shift;
        }
    }

    /// @dev Takes a node's whole bond, and voids its batches that are not final: those of six rounds at most.
    function _slash(address node, uint256 current, address payable beneficiary, uint256 share) internal {
        uint256 first = current < FINAL ? 0 : current - FINAL + 1;
        uint256[] memory batches = ROUNDS.batchesOf(node, first, current);
        for (uint256 i = 0; i < batches.length; ++i) {
            if (batches[i] != 0) _void(batches[i] - 1, node, first + i, current);
        }
        NODES.slash(node, beneficiary, share);
    }

    function _void(uint256 index, address node, uint256 round, uint256 current) private {
        Tally tally = _tallyOf(index);
        if (tally.isClosed()) return;
        emit BatchVoided(node, round, index);
        _changeOne(index, round, tally, tally.closed(false, _isBeforeStage2(round, current)));
    }

    function _least() internal view returns (Tallies.Least memory) {
        return Tallies.Least({accepts: MIN_ACCEPTS, rejects: MIN_REJECTS});
    }

    // ---- ballots

    function _commitmentOf(address voter, uint256 round, uint8 stage) internal view returns (bytes32) {
        return _commitments[voter][_place(round, stage)];
    }

    function _storeCommitment(address voter, uint256 round, uint8 stage, bytes32 hash) internal {
        _commitments[voter][_place(round, stage)] = hash;
    }

    /// @dev The verdicts that were revealed; 0 if none were.
    function _revealedOf(address voter, uint256 round, uint8 stage) internal view returns (uint256) {
        if (stage == 2) return _ballots2[voter][round];
        unchecked {
            uint256 word = _ballots1[voter][round / BALLOTS_PER_WORD];
            return (word >> (BALLOT_BITS * (round % BALLOTS_PER_WORD))) & ((1 << BALLOT_BITS) - 1);
        }
    }

    /// @param changed The bits of the verdicts that change
    function _changeBallot(address voter, uint256 round, uint8 stage, uint256 changed) internal {
        if (stage == 2) {
            _ballots2[voter][round] ^= changed;
            return;
        }
        unchecked {
            _ballots1[voter][round / BALLOTS_PER_WORD] ^= changed
                << (BALLOT_BITS * (round % BALLOTS_PER_WORD));
        }
    }

    function _place(uint256 round, uint8 stage) private pure returns (uint256) {
        return (uint256(stage) << 1) | (round & 1);
    }

    // ---- how a batch fares

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

    function _checkBonded(address node) internal view {
        (INodes.State state,) = _checkCaller(node);
        if (!_isBonded(state)) revert IRounds.NodeNotBonded(node);
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

    function _checkFinal(uint256 round, uint256 current) internal pure {
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

    /// @dev For messages, about any number that a caller may give.
    function _sum(uint256 left, uint256 right) private pure returns (uint256) {
        return left > type(uint256).max - right ? type(uint256).max : left + right;
    }
}
