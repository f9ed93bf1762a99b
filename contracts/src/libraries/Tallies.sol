// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

/// @notice Everything that was voted and decided about one batch, in one word.
/// @dev From the lowest bit, 20 bits each, for stage 1: abstentions, accepts, rejects, voids, payable accepts, payable
/// rejects (the order of the verdicts' numbers, then those whose voters have a batch of their own in the round); then
/// the marks; from bit 128 on the same counts for stage 2. So what there is without a stage 2 is half a word. A million
/// votes on one batch would overflow a count: a million bonds.
type Tally is uint256;

using Tallies for Tally global;

/// @title How votes decide about a batch
/// @notice Pure functions of a batch's tally. What a batch is worth at any time (`outcome`) is how it would end if
/// nothing more happened: so no call is needed for a round to become final.
library Tallies {
    /// @notice How a batch ends.
    enum Outcome {
        Void,
        Accepted,
        Rejected,
        ProvenFalse
    }

    /// @param accepts Fewest accepts that accept a batch
    /// @param rejects Fewest rejects that reject a batch in stage 2
    struct Least {
        uint256 accepts;
        uint256 rejects;
    }

    uint256 internal constant ABSTAIN = 0;
    uint256 internal constant ACCEPT = 1;
    uint256 internal constant REJECT = 2;
    uint256 internal constant VOID = 3;

    /// @notice From so many accepts on, having rejected what ends accepted costs a penalty.
    uint256 internal constant SURE_ACCEPTS = 5;

    uint256 private constant BITS = 20;
    uint256 private constant MASK = (1 << BITS) - 1;
    uint256 private constant STAGE_BITS = 128;

    /// @dev Accepts and rejects that may be paid stand so far above all accepts and rejects.
    uint256 private constant PAYABLE_BITS = 3 * BITS;
    uint256 private constant PAYABLE_ACCEPTS = PAYABLE_BITS + BITS * ACCEPT;
    uint256 private constant PAYABLE_REJECTS = PAYABLE_BITS + BITS * REJECT;

    uint256 private constant REJECTS_AND_VOIDS = (1 << (4 * BITS)) - (1 << (2 * BITS));

    uint256 private constant MARKS_SHIFT = 6 * BITS;
    uint256 private constant PROVEN_FALSE = 1 << MARKS_SHIFT;
    uint256 private constant VOIDED = 2 << MARKS_SHIFT;
    uint256 private constant CLOSED_BEFORE_STAGE_2 = 4 << MARKS_SHIFT;
    uint256 private constant DISPUTED = 8 << MARKS_SHIFT;

    // ---- what happens to a batch

    /// @notice One more verdict.
    /// @param stage 1 or 2
    /// @param verdict 0 abstain, 1 accept, 2 reject, 3 void
    /// @param payable_ Whether the voter has a batch of its own in the round
    function counted(Tally tally, uint256 stage, uint256 verdict, bool payable_)
        internal
        pure
        returns (Tally)
    {
        unchecked {
            uint256 shift = STAGE_BITS * (stage - 1) + BITS * verdict;
            uint256 added = 1 << shift;
            if (payable_ && (verdict == ACCEPT || verdict == REJECT)) added |= 1 << (shift + PAYABLE_BITS);
            return Tally.wrap(Tally.unwrap(tally) + added);
        }
    }

    /// @notice Somebody disputed the batch.
    function disputed(Tally tally) internal pure returns (Tally) {
        return Tally.wrap(Tally.unwrap(tally) | DISPUTED);
    }

    /// @notice Its node was proven false with it, or slashed for another one: nothing changes that any more.
    /// @param provenFalse Whether this very batch was proven false
    /// @param early Whether stage 2 has not begun: then this batch is no part of it
    function closed(Tally tally, bool provenFalse, bool early) internal pure returns (Tally) {
        uint256 marks = (provenFalse ? PROVEN_FALSE : VOIDED) | (early ? CLOSED_BEFORE_STAGE_2 : 0);
        return Tally.wrap(Tally.unwrap(tally) | marks);
    }

    // ---- what is known about it

    /// @notice How many verdicts of a kind were revealed in a stage.
    function count(Tally tally, uint256 stage, uint256 verdict) internal pure returns (uint256) {
        unchecked {
            return (_votes(tally, stage) >> (BITS * verdict)) & MASK;
        }
    }

    /// @notice How many verdicts were revealed in a stage, abstentions counted.
    function revealed(Tally tally, uint256 stage) internal pure returns (uint256) {
        return _revealed(_votes(tally, stage));
    }

    /// @notice Whether the batch was proven false or voided.
    function isClosed(Tally tally) internal pure returns (bool) {
        return Tally.unwrap(tally) & (PROVEN_FALSE | VOIDED) != 0;
    }

    /// @notice Whether somebody disputed the batch.
    function isDisputed(Tally tally) internal pure returns (bool) {
        return Tally.unwrap(tally) & DISPUTED != 0;
    }

    /// @notice Whether stage 1 accepts: enough accepts, no reject, no void, and two thirds of all revealed.
    function acceptedInStage1(Tally tally, Least memory least) internal pure returns (bool) {
        unchecked {
            uint256 votes = Tally.unwrap(tally);
            if (votes & REJECTS_AND_VOIDS != 0) return false;
            uint256 accepts = (votes >> BITS) & MASK;
            // What is left are abstentions: at most half as many as accepts.
            return accepts >= least.accepts && accepts >= 2 * (votes & MASK);
        }
    }

    /// @notice Whether stage 2 is about this batch. From round r+4 on nothing changes that: voters who committed to a
    /// verdict about it can always reveal it.
    function inStage2(Tally tally, Least memory least) internal pure returns (bool) {
        if (Tally.unwrap(tally) & CLOSED_BEFORE_STAGE_2 != 0) return false;
        return isDisputed(tally) || !acceptedInStage1(tally, least);
    }

    /// @notice How the batch ends if nothing more happens, the verdicts that are paid for it then, and the stage that
    /// they were given in.
    /// @return outcome_ How it ends
    /// @return paid Verdicts that were right, in its last stage, of voters with a batch of their own
    /// @return lastStage 1 or 2
    function outcome(Tally tally, Least memory least)
        internal
        pure
        returns (Outcome outcome_, uint256 paid, uint256 lastStage)
    {
        uint256 word = Tally.unwrap(tally);
        // Neither marks nor votes of stage 2: the common case, made short.
        if (word >> MARKS_SHIFT == 0) {
            return acceptedInStage1(tally, least)
                ? (Outcome.Accepted, (word >> PAYABLE_ACCEPTS) & MASK, 1)
                : (Outcome.Void, 0, 2);
        }
        lastStage = inStage2(tally, least) ? 2 : 1;
        uint256 votes = _votes(tally, lastStage);
        if (word & (PROVEN_FALSE | VOIDED) != 0) {
            if (word & PROVEN_FALSE == 0) return (Outcome.Void, 0, lastStage);
            outcome_ = Outcome.ProvenFalse;
        } else if (lastStage == 1 || _carried(votes, ACCEPT, least.accepts)) {
            return (Outcome.Accepted, (votes >> PAYABLE_ACCEPTS) & MASK, lastStage);
        } else if (_carried(votes, REJECT, least.rejects)) {
            outcome_ = Outcome.Rejected;
        } else {
            return (Outcome.Void, 0, lastStage);
        }
        paid = (votes >> PAYABLE_REJECTS) & MASK;
    }

    /// @notice The verdict that is right about a batch that ends so; abstain where none is.
    function rightVerdict(Outcome outcome_) internal pure returns (uint256) {
        if (outcome_ == Outcome.Void) return ABSTAIN;
        return outcome_ == Outcome.Accepted ? ACCEPT : REJECT;
    }

    /// @notice Whether a verdict costs its voter a penalty: a reject of what ends accepted by at least five, an accept
    /// of what ends rejected or proven false. Void votes never do: what one can fetch differs.
    function isPunished(Tally tally, Least memory least, uint256 verdict) internal pure returns (bool) {
        (Outcome outcome_,, uint256 lastStage) = outcome(tally, least);
        if (verdict == REJECT) {
            return outcome_ == Outcome.Accepted && count(tally, lastStage, ACCEPT) >= SURE_ACCEPTS;
        }
        return verdict == ACCEPT && (outcome_ == Outcome.Rejected || outcome_ == Outcome.ProvenFalse);
    }

    // ---- inside

    /// @dev The counts of a stage; above those of stage 1 stand others.
    function _votes(Tally tally, uint256 stage) private pure returns (uint256) {
        return stage == 1 ? Tally.unwrap(tally) : Tally.unwrap(tally) >> STAGE_BITS;
    }

    function _revealed(uint256 votes) private pure returns (uint256) {
        unchecked {
            return (votes & MASK) + ((votes >> BITS) & MASK) + ((votes >> (2 * BITS)) & MASK)
                + ((votes >> (3 * BITS)) & MASK);
        }
    }

    function _carried(uint256 votes, uint256 verdict, uint256 least) private pure returns (bool) {
        unchecked {
            uint256 given = (votes >> (BITS * verdict)) & MASK;
            return given >= least && given * 3 >= _revealed(votes) * 2;
        }
    }
}
