// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {IBeacon} from "./interfaces/IBeacon.sol";
import {IBlockhashBeacon} from "./interfaces/IBlockhashBeacon.sol";

/// @title A round's entropy is the hash of its first block (see `IBlockhashBeacon`)
contract BlockhashBeacon is IBlockhashBeacon {
    /// @dev `blockhash` answers for this many blocks before the current one.
    uint256 private constant HASHES_KNOWN = 256;

    /// @inheritdoc IBlockhashBeacon
    uint256 public immutable FIRST_BLOCK;

    /// @inheritdoc IBlockhashBeacon
    uint256 public immutable ROUND_BLOCKS;

    /// @inheritdoc IBeacon
    mapping(uint256 round => bytes32) public entropy;

    constructor(uint256 firstBlock, uint256 roundBlocks) {
        // A round of one block has none after its first, in which its hash could be captured.
        if (roundBlocks < 2) revert InvalidBeaconClock(firstBlock, roundBlocks);
        FIRST_BLOCK = firstBlock;
        ROUND_BLOCKS = roundBlocks;
    }

    /// @inheritdoc IBeacon
    function poke() external returns (bytes32) {
        if (block.number < FIRST_BLOCK) revert NotStarted(FIRST_BLOCK, block.number);
        uint256 round = (block.number - FIRST_BLOCK) / ROUND_BLOCKS;
        bytes32 captured = entropy[round];
        if (captured != 0) return captured;

        uint256 first = FIRST_BLOCK + round * ROUND_BLOCKS;
        if (block.number == first) revert TooEarly(round, block.number);
        if (block.number > first + HASHES_KNOWN) revert TooLate(round, first + HASHES_KNOWN);
        captured = blockhash(first);
        if (captured == 0) revert NoBlockhash(round, first);
        entropy[round] = captured;
        emit EntropyCaptured(round, captured);
        return captured;
    }
}
