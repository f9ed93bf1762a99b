// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

/// @title The source of a round's entropy
/// @notice Fixed when `Rounds` is deployed. `BlockhashBeacon` is the default; a verifiable random function can
/// stand behind the same two functions.
interface IBeacon {
    /// @notice The entropy of a round was stored. It never changes afterwards.
    /// @param round The round
    /// @param entropy Its entropy, never 0
    event EntropyCaptured(uint256 indexed round, bytes32 entropy);

    /// @notice Captures the entropy of the current round. Anybody may call it, as often as they like.
    /// @return entropy The entropy of the current round, captured now or before. A source that answers later may
    /// return 0 ("asked for, not there yet"); one that cannot answer for this round any more reverts.
    function poke() external returns (bytes32 entropy);

    /// @notice The entropy of a round; 0 if it was not captured (yet). Once it is not 0 it never changes; once the round
    /// is over it never comes: nobody could have used it in time, and who did not would be fined.
    /// @param round The round
    function entropy(uint256 round) external view returns (bytes32);
}
