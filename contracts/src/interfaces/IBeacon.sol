// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

/// @title The source of a round's entropy
/// @notice Fixed when `Rounds` is deployed, which refuses one with another clock. Round r spans the blocks
/// `FIRST_BLOCK + r * ROUND_BLOCKS` … `FIRST_BLOCK + (r + 1) * ROUND_BLOCKS - 1`. Its entropy is captured after its first
/// block and within its first half, so up to block `FIRST_BLOCK + r * ROUND_BLOCKS + ROUND_BLOCKS / 2 - 1`, or never: what
/// came later would leave nobody the time to use it, and fine everybody.
interface IBeacon {
    /// @notice The entropy of a round was stored. It never changes afterwards.
    /// @param round The round
    /// @param entropy Its entropy, never 0
    event EntropyCaptured(uint256 indexed round, bytes32 entropy);

    /// @notice The clock cannot work: a round has at least 4 blocks, or there is none to capture its entropy in.
    error InvalidBeaconClock(uint256 firstBlock, uint256 roundBlocks);

    /// @notice Round 0 has not begun.
    error NotStarted(uint256 firstBlock, uint256 blockNumber);

    /// @notice This is the round's first block; its entropy can be captured from the next one on.
    error TooEarly(uint256 round, uint256 blockNumber);

    /// @notice What was called could be done up to `lastBlock`; if nobody did, the round is void.
    error TooLate(uint256 round, uint256 lastBlock);

    /// @notice The first block of round 0.
    function FIRST_BLOCK() external view returns (uint256);

    /// @notice How many blocks a round has.
    function ROUND_BLOCKS() external view returns (uint256);

    /// @notice Captures the entropy of the current round. Anybody may call it, as often as they like.
    /// @return entropy The entropy of the current round, captured now or before. A source that answers later
    /// returns 0 till then ("asked for, not there yet"); one that cannot answer for this round any more reverts.
    function poke() external returns (bytes32 entropy);

    /// @notice The entropy of a round; 0 if it was not captured (yet). Once it is not 0 it never changes; once the first
    /// half of the round is over it never comes.
    /// @param round The round
    function entropy(uint256 round) external view returns (bytes32);
}
