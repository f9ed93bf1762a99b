// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {IBeacon} from "./IBeacon.sol";

/// @title A round's entropy is the hash of its first block
/// @notice Captured by anybody, as `IBeacon` says when. The EVM knows the last 256 hashes; where half a round is longer,
/// the chain's history contract (EIP-2935) has the last 8,191, if the chain has one. A round whose first block's hash
/// nobody captured in time has no entropy, for ever.
/// @dev The producer of a round's first block can choose among the hashes it can make: a stated assumption.
interface IBlockhashBeacon is IBeacon {
    /// @notice The chain gives no hash for this block: it is further back than the chain remembers.
    error NoBlockhash(uint256 round, uint256 blockNumber);
}
