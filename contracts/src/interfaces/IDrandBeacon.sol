// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {IBeacon} from "./IBeacon.sol";

/// @title A round's entropy is the hash of a drand round's signature
/// @notice drand (scheme bls-unchained-g1-rfc9380, as its network quicknet) signs a number every few seconds; the
/// signature of each can be checked by anybody, is the only one, and exists before its time for nobody. `poke`, after the
/// first block of a round and up to a quarter of a round later, fixes which drand round it will be: the first that
/// is signed `MARGIN` seconds or more after that block's timestamp. From then on until the round's first half is over
/// anybody hands its signature to `answer`. So nobody chooses the entropy, nor knows it before the round has begun;
/// not to poke or not to answer makes the round void for all, and takes censoring everybody.
/// @dev Stated assumptions: a timestamp is at most `MARGIN` seconds behind the true time, and no reorganization replaces
/// the block of the poke after more than that.
interface IDrandBeacon is IBeacon {
    /// @notice The drand round of a round was fixed: its signature is what `answer` takes.
    /// @param round The round
    /// @param drandRound The number that drand signs
    event EntropyRequested(uint256 indexed round, uint256 drandRound);

    /// @notice The key is no key of the group, or this chain lacks the precompiles (EIP-2537) that every answer needs.
    error InvalidGroupKey();

    /// @notice drand's clock cannot be: a period of 0, or a genesis, a period or a margin beyond 2**32 seconds.
    error InvalidDrandClock(uint256 genesis, uint256 period, uint256 margin);

    /// @notice Nobody poked in this round, so there is nothing to answer.
    error NotRequested(uint256 round);

    /// @notice These 128 bytes are not the signature of the drand round, or the call had too little gas to tell.
    error InvalidSignature(uint256 round, uint256 drandRound);

    /// @notice When drand's round 1 was signed, in seconds since 1970.
    function GENESIS() external view returns (uint256);

    /// @notice Seconds between two drand rounds.
    function PERIOD() external view returns (uint256);

    /// @notice Seconds between the timestamp of the block of a poke and the drand round, at least.
    function MARGIN() external view returns (uint256);

    /// @notice The group's key, a point of G2 in the 256 bytes of EIP-2537.
    function groupKey() external view returns (bytes memory);

    /// @notice The drand round whose signature is the entropy of a round; 0 if nobody poked (yet).
    /// @param round The round
    function drandRound(uint256 round) external view returns (uint256);

    /// @notice Captures the entropy of the current round, for which somebody poked. Anybody may call it; what is
    /// captured already is returned, whatever is handed in.
    /// @param signature The signature of the drand round: a point of G1 in the 128 bytes of EIP-2537
    /// @return entropy The entropy of the current round: keccak256 of the signature
    function answer(bytes calldata signature) external returns (bytes32 entropy);
}
