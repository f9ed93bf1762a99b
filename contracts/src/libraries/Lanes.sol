// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

/// @title A few recent rounds that are marked, in one word per node
/// @notice Three lanes of 64 bits: the highest round ever marked, and eight bits above it for that round and the seven
/// before. Enough, because a node with something overdue cannot commit to anything new.
library Lanes {
    uint256 private constant LANE_BITS = 64;
    uint256 private constant ROUND_BITS = 56;
    uint256 private constant ROUND_MASK = (1 << ROUND_BITS) - 1;
    uint256 private constant KEPT = 8;

    /// @notice Marks a round. Rounds more than seven before the highest one are forgotten.
    function mark(uint256 word, uint256 lane, uint256 round) internal pure returns (uint256) {
        (uint256 top, uint256 bits) = _read(word, lane);
        if (round > top) {
            bits = round - top < KEPT ? (bits << (round - top)) & 0xff : 0;
            top = round;
        }
        return _write(word, lane, top, bits | (1 << (top - round)));
    }

    /// @notice Takes the mark of a round away; it is marked.
    function unmark(uint256 word, uint256 lane, uint256 round) internal pure returns (uint256) {
        (uint256 top, uint256 bits) = _read(word, lane);
        return _write(word, lane, top, bits & ~(1 << (top - round)));
    }

    /// @notice Whether a round is marked.
    function has(uint256 word, uint256 lane, uint256 round) internal pure returns (bool) {
        (uint256 top, uint256 bits) = _read(word, lane);
        return round <= top && top - round < KEPT && (bits >> (top - round)) & 1 == 1;
    }

    /// @notice Whether any round before this one is marked.
    function hasBefore(uint256 word, uint256 lane, uint256 round) internal pure returns (bool) {
        (uint256 top, uint256 bits) = _read(word, lane);
        return (top < round ? bits : bits >> (top - round + 1)) != 0;
    }

    function _read(uint256 word, uint256 lane) private pure returns (uint256 top, uint256 bits) {
        uint256 part = word >> (LANE_BITS * lane);
        top = part & ROUND_MASK;
        bits = (part >> ROUND_BITS) & 0xff;
    }

    function _write(uint256 word, uint256 lane, uint256 top, uint256 bits) private pure returns (uint256) {
        uint256 shift = LANE_BITS * lane;
        return word & ~(uint256(type(uint64).max) << shift) | (bits << ROUND_BITS | top) << shift;
    }
}
