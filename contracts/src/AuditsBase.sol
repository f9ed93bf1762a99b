// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {IAudits} from "./interfaces/IAudits.sol";
import {INodes} from "./interfaces/INodes.sol";
import {IRounds} from "./interfaces/IRounds.sol";
import {Tallies, Tally} from "./libraries/Tallies.sol";
import {Timetable} from "./libraries/Timetable.sol";

/// @title What all parts of `Audits` stand on: parameters, tallies, totals, the clock, and slashing
/// @dev Totals are kept, not computed: whatever changes a batch's tally takes the old contribution of the batch out of
/// its round's totals and puts the new one in (`_change`).
abstract contract AuditsBase is IAudits {
    /// @dev Of a tally: see there.
    uint256 private constant HALF_BITS = 128;
    uint256 private constant HALF_MASK = (1 << HALF_BITS) - 1;

    /// @dev The highest bit of a ballot of stage 2: it was revealed. (A window of stage 2 has 4 * 31 batches at most.)
    uint256 private constant REVEALED_2 = 1 << 255;

    /// @dev `hasStage2`: whether any verdict of stage 2 was revealed.
    struct Totals {
        uint120 claimed;
        uint120 paid;
        bool hasStage2;
    }

    /// @inheritdoc IAudits
    INodes public immutable NODES;

    /// @inheritdoc IAudits
    IRounds public immutable ROUNDS;

    uint256 internal immutable MIN_ACCEPTS;
    uint256 internal immutable MIN_REJECTS;

    /// @dev 4K: batches in a window of stage 2, and about so many voters of each batch.
    uint256 internal immutable DEALT_2;

    /// @dev How many rounds of a voter's verdicts of stage 1 share one word: most reveals then change a word that is not
    /// zero, which is cheap.
    uint256 private immutable BALLOTS_PER_WORD;
    uint256 private immutable BALLOT_BITS;
    uint256 private immutable REVEALED_1;

    /// @dev Halves of tallies, those of two neighbours in a word: most votes then change a word that another vote has
    /// changed already. The lower halves, then the upper ones, which only batches in stage 2 have.
    mapping(uint256 pair => uint256) private _lowerTallies;
    mapping(uint256 pair => uint256) private _upperTallies;

    mapping(uint256 round => Totals) internal _totals;

    /// @dev The last commitments, by stage and whether the round is odd: `Rounds` says which of them wait. Two rounds
    /// later one had to be revealed, or its voter can commit to nothing.
    mapping(address voter => mapping(uint256 place => bytes32)) private _commitments;

    /// @dev Verdicts that were revealed, of stage 1 and of stage 2.
    mapping(address voter => mapping(uint256 word => uint256)) private _ballots1;
    mapping(address voter => mapping(uint256 round => uint256)) private _ballots2;

    constructor(IRounds rounds) {
        IRounds.Parameters memory p = rounds.parameters();
        INodes nodes = rounds.NODES();
        if (nodes.AUDITS() != address(this)) revert NotTheAuditsOf(nodes.AUDITS());
        NODES = nodes;
        ROUNDS = rounds;
        MIN_ACCEPTS = p.minAccepts;
        MIN_REJECTS = p.minRejects;
        DEALT_2 = 4 * uint256(p.draws);
        REVEALED_1 = 1 << (2 * p.draws);
        BALLOT_BITS = 2 * p.draws + 1;
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

    function _changeOne(uint256 index, uint256 round, Tally from, Tally to) internal {
        Totals memory totals = _totals[round];
        _change(index, round, from, to, totals, _leastOf(round));
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
        if (outcome != before) emit BatchOutcomeChanged(index, round, before, outcome);
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
    function _slash(address node, address payable beneficiary, uint256 share) internal {
        uint256 current = ROUNDS.currentRound();
        uint256 first = current < Timetable.FINAL ? 0 : current - Timetable.FINAL + 1;
        uint256[] memory batches = ROUNDS.batchesOf(node, first, current);
        for (uint256 i = 0; i < batches.length; ++i) {
            if (batches[i] != 0) _void(batches[i] - 1, node, first + i, current);
        }
        NODES.slash(node, beneficiary, share);
    }

    function _void(uint256 index, address node, uint256 round, uint256 current) private {
        Tally tally = _tallyOf(index, _leastOf(round));
        if (tally.isClosed()) return;
        emit BatchVoided(node, round, index);
        _changeOne(index, round, tally, tally.closed(false, Timetable.isBeforeStage2(round, current)));
    }

    /// @param count How many batches the round has
    function _least(uint256 count) internal view returns (Tallies.Least memory) {
        uint256 others = count == 0 ? 0 : count - 1;
        return Tallies.Least({
            accepts: MIN_ACCEPTS, rejects: MIN_REJECTS, dealt: others < DEALT_2 ? others : DEALT_2
        });
    }

    function _leastOf(uint256 round) internal view returns (Tallies.Least memory) {
        return _least(ROUNDS.countOf(round));
    }

    // ---- ballots

    function _commitmentOf(address voter, uint256 round, uint8 stage) internal view returns (bytes32) {
        return _commitments[voter][_place(round, stage)];
    }

    function _storeCommitment(address voter, uint256 round, uint8 stage, bytes32 hash) internal {
        _commitments[voter][_place(round, stage)] = hash;
    }

    /// @dev What a voter revealed: abstentions only are a ballot, too.
    function _ballotOf(address voter, uint256 round, uint8 stage)
        internal
        view
        returns (bool revealed, uint256 verdicts)
    {
        uint256 mark;
        if (stage == 2) {
            (mark, verdicts) = (REVEALED_2, _ballots2[voter][round]);
        } else {
            mark = REVEALED_1;
            unchecked {
                uint256 word = _ballots1[voter][round / BALLOTS_PER_WORD];
                verdicts = (word >> (BALLOT_BITS * (round % BALLOTS_PER_WORD))) & ((1 << BALLOT_BITS) - 1);
            }
        }
        return (verdicts & mark != 0, verdicts & ~mark);
    }

    function _storeBallot(address voter, uint256 round, uint8 stage, uint256 verdicts) internal {
        _changeBallot(voter, round, stage, verdicts | (stage == 2 ? REVEALED_2 : REVEALED_1));
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

    function _stateOf(Tally tally, Tallies.Least memory least, uint256 round, uint256 current)
        internal
        pure
        returns (State)
    {
        (Tallies.Outcome outcome,, uint256 lastStage) = tally.outcome(least);
        if (tally.isClosed() || Timetable.isFinal(round, current)) {
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
}
