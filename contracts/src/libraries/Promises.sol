// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

/// @notice What one node promised of late, in one word: all that a commitment has to read and to write.
/// @dev From the lowest bit: the highest round with a policy, 32 bits; twelve bits "open" (bit i: nothing came yet of the
/// policy for the round i before, and it was not settled); the slots of the last sixteen rounds, 9 bits each, until the
/// batch comes; for each
/// stage the highest round with a commitment to verdicts, 32 bits, and two bits (bit i: the one for the round i before
/// waits to be revealed). So much is enough, because a node with something overdue can promise nothing new.
type Promises is uint256;

using PromisesLib for Promises global;

/// @title Policies that wait for their batch, and verdicts that wait to be revealed
/// @notice Pure functions of a node's word. Rounds stay far below 2**32.
library PromisesLib {
    uint256 private constant ROUND_BITS = 32;
    uint256 private constant ROUND_MASK = (1 << ROUND_BITS) - 1;

    uint256 private constant OPEN_KEPT = 12;
    uint256 private constant OPEN_MASK = (1 << OPEN_KEPT) - 1;
    uint256 private constant OPEN_SHIFT = ROUND_BITS;

    uint256 private constant SLOTS_BITS = 9;
    uint256 internal constant SLOTS_KEPT = 16;
    uint256 private constant SLOTS_MASK = (1 << (SLOTS_BITS * SLOTS_KEPT)) - 1;
    uint256 private constant SLOTS_SHIFT = OPEN_SHIFT + OPEN_KEPT;

    uint256 private constant WAITING_KEPT = 2;
    uint256 private constant LANE_BITS = ROUND_BITS + WAITING_KEPT;
    uint256 private constant LANE_MASK = (1 << LANE_BITS) - 1;
    uint256 private constant LANES_SHIFT = SLOTS_SHIFT + SLOTS_BITS * SLOTS_KEPT;

    // ---- policies

    /// @notice The highest round that the node committed a policy for; 0 if there is none.
    function last(Promises promises) internal pure returns (uint256) {
        return Promises.unwrap(promises) & ROUND_MASK;
    }

    /// @notice The slots of the policy for a round; 0 if there is none, if its batch came, or if it is too long ago.
    function slotsOf(Promises promises, uint256 round) internal pure returns (uint256) {
        uint256 top = last(promises);
        if (round > top || top - round >= SLOTS_KEPT) return 0;
        unchecked {
            return (Promises.unwrap(promises) >> (SLOTS_SHIFT + SLOTS_BITS * (top - round)))
                & ((1 << SLOTS_BITS) - 1);
        }
    }

    /// @notice One more policy. Rounds that pass out of the open bits then are forgotten: they were settled before.
    /// @param round Not a round before the last one, or one of the two before it, and without a policy
    /// @param slots From 1 to 256
    function withPolicy(Promises promises, uint256 round, uint256 slots) internal pure returns (Promises) {
        unchecked {
            uint256 word = Promises.unwrap(promises);
            uint256 top = word & ROUND_MASK;
            if (round > top) {
                uint256 later = round - top;
                uint256 open = (word >> OPEN_SHIFT) & OPEN_MASK;
                uint256 slots_ = (word >> SLOTS_SHIFT) & SLOTS_MASK;
                open = later < OPEN_KEPT ? (open << later) & OPEN_MASK : 0;
                slots_ = later < SLOTS_KEPT ? (slots_ << (SLOTS_BITS * later)) & SLOTS_MASK : 0;
                word =
                    (word >> LANES_SHIFT) << LANES_SHIFT | slots_ << SLOTS_SHIFT | open << OPEN_SHIFT | round;
                top = round;
            }
            uint256 back = top - round;
            return Promises.wrap(word | slots << (SLOTS_SHIFT + SLOTS_BITS * back) | 1 << (OPEN_SHIFT + back));
        }
    }

    /// @notice Whether the policy for a round waits for its batch, and was not settled.
    function isOpen(Promises promises, uint256 round) internal pure returns (bool) {
        uint256 top = last(promises);
        unchecked {
            return round <= top && top - round < OPEN_KEPT
                && (Promises.unwrap(promises) >> (OPEN_SHIFT + top - round)) & 1 == 1;
        }
    }

    /// @notice The policy for a round, which is open, has its batch: that knows the slots now.
    function delivered(Promises promises, uint256 round) internal pure returns (Promises) {
        unchecked {
            uint256 back = last(promises) - round;
            uint256 slots = ((1 << SLOTS_BITS) - 1) << (SLOTS_SHIFT + SLOTS_BITS * back);
            return Promises.wrap(Promises.unwrap(promises) & ~(slots | 1 << (OPEN_SHIFT + back)));
        }
    }

    /// @notice The policy for a round, which is open, was settled: no batch comes any more.
    function forgiven(Promises promises, uint256 round) internal pure returns (Promises) {
        unchecked {
            return Promises.wrap(Promises.unwrap(promises) & ~(1 << (OPEN_SHIFT + last(promises) - round)));
        }
    }

    /// @notice Whether a policy for this round leaves no place for the slots of one that has no batch.
    function forgetsFor(Promises promises, uint256 round) internal pure returns (bool) {
        unchecked {
            uint256 slots = (Promises.unwrap(promises) >> SLOTS_SHIFT) & SLOTS_MASK;
            uint256 top = last(promises);
            if (slots == 0 || round <= top) return false;
            uint256 later = round - top;
            return (later < SLOTS_KEPT ? slots >> (SLOTS_BITS * (SLOTS_KEPT - later)) : slots) != 0;
        }
    }

    // ---- verdicts

    /// @notice One more commitment to verdicts.
    /// @param round Higher than all before: earlier ones wait no more, or are those of the round before
    function withVerdicts(Promises promises, uint256 stage, uint256 round) internal pure returns (Promises) {
        unchecked {
            (uint256 top, uint256 bits) = _lane(promises, stage);
            bits = round == top + 1 ? (bits << 1 | 1) & 3 : 1;
            return _withLane(promises, stage, round, bits);
        }
    }

    /// @notice Whether a commitment to verdicts waits to be revealed.
    function waits(Promises promises, uint256 stage, uint256 round) internal pure returns (bool) {
        (uint256 top, uint256 bits) = _lane(promises, stage);
        unchecked {
            return round <= top && top - round < WAITING_KEPT && (bits >> (top - round)) & 1 == 1;
        }
    }

    /// @notice A commitment to verdicts, which waits, was revealed or settled.
    function withoutVerdicts(Promises promises, uint256 stage, uint256 round)
        internal
        pure
        returns (Promises)
    {
        unchecked {
            (uint256 top, uint256 bits) = _lane(promises, stage);
            return _withLane(promises, stage, top, bits & ~(1 << (top - round)));
        }
    }

    /// @notice Whether verdicts wait that had to be revealed: those of stage 1 two rounds after their own, those of
    /// stage 2 five rounds after.
    function hasOverdueVerdicts(Promises promises, uint256 current) internal pure returns (bool) {
        unchecked {
            uint256 lane = Promises.unwrap(promises) >> LANES_SHIFT;
            uint256 bits = (lane >> ROUND_BITS) & 3;
            if (bits != 0 && _oldest(lane & ROUND_MASK, bits) + 2 < current) return true;
            lane >>= LANE_BITS;
            bits = lane >> ROUND_BITS;
            return bits != 0 && _oldest(lane & ROUND_MASK, bits) + 5 < current;
        }
    }

    /// @notice Whether verdicts are overdue, or a policy for a round that is over is open: if not, nothing is due.
    function mayOwe(Promises promises, uint256 current) internal pure returns (bool) {
        unchecked {
            uint256 word = Promises.unwrap(promises);
            uint256 top = word & ROUND_MASK;
            uint256 open = (word >> OPEN_SHIFT) & OPEN_MASK;
            if ((top < current ? open : open >> (top + 1 - current)) != 0) return true;
            return hasOverdueVerdicts(promises, current);
        }
    }

    // ---- inside

    /// @dev The first of the rounds whose bits are set: one of the two is.
    function _oldest(uint256 top, uint256 bits) private pure returns (uint256) {
        unchecked {
            return bits == 1 ? top : top - 1;
        }
    }

    function _lane(Promises promises, uint256 stage) private pure returns (uint256 top, uint256 bits) {
        unchecked {
            uint256 lane = Promises.unwrap(promises) >> (LANES_SHIFT + LANE_BITS * (stage - 1));
            return (lane & ROUND_MASK, (lane >> ROUND_BITS) & 3);
        }
    }

    function _withLane(Promises promises, uint256 stage, uint256 top, uint256 bits)
        private
        pure
        returns (Promises)
    {
        unchecked {
            uint256 shift = LANES_SHIFT + LANE_BITS * (stage - 1);
            uint256 others = Promises.unwrap(promises) & ~(LANE_MASK << shift);
            return Promises.wrap(others | (bits << ROUND_BITS | top) << shift);
        }
    }
}
