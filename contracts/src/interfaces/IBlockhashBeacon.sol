// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {IBeacon} from "./IBeacon.sol";

/// @title A round's entropy is the hash of its first block
/// @notice Round r spans the blocks `FIRST_BLOCK + r * ROUND_BLOCKS` … `FIRST_BLOCK + (r + 1) * ROUND_BLOCKS - 1`.
/// Captured by anybody within the round, after its first block and at most 256 blocks later, because the EVM knows
/// no older hashes. A round that nobody captured in time has no entropy, for ever.
/// @dev The producer of a round's first block can choose among the hashes it can make: a stated assumption.
interface IBlockhashBeacon is IBeacon {
    /// @notice A parameter of the constructor has a value that cannot work.
    error InvalidBeaconClock(uint256 firstBlock, uint256 roundBlocks);

    /// @notice Round 0 has not begun.
    error NotStarted(uint256 firstBlock, uint256 blockNumber);

    /// @notice The hash of the round's first block is known from the next block on.
    error TooEarly(uint256 round, uint256 blockNumber);

    /// @notice The hash of the round's first block could be captured up to `lastBlock`; the round is void.
    error TooLate(uint256 round, uint256 lastBlock);

    /// @notice The chain gives no hash for a block whose hash it should know.
    error NoBlockhash(uint256 round, uint256 blockNumber);

    /// @notice The first block of round 0.
    function FIRST_BLOCK() external view returns (uint256);

    /// @notice How many blocks a round has.
    function ROUND_BLOCKS() external view returns (uint256);
}
