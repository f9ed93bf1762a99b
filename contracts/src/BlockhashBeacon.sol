// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {BeaconClock} from "./BeaconClock.sol";
import {IBeacon} from "./interfaces/IBeacon.sol";
import {IBlockhashBeacon} from "./interfaces/IBlockhashBeacon.sol";

/// @title A round's entropy is the hash of its first block (see `IBlockhashBeacon`)
contract BlockhashBeacon is BeaconClock, IBlockhashBeacon {
    /// @dev `blockhash` answers for this many blocks before the current one.
    uint256 private constant HASHES_KNOWN = 256;

    /// @dev Of EIP-2935: asked with a block's number, it answers with its hash, or reverts.
    address private constant HISTORY = 0x0000F90827F1C53a10cb7A02335B175320002935;

    constructor(uint256 firstBlock, uint256 roundBlocks) BeaconClock(firstBlock, roundBlocks) {}

    /// @inheritdoc IBeacon
    function poke() external returns (bytes32 captured) {
        (uint256 round, uint256 first) = _now();
        captured = entropy[round];
        if (captured != 0) return captured;

        _checkTime(round, first, _lastCapture(first));
        captured = _hashOf(first);
        if (captured == 0) revert NoBlockhash(round, first);
        _store(round, captured);
    }

    /// @dev The hash of a past block; 0 where the chain gives none.
    function _hashOf(uint256 number) private view returns (bytes32) {
        if (block.number <= number + HASHES_KNOWN) return blockhash(number);
        (bool answered, bytes memory hash) = HISTORY.staticcall(abi.encode(number));
        return answered && hash.length == 32 ? bytes32(hash) : bytes32(0);
    }
}
