// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

/// @notice Everything that was voted and decided about one batch, in one word.
/// @dev From the lowest bit, 20 bits each, for stage 1: abstentions, accepts, rejects, voids (the order of the verdicts'
/// numbers); then the marks; from bit 128 on the same counts for stage 2. So what there is without a stage 2 is half a
/// word. A million votes on one batch would overflow a count: a million bonds.
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
    /// @param dealt To how many voters stage 2 deals each batch of the round, about: half of them have to reject
    struct Least {
        uint256 accepts;
        uint256 rejects;
        uint256 dealt;
    }

    uint256 internal constant ABSTAIN = 0;
    uint256 internal constant ACCEPT = 1;
    uint256 internal constant REJECT = 2;
    uint256 internal constant VOID = 3;

    uint256 private constant BITS = 20;
    uint256 private constant MASK = (1 << BITS) - 1;
    uint256 private constant STAGE_BITS = 128;

    uint256 private constant MARKS_SHIFT = 4 * BITS;
    uint256 private constant PROVEN_FALSE = 1 << MARKS_SHIFT;
    uint256 private constant VOIDED = 2 << MARKS_SHIFT;
    uint256 private constant CLOSED_BEFORE_STAGE_2 = 4 << MARKS_SHIFT;
    uint256 private constant DISPUTED = 8 << MARKS_SHIFT;
    uint256 private constant ANSWERS_DISPUTED = 16 << MARKS_SHIFT;
    uint256 private constant WITHHELD_PAID = 32 << MARKS_SHIFT;

    // ---- what happens to a batch

    /// @notice One more verdict.
    /// @param stage 1 or 2
    /// @param verdict 0 abstain, 1 accept, 2 reject, 3 void
    function counted(Tally tally, uint256 stage, uint256 verdict) internal pure returns (Tally) {
        unchecked {
            return Tally.wrap(Tally.unwrap(tally) + (1 << (STAGE_BITS * (stage - 1) + BITS * verdict)));
        }
    }

    /// @notice Somebody disputed the batch.
    /// @param itself Whether the batch has to stand; if not, what its node answered about other batches
    function disputed(Tally tally, bool itself) internal pure returns (Tally) {
        return Tally.wrap(Tally.unwrap(tally) | (itself ? DISPUTED : ANSWERS_DISPUTED));
    }

    /// @notice Its node was proven false with it, or slashed for another one. The second does not keep the first from
    /// being shown later: who accepted the batch pays for that.
    /// @param provenFalse Whether this very batch was proven false
    /// @param early Whether stage 2 has not begun: then this batch is no part of it
    function closed(Tally tally, bool provenFalse, bool early) internal pure returns (Tally) {
        uint256 marks = (provenFalse ? PROVEN_FALSE : VOIDED) | (early ? CLOSED_BEFORE_STAGE_2 : 0);
        return Tally.wrap(Tally.unwrap(tally) | marks);
    }

    /// @notice Its node paid the fee for a batch that nobody could look at.
    function withheldPaid(Tally tally) internal pure returns (Tally) {
        return Tally.wrap(Tally.unwrap(tally) | WITHHELD_PAID);
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

    /// @notice Whether the batch was proven false.
    function isProvenFalse(Tally tally) internal pure returns (bool) {
        return Tally.unwrap(tally) & PROVEN_FALSE != 0;
    }

    /// @notice Whether stage 1 accepts: enough accepts, no reject, and at least twice as many accepts as voids and
    /// abstentions together. One void is one voter's trouble; one reject is a claim that stage 2 has to judge.
    function acceptedInStage1(Tally tally, Least memory least) internal pure returns (bool) {
        unchecked {
            uint256 votes = Tally.unwrap(tally);
            if ((votes >> (BITS * REJECT)) & MASK != 0) return false;
            uint256 accepts = (votes >> BITS) & MASK;
            uint256 others = (votes & MASK) + ((votes >> (BITS * VOID)) & MASK);
            return accepts >= least.accepts && accepts >= 2 * others;
        }
    }

    /// @notice Whether the accept that was just counted is the one from which on the batch counts for pay: the
    /// `accepts`-th of a stage. Nobody can take an accept away, so it counts once and for ever.
    function beginsToCount(Tally tally, uint256 stage, Least memory least) internal pure returns (bool) {
        return count(tally, stage, ACCEPT) == least.accepts
            && (stage == 1 || count(tally, 1, ACCEPT) < least.accepts);
    }

    /// @notice Whether stage 2 is about this batch. From round r+4 on nothing changes that: voters who committed to a
    /// verdict about it can always reveal it.
    function inStage2(Tally tally, Least memory least) internal pure returns (bool) {
        uint256 word = Tally.unwrap(tally);
        if (word & CLOSED_BEFORE_STAGE_2 != 0) return false;
        return word & (DISPUTED | ANSWERS_DISPUTED) != 0 || !acceptedInStage1(tally, least);
    }

    /// @notice How the batch ends if nothing more happens, the verdicts that are right then, and the stage that they
    /// were given in.
    /// @return outcome_ How it ends
    /// @return paid Verdicts that were right, in its last stage
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
                ? (Outcome.Accepted, (word >> BITS) & MASK, 1)
                : (Outcome.Void, 0, 2);
        }
        lastStage = inStage2(tally, least) ? 2 : 1;
        uint256 votes = _votes(tally, lastStage);
        if (word & (PROVEN_FALSE | VOIDED) != 0) {
            if (word & PROVEN_FALSE == 0) return (Outcome.Void, 0, lastStage);
            outcome_ = Outcome.ProvenFalse;
        } else if (lastStage == 1 || _carries(votes, _given(votes, ACCEPT), least.accepts)) {
            return (Outcome.Accepted, _given(votes, ACCEPT), lastStage);
        } else if (_condemns(votes, _given(votes, REJECT), least)) {
            outcome_ = Outcome.Rejected;
        } else if (word & DISPUTED == 0 && acceptedInStage1(tally, least)) {
            // Only what its node answered was disputed: the batch stands unless it is rejected for that.
            return (Outcome.Accepted, _given(votes, ACCEPT), lastStage);
        } else {
            return (Outcome.Void, 0, lastStage);
        }
        paid = _given(votes, REJECT);
    }

    /// @notice The verdict that is right about a batch that ends so; abstain where none is.
    function rightVerdict(Outcome outcome_) internal pure returns (uint256) {
        if (outcome_ == Outcome.Void) return ABSTAIN;
        return outcome_ == Outcome.Accepted ? ACCEPT : REJECT;
    }

    /// @notice Whether a verdict costs its voter a penalty: an accept of what ends proven false, which anybody could
    /// see; an accept of stage 2, which looks at everything, of what ends rejected; a reject of what ends accepted by
    /// two thirds, and not only because too few rejected what its node answered. Void votes never do: what one can fetch
    /// differs.
    /// @param stage The stage of the verdict
    function isPunished(Tally tally, Least memory least, uint256 stage, uint256 verdict)
        internal
        pure
        returns (bool)
    {
        if (verdict != ACCEPT && verdict != REJECT) return false;
        (Outcome outcome_,,) = outcome(tally, least);
        if (verdict == REJECT) {
            uint256 votes = _votes(tally, 2);
            return outcome_ == Outcome.Accepted && _carries(votes, _given(votes, ACCEPT), least.accepts);
        }
        return outcome_ == Outcome.ProvenFalse || (stage == 2 && outcome_ == Outcome.Rejected);
    }

    /// @notice Whether the node owes the fee for a batch that nobody could look at: stage 1 did not accept it, and in
    /// stage 2 as many found it void or false as have to find a batch false to reject it.
    function owesWithheld(Tally tally, Least memory least) internal pure returns (bool) {
        uint256 word = Tally.unwrap(tally);
        if (word & (WITHHELD_PAID | PROVEN_FALSE | VOIDED) != 0 || acceptedInStage1(tally, least)) {
            return false;
        }
        (Outcome outcome_,,) = outcome(tally, least);
        uint256 votes = _votes(tally, 2);
        return
            outcome_ == Outcome.Void && _condemns(votes, _given(votes, REJECT) + _given(votes, VOID), least);
    }

    /// @notice Whether who disputed the batch had a reason: then the bond comes back. It ended rejected or proven false,
    /// its node was slashed for another batch, or a third of what stage 2 revealed doubts it.
    function isDoubted(Tally tally, Least memory least) internal pure returns (bool) {
        (Outcome outcome_,,) = outcome(tally, least);
        if (isClosed(tally) || outcome_ == Outcome.Rejected) return true;
        uint256 votes = _votes(tally, 2);
        uint256 doubts = _given(votes, REJECT) + _given(votes, VOID);
        return doubts != 0 && 3 * doubts >= _revealed(votes);
    }

    // ---- inside

    /// @dev The counts of a stage; above those of stage 1 stand others.
    function _votes(Tally tally, uint256 stage) private pure returns (uint256) {
        return stage == 1 ? Tally.unwrap(tally) : Tally.unwrap(tally) >> STAGE_BITS;
    }

    function _given(uint256 votes, uint256 verdict) private pure returns (uint256) {
        unchecked {
            return (votes >> (BITS * verdict)) & MASK;
        }
    }

    function _revealed(uint256 votes) private pure returns (uint256) {
        unchecked {
            return (votes & MASK) + ((votes >> BITS) & MASK) + ((votes >> (2 * BITS)) & MASK)
                + ((votes >> (3 * BITS)) & MASK);
        }
    }

    /// @dev Enough, and two thirds of what was revealed: what was not to be had and abstentions count against it.
    function _carries(uint256 votes, uint256 given, uint256 least) private pure returns (bool) {
        unchecked {
            return given >= least && given * 3 >= _revealed(votes) * 2;
        }
    }

    /// @dev That, and half of all to whom the batch was dealt: few voters who reveal, while others cannot, slash nobody.
    function _condemns(uint256 votes, uint256 given, Least memory least) private pure returns (bool) {
        unchecked {
            return _carries(votes, given, least.rejects) && given * 2 >= least.dealt;
        }
    }
}
