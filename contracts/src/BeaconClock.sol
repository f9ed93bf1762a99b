// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {IBeacon} from "./interfaces/IBeacon.sol";

/// @title What every beacon stands on: the rounds' clock, when a round's entropy can be captured, and what was
abstract contract BeaconClock is IBeacon {
    /// @dev The first half of a shorter round has no block after the first.
    uint256 private constant LEAST_ROUND_BLOCKS = 4;

    /// @inheritdoc IBeacon
    uint256 public immutable FIRST_BLOCK;

    /// @inheritdoc IBeacon
    uint256 public immutable ROUND_BLOCKS;

    /// @inheritdoc IBeacon
    mapping(uint256 round => bytes32) public entropy;

    constructor(uint256 firstBlock, uint256 roundBlocks) {
        if (roundBlocks < LEAST_ROUND_BLOCKS) revert InvalidBeaconClock(firstBlock, roundBlocks);
        FIRST_BLOCK = firstBlock;
        ROUND_BLOCKS = roundBlocks;
    }

    /// @dev The round of this block, and its first block.
    function _now() internal view returns (uint256 round, uint256 first) {
        if (block.number < FIRST_BLOCK) revert NotStarted(FIRST_BLOCK, block.number);
        round = (block.number - FIRST_BLOCK) / ROUND_BLOCKS;
        first = FIRST_BLOCK + round * ROUND_BLOCKS;
    }

    /// @dev The last block in which the entropy of the round that begins with block `first` can be captured.
    function _lastCapture(uint256 first) internal view returns (uint256) {
        return first + ROUND_BLOCKS / 2 - 1;
    }

    /// @dev Reverts in the round's first block, and after block `last`.
    function _checkTime(uint256 round, uint256 first, uint256 last) internal view {
        if (block.number == first) revert TooEarly(round, first);
        if (block.number > last) revert TooLate(round, last);
    }

    function _store(uint256 round, bytes32 captured) internal {
        entropy[round] = captured;
        emit EntropyCaptured(round, captured);
    }
}
